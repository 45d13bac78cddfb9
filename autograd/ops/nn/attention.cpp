// Attention. T queries, S keys, D and E sizes of a key and a value. A query to which the mask, the
// causal order or the bias leaves no key gives 0, and its row has no gradient.
#include <cmath>
#include <limits>

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/nn/attention.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/half_products.h>

namespace hero {

namespace {

constexpr auto kAttention = "scaled_dot_product_attention";
constexpr double kHidden = -std::numeric_limits<double>::infinity();  // the score of a hidden key

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options) {
  check(q.ndim() >= 2 && k.ndim() >= 2 && v.ndim() >= 2, kAttention,
        ": q, k and v need two dimensions: ", q.shape(), ", ", k.shape(), ", ", v.shape());
  check(q.size(-1) == k.size(-1), kAttention, ": q and k differ in their last size: ", q.shape(),
        " and ", k.shape());
  check(k.size(-2) == v.size(-2), kAttention,
        ": k and v differ in their number of rows: ", k.shape(), " and ", v.shape());
  check(!options.mask.defined() || options.mask.dtype() == kBool, kAttention, ": mask is ",
        options.mask.defined() ? options.mask.dtype() : kBool, "; pass numbers to add as bias");
  check(options.dropout_p >= 0.0 && options.dropout_p <= 1.0, kAttention,
        ": dropout_p is outside [0, 1]: ", options.dropout_p);
  check(options.first_query >= 0 && options.first_query <= kEnd - q.size(-2), kAttention,
        ": first_query is negative or too large: ", options.first_query);
  if (!options.enable_gqa) {
    const bool grouped = q.ndim() >= 4 && k.ndim() >= 4 && k.size(-3) > 1 &&
                         q.size(-3) != k.size(-3) && q.size(-3) % k.size(-3) == 0;
    if (!grouped) return;
    fail(kAttention, ": ", q.shape(), " has ", q.size(-3), " heads of queries and ", k.shape(),
         " has ", k.size(-3),
         " of keys; pass enable_gqa = true to let neighbouring heads of q share one");
  }
  check(q.ndim() >= 3 && k.ndim() >= 3 && v.ndim() >= 3, kAttention,
        ": enable_gqa needs a dimension of heads: ", q.shape(), ", ", k.shape(), ", ", v.shape());
  check(k.size(-3) == v.size(-3) && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0, kAttention,
        ": ", q.size(-3), " heads of q are no multiple of the ", k.size(-3), " of k and ",
        v.size(-3), " of v");
}

// True where a query may see a key: those up to its own position.
Tensor causal_mask(int64_t first, int64_t T, int64_t S, Device device) {
  const TensorOptions options{.dtype = kInt64, .device = device};
  return unsqueeze(arange(first, first + T, 1, options), 1) >= arange(S, options);
}

double scale_of(const Tensor& q, const AttentionOptions& options) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
}

// The definition: scores, softmax, product.
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options) {
  if (options.enable_gqa && q.size(-3) != k.size(-3)) {
    const int64_t heads = q.size(-3) / k.size(-3);
    AttentionOptions plain = options;
    plain.enable_gqa = false;
    return composed_attention(q, repeat_interleave(k, heads, -3), repeat_interleave(v, heads, -3),
                              plain);
  }
  // q is smaller than the scores.
  Tensor scores = matmul(q * scale_of(q, options), transpose(k, -2, -1));
  if (options.bias.defined()) scores = scores + options.bias;
  Tensor mask = options.mask;
  if (options.is_causal) {
    const Tensor causal = causal_mask(options.first_query, q.size(-2), k.size(-2), q.device());
    mask = mask.defined() ? logical_and(mask, causal) : causal;
  }
  if (mask.defined()) scores = where(mask, scores, kHidden);
  // A mask or a bias may hide a whole row.
  const bool hides = mask.defined() || options.bias.defined();
  const Tensor p = hides ? detail::softmax_of_seen(scores) : softmax(scores, -1);
  return matmul(dropout(p, options.dropout_p), v);
}

