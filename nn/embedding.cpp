#include <algorithm>

#include <hero/autograd/ops.h>
#include <hero/core/checked.h>
#include <hero/nn/embedding.h>
#include <hero/nn/repr.h>

namespace hero::nn {

namespace {

int64_t padding_row(int64_t rows, int64_t index) {
  check(index < rows && (index >= 0 || index + rows >= 0), "Embedding: padding_idx ", index,
        " is outside the ", rows, " rows");
  return index < 0 ? index + rows : index;
}

// Normal(0, 1) but for a row of zeros.
Init table_init(int64_t rows, int64_t columns, const std::optional<int64_t>& padding_idx) {
  const Init normal = init::normal();
  if (!padding_idx) return normal;
  const core::Checked first_of_row =
      core::Checked{"Embedding", padding_row(rows, *padding_idx)} * columns;
  const int64_t begin = first_of_row.value, end = (first_of_row + columns).value;
  return {[=](const Array& part, const Shape& whole, int64_t first, Stream stream) {
    normal.fill(part, whole, first, stream);
    const int64_t low = std::clamp<int64_t>(begin - first, 0, part.numel());
    const int64_t high = std::clamp<int64_t>(end - first, 0, part.numel());
    if (low < high) Tensor(part.reshape({-1}).slice(0, low, high)).zero_();
  }};
}

}  // namespace

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : rows_(num_embeddings),
      columns_(embedding_dim),
      options_(options),
      weight(parameter("weight", {rows_, columns_},
                       table_init(rows_, columns_, options.padding_idx))) {
  if (options_.padding_idx) options_.padding_idx = padding_row(rows_, *options_.padding_idx);
  check(!options_.max_norm || *options_.max_norm > 0.0,
        "Embedding: max_norm must be positive: ", options_.max_norm.value_or(0.0));
}

Tensor Embedding::forward(const Tensor& x) {
  check(x.dtype() == kInt64 || x.dtype() == kInt32, "Embedding: expected row numbers, int64: got ",
        x.dtype(), " of shape ", x.shape());
  if (options_.max_norm) shorten_rows(x);
  return embedding(weight, x, options_.padding_idx);
}

void Embedding::shorten_rows(const Tensor& x) {
  if (x.device() == kMeta || weight.device() == kMeta) return;
  const NoGrad no_grad;
  std::vector<int64_t> used = x.to_vector<int64_t>();
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const int64_t index : used) {
    check(index >= 0 && index < rows_, "Embedding: row ", index, " is outside [0, ", rows_, ")");
    const Tensor row = weight.detach().select(0, index);
    const double length = norm(row, options_.norm_type).item();
    // 1e-7, as PyTorch: the row ends just below the bound.
    if (length > *options_.max_norm) row.mul_(*options_.max_norm / (length + 1e-7));
  }
}

std::string Embedding::extra_repr() const {
  std::string result = std::to_string(rows_) + ", " + std::to_string(columns_);
  if (options_.padding_idx) result += ", padding_idx=" + std::to_string(*options_.padding_idx);
  if (options_.max_norm) result += ", max_norm=" + repr::text(*options_.max_norm);
  if (options_.norm_type != 2.0) result += ", norm_type=" + repr::text(options_.norm_type);
  return result;
}

}  // namespace hero::nn
