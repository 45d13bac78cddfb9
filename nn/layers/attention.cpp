#include <cmath>
#include <limits>

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/nn/attention.h>
#include <hero/nn/attention.h>
#include <hero/nn/module/reset_parameter.h>

namespace hero::nn {

namespace {

constexpr auto kName = "MultiheadAttention";

// A user's mask in the form that scaled_dot_product_attention takes: `seen` is true where a query
// attends to a key, `added` is added to the scores.
struct Masks {
  Tensor seen, added;

  void join(const char* what, const Tensor& mask, const Shape& shape) {
    if (mask.dtype() == kBool) {
      const Tensor now = logical_not(reshape(mask, shape));
      seen = seen.defined() ? logical_and(seen, now) : now;
      return;
    }
    check(is_floating(mask.dtype()), kName, ": ", what, " is ", mask.dtype(),
          "; it must be bool (true = left out) or floating (added to the scores)");
    const Tensor now = reshape(mask, shape);
    added = added.defined() ? added + now : now;
  }
};

// Of scores [N, H, T, S], behind which there are `further` keys that all queries see.
Masks masks_of(const MultiheadAttentionInputs& inputs, const Shape& scores, int64_t further,
               Device device) {
  Masks masks;
  const int64_t N = scores[0], H = scores[1], T = scores[2], S = scores[3];
  if (inputs.attn_mask.defined()) {
    const Shape& shape = inputs.attn_mask.shape();
    check(shape == Shape{T, S} || shape == Shape{N * H, T, S}, kName, ": attn_mask has shape ",
          shape, "; it should be ", Shape{T, S}, " or ", Shape{N * H, T, S});
    masks.join("attn_mask", inputs.attn_mask,
               shape.size() == 2 ? Shape{1, 1, T, S} : Shape{N, H, T, S});
  }
  if (inputs.key_padding_mask.defined()) {
    const Shape& shape = inputs.key_padding_mask.shape();
    check(shape == Shape{N, S} || (N == 1 && shape == Shape{S}), kName,
          ": key_padding_mask has shape ", shape, "; it should be ", Shape{N, S});
    masks.join("key_padding_mask", inputs.key_padding_mask, {N, 1, 1, S});
  }
  if (further == 0) return masks;
  if (inputs.is_causal) {
    masks.join("is_causal", triu(ones({T, S}, {.dtype = kBool, .device = device}), 1),
               {1, 1, T, S});
  }
  if (masks.seen.defined()) masks.seen = pad(masks.seen, {0, further}, PadMode::constant, 1.0);
  if (masks.added.defined()) masks.added = pad(masks.added, {0, further});
  return masks;
}

void check_shapes(const Tensor& query, const Tensor& key, const Tensor& value,
                  const Dims& features) {
  check(query.ndim() == 2 || query.ndim() == 3, kName, ": query must have 2 or 3 dimensions: got ",
        query.shape());
  check(key.ndim() == query.ndim() && value.ndim() == query.ndim(), kName,
        ": query, key and value differ in their number of dimensions: ", query.shape(), ", ",
        key.shape(), ", ", value.shape());
  const Tensor* given[] = {&query, &key, &value};
  const char* const names[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    check(given[i]->size(-1) == features[i], kName, ": ", names[i], " has ", given[i]->size(-1),
          " features and the layer takes ", features[i], ": ", given[i]->shape());
  }
}

// softmax(q k^T / sqrt(D)) with everything that is masked, [N, H, T, S].
Tensor attention_weights(const Tensor& q, const Tensor& k, const Masks& masks, bool is_causal) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor keys = repeat_interleave(k, q.size(1) / k.size(1), 1);
  Tensor scores = matmul(q * scale, transpose(keys, -2, -1));
  if (masks.added.defined()) scores = scores + masks.added;
  Tensor seen = masks.seen;
  if (is_causal) {
    const TensorOptions options{.dtype = kBool, .device = q.device()};
    const Tensor causal = tril(ones({q.size(-2), k.size(-2)}, options));
    seen = seen.defined() ? logical_and(seen, causal) : causal;
  }
  if (seen.defined()) scores = where(seen, scores, -std::numeric_limits<double>::infinity());
  const bool hides = seen.defined() || masks.added.defined();
  return hides ? detail::softmax_of_seen(scores) : softmax(scores, -1);
}

}  // namespace

