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
  check(options.dropout_p >= 0.0 && options.dropout_p <= 1.0, kName,
        ": dropout_p is outside [0, 1]: ", options.dropout_p);
  if (!options.enable_gqa) return;
  check(q.ndim() >= 3 && k.ndim() >= 3 && v.ndim() >= 3, kName,
        ": enable_gqa needs a dimension of heads: ", q.shape(), ", ", k.shape(), ", ", v.shape());
  check(k.size(-3) == v.size(-3) && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0, kName, ": ",
        q.size(-3), " heads of q are no multiple of the ", k.size(-3), " of k and ", v.size(-3),
        " of v");
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
  if (options.enable_gqa && q.size(-3) != k.size(-3)) {
    const int64_t heads = q.size(-3) / k.size(-3);
    AttentionOptions plain = options;
    plain.enable_gqa = false;
    return scaled_dot_product_attention(q, repeat_interleave(k, heads, -3),
                                        repeat_interleave(v, heads, -3), plain);
  }
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
  return matmul(dropout(softmax(scores, -1), options.dropout_p), v);
}

}  // namespace hero
