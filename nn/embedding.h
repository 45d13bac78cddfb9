#pragma once
// This header has the layer Embedding, which looks up rows of a table, and its options.
#include <optional>

#include <hero/nn/module.h>

namespace hero::nn {

struct EmbeddingOptions {
  /// A row that starts at zero and gets no gradient; negative numbers count from the end.
  std::optional<int64_t> padding_idx = {};
  /// Rows that are looked up and longer than this are first shortened to it, in place.
  std::optional<double> max_norm = {};
  double norm_type = 2.0;  ///< the p of max_norm
};

/// Rows of a table: x int64 [..] to [.., embedding_dim]. Parameter: weight [num_embeddings,
/// embedding_dim], normal(0, 1).
class Embedding : public Module {
 public:
  using Options = EmbeddingOptions;
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const EmbeddingOptions& options() const { return options_; }

 private:
  void shorten_rows(const Tensor& x);

  int64_t rows_, columns_;
  EmbeddingOptions options_;

 public:
  Tensor& weight;
};

}  // namespace hero::nn
