// Families that are not built yet.
#include <hero/cuda/cuda_backend.cuh>

namespace hero::cuda {

void CudaBackend::im2col(const Array&, const Window&, const Array&) {
  fail("im2col: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::col2im(const Array&, const Window&, const Array&) {
  fail("col2im: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::pool(PoolOp, const Array&, const Window&, const Array&, const Array*) {
  fail("pool: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::max_pool_backward(const Array&, const Array&, const Array&) {
  fail("max_pool_backward: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::average_pool_backward(const Array&, const Window&, const Array&) {
  fail("average_pool_backward: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::recurrent_cell(CellKind, const CellStep&) {
  fail("recurrent_cell: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::recurrent_cell_backward(CellKind, const CellStepBack&) {
  fail("recurrent_cell_backward: not available on cuda in this version; compute it on cpu");
}

}  // namespace hero::cuda