MultiheadAttention::Sizes::Sizes(int64_t e, int64_t h, const MultiheadAttentionOptions& options)
    : embed_dim(e),
      heads(h),
      kv_heads(options.num_kv_heads.value_or(h)),
      kdim(options.kdim.value_or(e)),
      vdim(options.vdim.value_or(e)),
      packed(kdim == e && vdim == e) {
  check(e > 0 && h > 0 && e % h == 0, kName, ": num_heads ", h, " does not divide embed_dim ", e);
  Shape{e, e, 4}.numel(kName);  // rows of weights are multiples of it
  check(kv_heads > 0 && h % kv_heads == 0, kName, ": num_kv_heads ", kv_heads,
        " does not divide num_heads ", h);
  check(options.dropout >= 0.0 && options.dropout <= 1.0, kName,
        ": dropout is outside [0, 1]: ", options.dropout);
  kv_dim = e / h * kv_heads;
}

Tensor& MultiheadAttention::weight(const char* name, bool wanted, int64_t rows, int64_t columns) {
  return wanted ? parameter(name, {rows, columns}, init::xavier_uniform()) : no_parameter(name);
}

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : MultiheadAttention(Sizes(embed_dim, num_heads, options), options) {}

MultiheadAttention::MultiheadAttention(const Sizes& s, const MultiheadAttentionOptions& options)
    : q_proj_weight(weight("q_proj_weight", !s.packed, s.embed_dim, s.embed_dim)),
      k_proj_weight(weight("k_proj_weight", !s.packed, s.kv_dim, s.kdim)),
      v_proj_weight(weight("v_proj_weight", !s.packed, s.kv_dim, s.vdim)),
      in_proj_weight(weight("in_proj_weight", s.packed, s.embed_dim + 2 * s.kv_dim, s.embed_dim)),
      in_proj_bias(options.bias
                       ? parameter("in_proj_bias", {s.embed_dim + 2 * s.kv_dim}, init::zeros())
                       : no_parameter("in_proj_bias")),
      bias_k(options.add_bias_kv ? parameter("bias_k", {1, 1, s.kv_dim}, init::xavier_normal())
                                 : no_parameter("bias_k")),
      bias_v(options.add_bias_kv ? parameter("bias_v", {1, 1, s.kv_dim}, init::xavier_normal())
                                 : no_parameter("bias_v")),
      out_proj(
          add<Linear>("out_proj", s.embed_dim, s.embed_dim, LinearOptions{.bias = options.bias})),
      sizes_(s),
      options_(options) {
  for (auto& [name, slot] : out_proj.slots()) {
    if (name == "bias") reset_parameter(*slot, init::zeros());
  }
}

MultiheadAttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                                        const Tensor& value,
                                                        const MultiheadAttentionInputs& inputs) {
  const Tensors outputs = run_hooked({query, key, value}, [&](const Tensors& in) -> Tensors {
    const MultiheadAttentionResult result = attend(in[0], in[1], in[2], inputs);
    if (!inputs.need_weights) return {result.output};
    return {result.output, result.weights};
  });
  return {outputs[0], inputs.need_weights ? outputs[1] : Tensor()};
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  return attend(x, x, x, {.need_weights = false}).output;
}

MultiheadAttention::Projected MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                          const Tensor& value,
                                                          const Projections& by) const {
  const int64_t q_rows = query_rows(), kv_rows = q_rows / (sizes_.heads / kv_heads());
  const int64_t D = sizes_.embed_dim / sizes_.heads;
  const std::vector<int64_t> rows{q_rows, kv_rows, kv_rows};
  const auto heads = [&](const Tensor& x) {  // [N, T, H D] to [N, H, T, D]
    return transpose(x.reshape({x.size(0), x.size(1), x.size(2) / D, D}), 1, 2);
  };
  std::vector<Tensor> parts;
  if (sizes_.packed && is_same(query, key) && is_same(key, value)) {
    parts = split(linear(query, by.in, by.bias), rows, -1);
  } else {
    std::vector<Tensor> weights{by.q, by.k, by.v}, biases(3);
    if (sizes_.packed) weights = split(by.in, rows, 0);
    if (by.bias.defined()) biases = split(by.bias, rows, 0);
    const Tensor* given[] = {&query, &key, &value};
    for (size_t i = 0; i < 3; ++i) parts.push_back(linear(*given[i], weights[i], biases[i]));
  }
  return {heads(parts[0]), heads(parts[1]), heads(parts[2])};
}

