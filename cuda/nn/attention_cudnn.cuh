#pragma once
// Attention by cuDNN, if set_attention_library() has chosen it.
#include <string>

#include <hero/core/device/backend.h>

namespace hero::cuda {

using core::Array;
using core::AttentionScores;

/// Whether cuDNN is to compute these scores: it was chosen, there is neither mask nor bias, and
/// first_query is 0 if is_causal. Operands must be halves in aligned rows, keys as long as values.
bool wants_cudnn(const AttentionScores& scores, const Array& k, const Array& v);

/// \name As Backend's; an Error where cuDNN has no engine for these shapes. The backward pass is
/// NVIDIA's deterministic form, which needs a workspace of one half for every score.
/// \{
void cudnn_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                     const Array& out, const Array& log_sum);
void cudnn_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                              const Array& k, const Array& v, const Array& out,
                              const Array& log_sum, const Array& g_q, const Array& g_k,
                              const Array& g_v);
/// \}

/// The number of engines that cuDNN proposes for a GPU that a text describes, forward and backward,
/// for q [B, H, T, D], k and v [B, G, S, D], which may be on any device, also meta. Needs no GPU.
struct CudnnEngines {
  int64_t forward = 0, backward = 0;
};
CudnnEngines cudnn_engines(const std::string& device_json, bool is_causal, const Array& q,
                           const Array& k, const Array& v);

}  // namespace hero::cuda
