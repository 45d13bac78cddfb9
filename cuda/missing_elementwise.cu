// Families that are not built yet.
#include <hero/cuda/cuda_backend.cuh>

namespace hero::cuda {

void CudaBackend::map(MapOp, std::span<const Operand>, DType, const Array&) {
  fail("map: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::copy(const Array&, const Array&) {
  fail("copy: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::random(const RandomFill&, int64_t, const Array&) {
  fail("random: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::bias_activation(Activation, const Array*, const Array&, const Array&) {
  fail("bias_activation: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::random_mask(const RandomFill&, double, const Array&, const Array&) {
  fail("random_mask: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::update(UpdateOp, const Array&, const Array&, std::span<const Array>,
                         std::span<const double>) {
  fail("update: not available on cuda in this version; compute it on cpu");
}

}  // namespace hero::cuda
