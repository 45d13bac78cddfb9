#pragma once
// Rotary position embedding: pairs of elements of a query or key are rotated by angles proportional
// to the position, so that the product of a query and a key depends only on their distance. Su et
// al., arXiv 2104.09864.
#include <span>

#include <hero/nn/module.h>

namespace hero::nn {

/// Which elements of a row of D form pair i: (i, i + D / 2), as in GPT-NeoX and Llama, or (2i, 2i +
/// 1), as in the paper.
enum class RotaryPairs { half, interleaved };

/// How rates of rotation are changed for sequences longer than those seen in training.
struct RotaryScaling {
  enum class Kind : uint8_t {
    /// The rates stay as they are.
    none,
    linear,
    /// Pairs that make a full turn within original_positions / high_freq_factor positions keep
    /// their rates; for those that need more than original_positions / low_freq_factor the rates
    /// are divided by `factor`; and between the two, the rate changes gradually from one to the
    /// other. Dubey et al., "The Llama 3 Herd of Models", arXiv 2407.21783.
    llama3,
  };
  Kind kind = Kind::none;             ///< which rule
  double factor = 1.0;                ///< what rates are divided by
  double low_freq_factor = 1.0;       ///< of llama3
  double high_freq_factor = 4.0;      ///< for llama3; larger than low_freq_factor
  int64_t original_positions = 8192;  ///< for llama3: the longest sequence in the original training
};

/// Options of rotary_embedding() and RotaryEmbedding.
struct RotaryOptions {
  double base = 10000.0;                  ///< pair i is rotated by position * base^(-2 i / D)
  RotaryPairs pairs = RotaryPairs::half;  ///< which elements form a pair
  RotaryScaling scaling = {};             ///< changes of the rates
};

/// Rotates x [.., T, D], where D is even and row t is at position offset + t. Returns the same
/// shape and dtype; angles are computed in float64.
Tensor rotary_embedding(const Tensor& x, int64_t offset = 0, const RotaryOptions& options = {});

/// rotary_embedding() as a module without parameters, which keeps its table of sines and cosines.
class RotaryEmbedding : public Module {
 public:
  using Options = RotaryOptions;
  /// Makes the module for rows of `dim` elements. Throws an Error unless dim is even and positive.
  explicit RotaryEmbedding(int64_t dim, const RotaryOptions& options = {});

  using Module::operator();
  /// Rotates x [.., T, dim], which is at positions offset, offset + 1, ...; for queries that follow
  /// cached keys, the offset is the number of these keys.
  Tensor operator()(const Tensor& x, int64_t offset);
  /// Rotates x [B, .., T, dim], whose row b of the first dimension is at positions offsets[b],
  /// offsets[b] + 1, ...
  Tensor operator()(const Tensor& x, std::span<const int64_t> offsets);
  Tensor forward(const Tensor& x) override;

 private:
  Tensor turn(const Tensor& x, std::span<const int64_t> offsets);

  int64_t dim_;
  RotaryOptions options_;
  struct Table;
  std::shared_ptr<Table> table_;  // shared only as that needs no complete type
};

}  // namespace hero::nn
