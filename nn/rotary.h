#pragma once
// Rotary position embedding: pairs of elements of a query or key turn by angles that grow with the
// position, so that their product depends on the distance alone. Su et al., arXiv 2104.09864.
#include <hero/nn/module.h>

namespace hero::nn {

/// Which elements of a row of D form pair i: (i, i + D / 2), as in GPT-NeoX and Llama, or (2i, 2i +
/// 1), as in the paper.
enum class RotaryPairs { half, interleaved };

struct RotaryOptions {
  double base = 10000.0;  ///< pair i turns by position * base^(-2 i / D)
  RotaryPairs pairs = RotaryPairs::half;
};

/// x [.., T, D], D even: row t is at position offset + t. The same shape and dtype; angles are
/// computed in float64.
Tensor rotary_embedding(const Tensor& x, int64_t offset = 0, const RotaryOptions& options = {});

/// rotary_embedding as a module without parameters; keeps its table of sines and cosines.
class RotaryEmbedding : public Module {
 public:
  using Options = RotaryOptions;
  /// Rows of `dim` elements; an Error unless dim is even and positive.
  explicit RotaryEmbedding(int64_t dim, const RotaryOptions& options = {});

  using Module::operator();
  /// x [.., T, dim] at positions offset, offset + 1, ...; queries that follow cached keys have
  /// their number as offset.
  Tensor operator()(const Tensor& x, int64_t offset);
  Tensor forward(const Tensor& x) override;

 private:
  Tensor turn(const Tensor& x, int64_t offset);

  int64_t dim_;
  RotaryOptions options_;
  struct Table;
  std::shared_ptr<Table> table_;  // shared only as that needs no complete type
};

}  // namespace hero::nn
