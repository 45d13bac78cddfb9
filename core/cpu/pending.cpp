#include <hero/core/cpu/cpu_backend.h>

namespace hero::core::cpu {

void CpuBackend::arg_reduce(ArgOp, const Array&, int, const Array&, const Array&) {
  fail("pending");
}
void CpuBackend::scan(ScanOp, Direction, const Array&, int, const Array&) { fail("pending"); }
void CpuBackend::gather(const Array&, int, const Array&, const Array&) { fail("pending"); }
void CpuBackend::scatter(ScatterMode, const Array&, int, const Array&, const Array&) {
  fail("pending");
}
void CpuBackend::index_select(const Array&, int, const Array&, const Array&) { fail("pending"); }
void CpuBackend::index_add(const Array&, int, const Array&, Scalar, const Array&) {
  fail("pending");
}
void CpuBackend::sort(const Array&, int, bool, const Array&, const Array&) { fail("pending"); }
Array CpuBackend::nonzero(const Array&) { fail("pending"); }
void CpuBackend::im2col(const Array&, const Window&, const Array&) { fail("pending"); }
void CpuBackend::col2im(const Array&, const Window&, const Array&) { fail("pending"); }
void CpuBackend::pool(PoolOp, const Array&, const Window&, const Array&, const Array*) {
  fail("pending");
}
void CpuBackend::average_pool_backward(const Array&, const Window&, const Array&) {
  fail("pending");
}
void CpuBackend::random(const RandomFill&, int64_t, const Array&) { fail("pending"); }
void CpuBackend::update(UpdateOp, const Array&, const Array&, std::span<const Array>,
                        std::span<const double>) {
  fail("pending");
}

}  // namespace hero::core::cpu
