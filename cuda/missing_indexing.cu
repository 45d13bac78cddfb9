// Families that are not built yet.
#include <hero/cuda/cuda_backend.cuh>

namespace hero::cuda {

void CudaBackend::gather(const Array&, int, const Array&, const Array&) {
  fail("gather: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::scatter(ScatterMode, const Array&, int, const Array&, const Array&) {
  fail("scatter: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::index_select(const Array&, int, const Array&, const Array&) {
  fail("index_select: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::index_add(const Array&, int, const Array&, Scalar, const Array&) {
  fail("index_add: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::sort(const Array&, int, bool, const Array&, const Array&) {
  fail("sort: not available on cuda in this version; compute it on cpu");
}
Array CudaBackend::nonzero(const Array&) {
  fail("nonzero: not available on cuda in this version; compute it on cpu");
}

}  // namespace hero::cuda
