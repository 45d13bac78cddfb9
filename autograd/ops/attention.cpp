// Attention. T queries, S keys, D and E sizes of a key and a value.
#include <cmath>
#include <limits>

#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>

namespace hero {

namespace {

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options) {
  constexpr auto kName = "scaled_dot_product_attention";
  check(q.ndim() >= 2 && k.ndim() >= 2 && v.ndim() >= 2, kName,
        ": q, k and v need two dimensions: ", q.shape(), ", ", k.shape(), ", ", v.shape());
  check(q.size(-1) == k.size(-1), kName, ": q and k differ in their last size: ", q.shape(),
        " and ", k.shape());
  check(k.size(-2) == v.size(-2), kName, ": k and v differ in their number of rows: ", k.shape(),
        " and ", v.shape());
  check(!options.mask.defined() || options.mask.dtype() == kBool, kName, ": mask is ",
        options.mask.defined() ? options.mask.dtype() : kBool, "; pass numbers to add as bias");
}

// True where a query may see a key: the lower triangle, aligned top left.
Tensor causal_mask(int64_t T, int64_t S, Device device) {
  const TensorOptions options{.dtype = kInt64, .device = device};
  return unsqueeze(arange(T, options), 1) >= arange(S, options);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check_operands(q, k, v, options);
  const double natural = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  // q is smaller than the scores.
  Tensor scores = matmul(q * options.scale.value_or(natural), transpose(k, -2, -1));
  if (options.bias.defined()) scores = scores + options.bias;
  Tensor mask = options.mask;
  if (options.is_causal) {
    const Tensor causal = causal_mask(q.size(-2), k.size(-2), q.device());
    mask = mask.defined() ? logical_and(mask, causal) : causal;
  }
  if (mask.defined()) scores = where(mask, scores, -std::numeric_limits<double>::infinity());
  return matmul(softmax(scores, -1), v);
}

}  // namespace hero