// The same where ranks share the sequences: a product for each slice of the positions.
MultiheadAttention::Projected MultiheadAttention::project_slices(const Tensor& query,
                                                                 const Tensor& key,
                                                                 const Tensor& value) const {
  const auto copies = [this](const Tensor& parameter) {
    return parameter.defined() ? sequence()->copies(parameter)
                               : Tensors(static_cast<size_t>(sequence()->slices()));
  };
  const Tensors q = copies(q_proj_weight), k = copies(k_proj_weight), v = copies(v_proj_weight);
  const Tensors in = copies(in_proj_weight), bias = copies(in_proj_bias);
  const Tensors queries = slices_of(*sequence(), query, 1);
  const Tensors keys = is_same(key, query) ? queries : slices_of(*sequence(), key, 1);
  const Tensors values = is_same(value, key) ? keys : slices_of(*sequence(), value, 1);
  Tensors of_q, of_k, of_v;
  for (size_t i = 0; i < queries.size(); ++i) {
    const Projected each =
        project(queries[i], keys[i], values[i], {q[i], k[i], v[i], in[i], bias[i]});
    of_q.push_back(each.q);
    of_k.push_back(each.k);
    of_v.push_back(each.v);
  }
  return {cat(of_q, 2), cat(of_k, 2), cat(of_v, 2)};
}

void MultiheadAttention::add_further(Projected& all) const {
  const int64_t N = all.q.size(0), H = sizes_.kv_heads, D = all.q.size(3);
  const auto behind = [&](Tensor& list, const Tensor& one) {
    if (options_.add_bias_kv) list = cat({list, one.reshape({1, H, 1, D}).expand({N, H, 1, D})}, 2);
    if (options_.add_zero_attn) list = pad(list, {0, 0, 0, 1});
  };
  behind(all.k, bias_k);
  behind(all.v, bias_v);
}

void MultiheadAttention::check_shared(const Tensor& query, const Tensor& key,
                                      const MultiheadAttentionInputs& inputs) const {
  check(!inputs.need_weights, kName,
        ": the weights of all positions are on no rank where ranks share the sequences "
        "(dist::context_parallel); set need_weights = false");
  check(!inputs.attn_mask.defined() && !inputs.key_padding_mask.defined(), kName,
        ": masks are of whole sequences, which ranks share here (dist::context_parallel); "
        "is_causal is what they can do");
  check(options_.dropout == 0.0 || !training(), kName, ": dropout ", options_.dropout,
        " would draw alike on ranks that share sequences (dist::context_parallel); train with "
        "dropout 0");
  check(
      !options_.add_bias_kv && !options_.add_zero_attn, kName,
      ": further keys (add_bias_kv, add_zero_attn) are on no rank where ranks share the sequences "
      "(dist::context_parallel)");
  check(query.size(1) == key.size(1), kName, ": ", query.size(1), " positions of queries and ",
        key.size(1), " of keys are here; ranks that share sequences have as many of both");
}

ParallelForm MultiheadAttention::parallel_form() const {
  AttentionForm form{.heads = sizes_.heads, .kv_heads = sizes_.kv_heads};
  ParallelForm parallel{.by_position = {"out_proj"},
                        .shares_sequence = true,
                        .positions = options_.batch_first ? 1 : 0};
  const auto cut = [&](const char* name, std::vector<Heads> rows) {
    form.weights.push_back({name, std::move(rows)});
    parallel.position_parameters.push_back(name);
  };
  if (sizes_.packed) cut("in_proj_weight", {Heads::queries, Heads::keys, Heads::values});
  if (options_.bias) cut("in_proj_bias", {Heads::queries, Heads::keys, Heads::values});
  if (!sizes_.packed) {
    cut("q_proj_weight", {Heads::queries});
    cut("k_proj_weight", {Heads::keys});
    cut("v_proj_weight", {Heads::values});
  }
  form.weights.push_back({"out_proj.weight"});
  if (options_.bias) form.bias = "out_proj.bias";
  if (options_.add_bias_kv) {
    parallel.position_parameters.insert(parallel.position_parameters.end(), {"bias_k", "bias_v"});
  }
  parallel.attention = std::move(form);
  return parallel;
}

