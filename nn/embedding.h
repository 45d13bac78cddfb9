#pragma once
// This header has the layer Embedding, which looks up rows of a table, and its options.
#include <optional>

#include <hero/nn/module.h>

namespace hero::nn {

/// Options of Embedding.
struct EmbeddingOptions {
  /// A row that starts at zero and gets no gradient; negative numbers count from the end.
  std::optional<int64_t> padding_idx = {};
  /// Rows that are looked up are first scaled down, in place, to at most this norm.
  std::optional<double> max_norm = {};
  double norm_type = 2.0;  ///< the p of the p-norm that max_norm limits
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
  void shorten_rows(const Tensor& x);

  int64_t rows_, columns_;
  EmbeddingOptions options_;

 public:
  Tensor& weight;  ///< [num_embeddings, embedding_dim]
};

}  // namespace hero::nn
