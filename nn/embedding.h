#pragma once
// Layers that look up rows of a table, one by one or as sums, means or maxima of bags of them.
#include <optional>

#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// Options of Embedding.
struct EmbeddingOptions {
  /// A row that starts at zero and gets no gradient; negative numbers count from the end.
  std::optional<int64_t> padding_idx = {};
  /// Rows that are looked up are first scaled down, in place, to at most this norm. Ranks that
  /// share the table and shorten other rows get an Error.
  std::optional<double> max_norm = {};
  double norm_type = 2.0;  ///< the p of the p-norm that max_norm limits
  /// Divide the gradient of a row by the number of times that x names it.
  bool scale_grad_by_freq = false;
};

/// Looks up rows of a table: maps int64 x [..] to [.., embedding_dim]. Parameter: weight
/// [num_embeddings, embedding_dim], drawn from a normal distribution of mean 0 and variance 1.
class Embedding : public Module {
 public:
  using Options = EmbeddingOptions;
  /// Makes the table. Throws an Error unless padding_idx is a row and max_norm is positive.
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  /// The options that the layer was made with.
  const EmbeddingOptions& options() const { return options_; }

 private:
  int64_t rows_, columns_;
  EmbeddingOptions options_;

 public:
  Tensor& weight;  ///< [num_embeddings, embedding_dim]
};

/// Options of EmbeddingBag.
struct EmbeddingBagOptions {
  /// Rows that are looked up are first scaled down, in place, to at most this norm. Ranks that
  /// share the table and shorten other rows get an Error.
  std::optional<double> max_norm = {};
  double norm_type = 2.0;            ///< the p of the p-norm that max_norm limits
  BagMode mode = BagMode::mean;      ///< how the rows of a bag are combined
  bool include_last_offset = false;  ///< true: the last offset is the end of the last bag
  /// A row that does not count and gets no gradient; negative numbers count from the end.
  std::optional<int64_t> padding_idx = {};
  /// Divide the gradient of a row by the number of times that x names it; not for maxima.
  bool scale_grad_by_freq = false;
};

/// The sum, the mean or the largest of some rows of a table: maps int64 x [B, N], with a bag in
/// each row, or [N] with int64 offsets [B] at which bags begin, to [B, embedding_dim]; an empty bag
/// gives 0. Parameter: weight [num_embeddings, embedding_dim], drawn from a normal distribution of
/// mean 0 and variance 1.
class EmbeddingBag : public Module {
 public:
  using Options = EmbeddingBagOptions;
  /// Makes the table. Throws an Error unless padding_idx is a row and max_norm is positive.
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
               const EmbeddingBagOptions& options = {});
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  /// per_sample_weights, of x's shape, are factors of the rows, for sums only.
  Tensor forward(const Tensor& x, const Tensor& offsets, const Tensor& per_sample_weights = {});
  using Module::operator();
  /// Calls forward(), with hooks around it.
  Tensor operator()(const Tensor& x, const Tensor& offsets, const Tensor& per_sample_weights = {});
  std::string extra_repr() const override;
  /// The options that the layer was made with.
  const EmbeddingBagOptions& options() const { return options_; }

 private:
  int64_t rows_, columns_;
  EmbeddingBagOptions options_;

 public:
  Tensor& weight;  ///< [num_embeddings, embedding_dim]
};

}  // namespace hero::nn
