// Embeddings: rows of a weight, one by one and combined over bags.
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>

namespace hero {

namespace {

// Rows of a table; `padding` gets no gradient.
struct Embedding : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b10;
  int64_t padding;  // -1: none
  bool by_frequency;
  Embedding(int64_t p, bool by) : padding(p), by_frequency(by) {}
  const char* name() const override { return "embedding"; }
  Array forward(const Array& weight, const Array& index) {
    return core::index_select(weight, 0, index);
  }
  Grads backward(const Tensor& g) override {
    Tensor kept = masked_fill(g, unsqueeze(input(1) == padding, -1), 0);
    if (by_frequency) kept = kept * unsqueeze(1.0 / occurrences(g), -1);
    return {detail::index_zeros(kept, input_shape(0), 0, input(1)), Tensor()};
  }
  // How often each index occurs among all of them: [N].
  Tensor occurrences(const Tensor& like) {
    const DType dtype = like.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const Tensor one = ones({like.size(0)}, {.dtype = dtype, .device = like.device()});
    return index_select(detail::index_zeros(one, {input_shape(0)[0]}, 0, input(1)), 0, input(1));
  }
};

// Which bag each position belongs to, and how many bags there are.
struct Bags {
  Tensor of;  // int64 [positions]
  int64_t count = 0;
};

Bags bags_of(const Tensor& index, const EmbeddingBagOptions& o) {
  if (index.ndim() == 2) {
    const Tensor rows = arange(index.size(0), TensorOptions{.device = index.device()});
    return {repeat_interleave(rows, index.size(1), 0), index.size(0)};
  }
  check(index.ndim() == 1 && o.offsets.defined() && o.offsets.ndim() == 1,
        "embedding_bag: the index must be [B, N], or [N] with offsets [B]: got shape ",
        index.shape());
  const int64_t count = o.offsets.numel() - (o.include_last_offset ? 1 : 0);
  check(count >= 0, "embedding_bag: include_last_offset needs an offset");
  const Tensor offsets = o.offsets.detach().to(kInt64), starts = slice(offsets, 0, 0, count);
  if (core::has_values(offsets.device())) {
    const std::vector<int64_t> read = offsets.to_vector<int64_t>();
    int64_t before = 0;
    for (const int64_t at : read) {
      check(at >= before && at <= index.numel(), "embedding_bag: offset ", at, " lies ",
            at < before ? "before the one in front of it, " : "behind the end, ",
            at < before ? before : index.numel());
      before = at;
    }
    check(count == 0 || read.front() == 0, "embedding_bag: the first offset must be 0: got ",
          count == 0 ? 0 : read.front());
  }
  const Tensor places = arange(index.numel(), TensorOptions{.device = index.device()});
  return {searchsorted(starts, places, {.right = true}) - 1, count};
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<int64_t> padding_idx,
                 bool scale_grad_by_freq) {
  const detail::Named named("embedding", {"weight", weight}, {"index", index});
  detail::check_defined("embedding", {{"weight", weight}, {"index", index}});
  check(weight.ndim() == 2, "embedding: weight must be [V, D]: has shape ", weight.shape());
  const int64_t rows = weight.size(0);
  const Tensor flat = reshape(index, {index.numel()});
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  if (!padding_idx && !scale_grad_by_freq) return reshape(index_select(weight, 0, flat), shape);
  int64_t padding = -1;
  if (padding_idx) {
    check(*padding_idx >= -rows && *padding_idx < rows, "embedding: padding_idx ", *padding_idx,
          " does not lie in a weight of ", rows, " rows");
    padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  }
  return reshape(record(Embedding(padding, scale_grad_by_freq), weight, flat), shape);
}

Tensor embedding_bag(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& o) {
  const detail::Named named("embedding_bag", {"weight", weight}, {"index", index});
  detail::check_defined("embedding_bag", {{"weight", weight}, {"index", index}});
  constexpr auto kName = "embedding_bag";
  check(weight.ndim() == 2, kName, ": weight must be [V, D]: has shape ", weight.shape());
  const bool weighs = o.per_sample_weights.defined();
  check(!weighs || (o.mode == BagMode::sum && o.per_sample_weights.shape() == index.shape()), kName,
        ": per_sample_weights are of sums, and of the index's shape");
  check(!o.scale_grad_by_freq || o.mode != BagMode::max, kName,
        ": scale_grad_by_freq is for sums and means, not for maxima");
  if (detail::any_half(weight)) {
    const Tensor weights = weighs ? o.per_sample_weights : Tensor();
    return detail::in_float32(kName, AutocastRule::fallthrough, {weight, index, weights},
                              [o](const auto& in) {
                                EmbeddingBagOptions wide = o;
                                wide.per_sample_weights = in[2];
                                return embedding_bag(in[0], in[1], wide);
                              });
  }
  const Bags bags = bags_of(index, o);
  const Tensor flat = reshape(index, {index.numel()}).to(kInt64);
  Tensor rows = embedding(weight, flat, o.padding_idx, o.scale_grad_by_freq);
  Tensor counted = ones({flat.numel()}, {.dtype = kBool, .device = weight.device()});
  if (o.padding_idx) {
    const int64_t padding = *o.padding_idx < 0 ? *o.padding_idx + weight.size(0) : *o.padding_idx;
    counted = flat != padding;
  }
  const Tensor none =
      zeros({bags.count, weight.size(1)}, {.dtype = weight.dtype(), .device = weight.device()});
  if (o.mode == BagMode::max) {
    rows = where(unsqueeze(counted, 1), rows, -std::numeric_limits<double>::infinity());
    const Tensor place = expand(unsqueeze(bags.of, 1), rows.shape());
    const Tensor found = scatter_reduce(none, 0, place, rows, ScatterReduce::amax, false);
    return where(found == -std::numeric_limits<double>::infinity(), 0, found);
  }
  // Rows that do not count are left out, not multiplied by 0, which would make NaN of infinities.
  const auto without_padding = [&](const Tensor& x, const Tensor& mask) {
    return o.padding_idx ? where(mask, x, 0) : x;
  };
  rows = without_padding(rows, unsqueeze(counted, 1));
  if (weighs) {
    const Tensor factors = without_padding(reshape(o.per_sample_weights, {-1}), counted);
    rows = rows * unsqueeze(factors, 1);
  }
  const Tensor sums = index_add(none, 0, bags.of, rows);
  if (o.mode == BagMode::sum) return sums;
  const Tensor zero_counts =
      zeros({bags.count}, {.dtype = weight.dtype(), .device = weight.device()});
  const Tensor total = index_add(zero_counts, 0, bags.of, counted.to(weight.dtype()));
  return sums / unsqueeze(clamp(total, 1.0, {}), 1);
}

}  // namespace hero