// The definition of halves is computed in float32 on the CPU, where their products are anyway; a
// GPU has faster ones of halves. Dropout draws anew when a definition runs again, so with it the
// casts are recorded.
Tensor rounded_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options) {
  using detail::widened;
  const Tensor& bias = options.bias;
  const bool lifts =
      detail::any_half(q, k, v, bias) && !core::kernel_traits(q.device()).takes_halves;
  if (!lifts || autocast_enabled()) return composed_attention(q, k, v, options);
  if (options.dropout_p > 0.0) {
    AttentionOptions wide = options;
    wide.bias = widened(bias);
    const Tensor out = composed_attention(widened(q), widened(k), widened(v), wide);
    return out.to(promote(promote(q.dtype(), k.dtype()), v.dtype()));
  }
  return detail::in_float32(kAttention, AutocastRule::lower_precision, {q, k, v, bias},
                            [=](const auto& in) {
                              AttentionOptions wide = options;
                              wide.bias = in[3];
                              return composed_attention(in[0], in[1], in[2], wide);
                            });
}

// Inputs q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]. Of the T * S probabilities only the
// logarithms of their sums are kept.
struct Attention : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  static constexpr unsigned kSaveInputs = 0b111;
  static constexpr unsigned kSaveOutputs = 1;
  AttentionOptions options;
  Array mask, bias;  // expanded to [B, H, T, S], or undefined
  Attention(const AttentionOptions& o, const Shape& scores, DType dtype) : options(o) {
    if (o.mask.defined()) mask = o.mask.array().expand(scores);
    if (o.bias.defined()) bias = o.bias.array().to(dtype).expand(scores);
  }
  const char* name() const override { return "scaled_dot_product_attention"; }

  core::AttentionScores scores(const Array& q) const {
    return {scale_of(Tensor(q), options), options.is_causal, mask.defined() ? &mask : nullptr,
            bias.defined() ? &bias : nullptr, options.first_query};
  }
  // The CPU takes bfloat16 as it is where it has products of it.
  static Array operand(const Array& x) {
    if (core::has_native_products(x.dtype(), x.device())) return x;
    return x.to(detail::fused_dtype(x.dtype(), x.device()));
  }
  // [B, heads, rows, columns] laid out as [B, rows, heads, columns], as the projections around
  // attention want it.
  static Array beside(const Array& like, const Shape& s) {
    const Array out = Array::empty({s[0], s[2], s[1], s[3]}, like.dtype(), like.device());
    return out.permute({0, 2, 1, 3});
  }

  struct Gradients {
    Array q, k, v;
  };
  static Gradients room(const Array& q, const Array& k, const Array& v) {
    if (!are_one(q, k, v))
      return {beside(q, q.shape()), beside(k, k.shape()), beside(v, v.shape())};
    const Array rows = Array::empty({q.size(0), q.size(2), row_of(q, k, v)}, q.dtype(), q.device());
    int64_t at = 0;
    const auto next = [&](const Array& x) {
      const int64_t begin = at;
      at += x.size(1) * x.size(3);
      return rows.slice(2, begin, at)
          .reshape({x.size(0), x.size(2), x.size(1), x.size(3)})
          .permute({0, 2, 1, 3});
    };
    const Array g_q = next(q), g_k = next(k);
    return {g_q, g_k, next(v)};
  }
  static int64_t row_of(const Array& q, const Array& k, const Array& v) {
    return q.size(1) * q.size(3) + k.size(1) * k.size(3) + v.size(1) * v.size(3);
  }
  // Whether q, k and v are the parts of the rows of one array, as one projection gives them. A
  // GPU's gradients lie as they do, so that split() need not join them. Plans still count three
  // gradients and the joining: no less time and memory than there is.
  static bool are_one(const Array& q, const Array& k, const Array& v) {
    if (!core::is_accelerator(q.device()) || q.size(2) != k.size(2)) return false;
    const int64_t row = row_of(q, k, v);
    int64_t at = q.offset();
    for (const Array* x : {&q, &k, &v}) {
      const Dims lie{q.size(2) * row, x->size(3), row, 1};
      for (int d = 0; d < 4; ++d) {
        if (x->size(d) != 1 && x->strides()[d] != lie[d]) return false;
      }
      if (&x->storage() != &q.storage() || x->offset() != at) return false;
      at += x->size(1) * x->size(3);
    }
    return true;
  }

  Array forward(const Array& q_in, const Array& k_in, const Array& v_in) {
    const Array q = operand(q_in), k = operand(k_in), v = operand(v_in);
    Shape shape = q.shape();
    const Array log_sum = Array::empty({shape[0], shape[1], shape[2]},
                                       detail::statistics_dtype(q.dtype()), q.device());
    shape[3] = v.size(3);
    stash(log_sum, 0);
    const Array out = beside(q, shape);
    core::backend(q.device()).run(core::call::Attention{scores(q), q, k, v, out, log_sum});
    return out.to(q_in.dtype());
  }

  Grads backward(const Tensor& g) override {
    if (grad_enabled()) {
      const auto composed = [this](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed_attention(in[0], in[1], in[2], options)};
      };
      return detail::composed_backward(*this, {input(0), input(1), input(2)}, {g}, composed);
    }
    const Array q = operand(input(0).array()), k = operand(input(1).array());
    const Array v = operand(input(2).array());
    const auto [g_q, g_k, g_v] = room(q, k, v);
    core::backend(q.device())
        .run(core::call::AttentionBack{scores(q), operand(g.array()), q, k, v,
                                       operand(output().array()), stashed(0), g_q, g_k, g_v});
    return {Tensor(g_q), Tensor(g_k), Tensor(g_v)};
  }
};

