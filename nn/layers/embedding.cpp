#include <algorithm>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/array/checked.h>
#include <hero/nn/embedding.h>
#include <hero/nn/module/repr.h>

namespace hero::nn {

namespace {

int64_t padding_row(const char* layer, int64_t rows, int64_t index) {
  check(index < rows && (index >= 0 || index + rows >= 0), layer, ": padding_idx ", index,
        " is outside the ", rows, " rows");
  return index < 0 ? index + rows : index;
}

// Normal(0, 1) but for a row of zeros.
Init table_init(const char* layer, int64_t rows, int64_t columns,
                const std::optional<int64_t>& padding_idx) {
  const Init normal = init::normal();
  if (!padding_idx) return normal;
  const core::Checked first_of_row =
      core::Checked{layer, padding_row(layer, rows, *padding_idx)} * columns;
  const int64_t begin = first_of_row.value, end = (first_of_row + columns).value;
  return {[=](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    normal.fill(part, whole, first, stream);
    const int64_t low = std::clamp<int64_t>(begin - first, 0, part.numel());
    const int64_t high = std::clamp<int64_t>(end - first, 0, part.numel());
    if (low < high) Tensor(part.reshape({-1}).slice(0, low, high)).zero_();
  }};
}

void check_row_numbers(const char* layer, const Tensor& x) {
  check(x.dtype() == kInt64 || x.dtype() == kInt32, layer, ": expected row numbers, int64: got ",
        x.dtype(), " of shape ", x.shape());
}

// Rows of the table that x names and that are longer than max_norm become just shorter than it.
void shorten_rows(const char* layer, const Tensor& weight, const Tensor& x, double max_norm,
                  double norm_type) {
  if (x.device() == kMeta || weight.device() == kMeta) return;
  const NoGrad no_grad;
  const int64_t rows = weight.size(0);
  std::vector<int64_t> used = x.to_vector<int64_t>();
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const int64_t index : used) {
    check(index >= 0 && index < rows, layer, ": row ", index, " is outside [0, ", rows, ")");
    const Tensor row = weight.detach().select(0, index);
    const double length = norm(row, norm_type).item();
    // 1e-7, as PyTorch: the row ends just below the bound.
    if (length > max_norm) row.mul_(max_norm / (length + 1e-7));
  }
}

// A padding row becomes its number from the front.
template <class Options>
void check_table_options(const char* layer, int64_t rows, Options& options) {
  if (options.padding_idx) options.padding_idx = padding_row(layer, rows, *options.padding_idx);
  check(!options.max_norm || *options.max_norm > 0.0, layer,
        ": max_norm must be positive: ", options.max_norm.value_or(0.0));
}

}  // namespace

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : rows_(num_embeddings),
      columns_(embedding_dim),
      options_(options),
      weight(parameter("weight", {rows_, columns_},
                       table_init("Embedding", rows_, columns_, options.padding_idx))) {
  check_table_options("Embedding", rows_, options_);
}

Tensor Embedding::forward(const Tensor& x) {
  check_row_numbers("Embedding", x);
  if (options_.max_norm) {
    shorten_rows("Embedding", weight, x, *options_.max_norm, options_.norm_type);
  }
  return embedding(weight, x, options_.padding_idx, options_.scale_grad_by_freq);
}

std::string Embedding::extra_repr() const {
  std::string result = std::to_string(rows_) + ", " + std::to_string(columns_);
  if (options_.padding_idx) result += ", padding_idx=" + std::to_string(*options_.padding_idx);
  if (options_.max_norm) result += ", max_norm=" + repr::text(*options_.max_norm);
  if (options_.norm_type != 2.0) result += ", norm_type=" + repr::text(options_.norm_type);
  if (options_.scale_grad_by_freq) result += ", scale_grad_by_freq=True";
  return result;
}

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
                           const EmbeddingBagOptions& options)
    : rows_(num_embeddings),
      columns_(embedding_dim),
      options_(options),
      weight(parameter("weight", {rows_, columns_},
                       table_init("EmbeddingBag", rows_, columns_, options.padding_idx))) {
  check_table_options("EmbeddingBag", rows_, options_);
}

Tensor EmbeddingBag::forward(const Tensor& x, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  check_row_numbers("EmbeddingBag", x);
  if (options_.max_norm) {
    shorten_rows("EmbeddingBag", weight, x, *options_.max_norm, options_.norm_type);
  }
  return embedding_bag(weight, x,
                       {.offsets = offsets,
                        .mode = options_.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_idx = options_.padding_idx,
                        .scale_grad_by_freq = options_.scale_grad_by_freq});
}

Tensor EmbeddingBag::operator()(const Tensor& x, const Tensor& offsets,
                                const Tensor& per_sample_weights) {
  Tensors inputs{x};
  if (offsets.defined()) inputs.push_back(offsets);
  if (per_sample_weights.defined()) inputs.push_back(per_sample_weights);
  return run_hooked(inputs, [&](const Tensors& in) {
    const Tensor& begins = offsets.defined() ? in[1] : offsets;
    const Tensor& factors = per_sample_weights.defined() ? in.back() : per_sample_weights;
    return Tensors{forward(in[0], begins, factors)};
  })[0];
}

std::string EmbeddingBag::extra_repr() const {
  constexpr const char* kModes[] = {"sum", "mean", "max"};
  std::string result = std::to_string(rows_) + ", " + std::to_string(columns_);
  if (options_.max_norm) result += ", max_norm=" + repr::text(*options_.max_norm);
  if (options_.norm_type != 2.0) result += ", norm_type=" + repr::text(options_.norm_type);
  if (options_.scale_grad_by_freq) result += ", scale_grad_by_freq=True";
  result += std::string(", mode='") + kModes[static_cast<int>(options_.mode)] + "'";
  if (options_.padding_idx) result += ", padding_idx=" + std::to_string(*options_.padding_idx);
  return result;
}

}  // namespace hero::nn
