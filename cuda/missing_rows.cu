// Families that are not built yet.
#include <hero/cuda/cuda_backend.cuh>

namespace hero::cuda {

void CudaBackend::arg_reduce(ArgOp, const Array&, int, const Array&, const Array&) {
  fail("arg_reduce: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::scan(ScanOp, Direction, const Array&, int, const Array&) {
  fail("scan: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::softmax(SoftmaxKind, const Array&, int, const Array&) {
  fail("softmax: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::softmax_backward(SoftmaxKind, const Array&, const Array&, int, const Array&) {
  fail("softmax_backward: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::normalize_rows(const RowNorm&, const Array&, const Array&, const Array&,
                                 const Array&) {
  fail("normalize_rows: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::normalize_rows_backward(const RowNorm&, const Array&, const Array&, const Array&,
                                          const Array&, const Array&, const Array*, const Array*) {
  fail("normalize_rows_backward: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::log_likelihood(const Array&, const Array&, const Array&, const Array&) {
  fail("log_likelihood: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::log_likelihood_backward(const Array&, const Array&, const Array&, const Array&,
                                          const Array&) {
  fail("log_likelihood_backward: not available on cuda in this version; compute it on cpu");
}

}  // namespace hero::cuda