// Leading dimensions as batch and heads: 4-D stays, 2-D and 3-D get ones in front.
Tensor with_heads(const Tensor& x) {
  Tensor result = x;
  while (result.ndim() < 4) result = unsqueeze(result, 0);
  return result;
}

// The fused kernels take equal batches, no dropout, and a bias that wants no gradient.
bool is_fused(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  if (q.ndim() > 4 || q.ndim() != k.ndim() || q.ndim() != v.ndim()) return false;
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype() || !is_floating(q.dtype())) return false;
  if (q.device() != k.device() || q.device() != v.device()) return false;
  if (options.dropout_p > 0.0) return false;
  const bool bias_wants = options.bias.defined() && options.bias.requires_grad() && grad_enabled();
  if (bias_wants || (options.bias.defined() && !is_floating(options.bias.dtype()))) return false;
  const bool grouped = options.enable_gqa;
  for (int i = 0; i + 2 < q.ndim(); ++i) {
    const bool heads = i + 3 == q.ndim();
    if (k.shape()[i] != v.shape()[i]) return false;
    if (q.shape()[i] != k.shape()[i] && !(heads && grouped)) return false;
  }
  // An empty row of keys has no softmax; a scalar mask must fit the scores alone.
  Shape scores = q.shape();
  scores.back() = k.size(-2);
  for (const Tensor* extra : {&options.mask, &options.bias}) {
    if (!extra->defined()) continue;
    if (extra->device() != q.device() || extra->ndim() > q.ndim()) return false;
    if (broadcast_shapes(kAttention, extra->shape(), scores) != scores) return false;
  }
  return k.size(-2) > 0;
}

// x with these batch dimensions in front of its rows and columns.
Tensor with_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return x.shape() == shape ? x : expand(x, shape);
}

Shape batch_of(const Tensor& x) {
  Shape batch = x.shape();
  batch.pop_back();
  batch.pop_back();
  return batch;
}

}  // namespace

Tensor detail::softmax_of_seen(const Tensor& scores) {
  // Zeros in the place of what would be -inf - -inf, so that gradients stay finite too.
  const Tensor hidden = all(scores == kHidden, {-1}, true);
  return where(hidden, 0, softmax(where(hidden, 0, scores), -1));
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  const detail::Named named("scaled_dot_product_attention", {"q", q}, {"k", k}, {"v", v});
  detail::check_defined("scaled_dot_product_attention", {{"q", q}, {"k", k}, {"v", v}});
  check_operands(q, k, v, options);
  if (!is_fused(q, k, v, options)) {
    if (options.enable_gqa) return rounded_attention(q, k, v, options);
    // Batches that broadcast become equal ones, which may be all that the kernels ask for.
    const Shape batch = broadcast_shapes(
        kAttention, broadcast_shapes(kAttention, batch_of(q), batch_of(k)), batch_of(v));
    const Tensor wide_q = with_batch(q, batch), wide_k = with_batch(k, batch);
    const Tensor wide_v = with_batch(v, batch);
    if (!is_fused(wide_q, wide_k, wide_v, options)) return rounded_attention(q, k, v, options);
    return scaled_dot_product_attention(wide_q, wide_k, wide_v, options);
  }
  const Tensor q4 = with_heads(q), k4 = with_heads(k), v4 = with_heads(v);
  Shape scores = q4.shape();
  scores.back() = k.size(-2);
  Tensor out = record(Attention(options, scores, detail::statistics_dtype(q.dtype())), q4, k4, v4);
  while (out.ndim() > q.ndim()) out = squeeze(out, 0);
  return out;
}

}  // namespace hero
