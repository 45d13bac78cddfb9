// Families that are not built yet.
#include <hero/cuda/cuda_backend.cuh>

namespace hero::cuda {

void CudaBackend::attention(const AttentionScores&, const Array&, const Array&, const Array&,
                            const Array&, const Array&) {
  fail("attention: not available on cuda in this version; compute it on cpu");
}
void CudaBackend::attention_backward(const AttentionScores&, const Array&, const Array&,
                                     const Array&, const Array&, const Array&, const Array&,
                                     const Array&, const Array&, const Array&) {
  fail("attention_backward: not available on cuda in this version; compute it on cpu");
}

}  // namespace hero::cuda