int64_t MultiheadAttention::kv_heads() const { return sizes_.kv_heads * kv_copies(); }

int64_t MultiheadAttention::query_rows() const {
  if (!sizes_.packed) return q_proj_weight.size(0);
  return in_proj_weight.size(0) * sizes_.heads / (sizes_.heads + 2 * kv_heads());
}

MultiheadAttentionResult MultiheadAttention::attend(const Tensor& query, const Tensor& key,
                                                    const Tensor& value,
                                                    const MultiheadAttentionInputs& inputs) {
  check_shapes(query, key, value, {sizes_.embed_dim, sizes_.kdim, sizes_.vdim});
  const bool batched = query.ndim() == 3, swap = batched && !options_.batch_first;
  const auto batch_first = [&](const Tensor& x) {
    return batched ? (swap ? transpose(x, 0, 1) : x) : unsqueeze(x, 0);
  };
  const Tensor q_in = batch_first(query);
  const Tensor k_in = is_same(key, query) ? q_in : batch_first(key);
  const Tensor v_in = is_same(value, key) ? k_in : batch_first(value);
  if (sequence() != nullptr) check_shared(q_in, k_in, inputs);
  const bool sliced = sequence() != nullptr && sequence()->slices() > 1;
  Projected all =
      sliced ? project_slices(q_in, k_in, v_in)
             : project(q_in, k_in, v_in,
                       {q_proj_weight, k_proj_weight, v_proj_weight, in_proj_weight, in_proj_bias});

  const int64_t keys = all.k.size(2);
  const bool adds = options_.add_bias_kv || options_.add_zero_attn;
  check(!adds || all.q.size(1) == sizes_.heads, kName, ": ", all.q.size(1), " of ", sizes_.heads,
        " heads are here; further keys (add_bias_kv, add_zero_attn) are of all");
  if (adds) add_further(all);
  const auto& [q, k, v] = all;
  const Masks masks =
      masks_of(inputs, {q.size(0), q.size(1), q.size(2), keys}, k.size(2) - keys, q.device());
  const bool is_causal = inputs.is_causal && !adds;  // else the mask says so
  const double p = training() ? options_.dropout : 0.0;
  check(q.size(1) == sizes_.heads || (p == 0.0 && !inputs.need_weights), kName, ": ", q.size(1),
        " of ", sizes_.heads, " heads are here, and ",
        inputs.need_weights ? "weights" : "dropout of the weights",
        " would be of all; set need_weights = false and train with dropout 0 where heads are cut");
  Tensor heads, weights;
  if (inputs.need_weights) {
    // Of halves all is computed in float32 and rounded at the end.
    const bool wide = detail::is_half(q) && !autocast_enabled();
    const auto widened = [&](const Tensor& x) { return wide ? x.to(kFloat32) : x; };
    const DType half = q.dtype();
    const auto rounded = [&](const Tensor& x) { return wide ? x.to(half) : x; };
    weights = dropout(attention_weights(widened(q), widened(k), masks, is_causal), p);
    const Tensor values = repeat_interleave(widened(v), sizes_.heads / kv_heads(), 1);
    heads = rounded(matmul(weights, values));
    weights = rounded(inputs.average_attn_weights ? mean(weights, {1}) : weights);
    if (!batched) weights = weights.squeeze(0);
  } else {
    const AttentionOptions scores{.mask = masks.seen,
                                  .bias = masks.added,
                                  .is_causal = is_causal,
                                  .dropout_p = p,
                                  .enable_gqa = kv_heads() != sizes_.heads};
    heads = shared_attention(q, k, v, scores);
  }
  const Tensor joined = transpose(heads, 1, 2).reshape({q_in.size(0), q_in.size(1), query_rows()});
  const Tensor output = out_proj(joined);
  return {batched ? (swap ? transpose(output, 0, 1) : output) : output.squeeze(0), weights};
}

}  // namespace hero::nn
