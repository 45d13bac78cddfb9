#pragma once
// Rotary position embedding: pairs of elements of a query or key are rotated by angles proportional
// to the position, so that the product of a query and a key depends only on their distance. Su et
// al., arXiv 2104.09864.
#include <optional>
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
    /// "Dynamic NTK": up to L = original_positions positions the rates stay as they are. For a
    /// sequence of T > L, `base` is multiplied by (factor T / L - (factor - 1))^(D / (D - 2)), so
    /// that rates become slower as a sequence grows, the slow ones more. T is the last position of
    /// the call plus 1, for each row of its own; what earlier calls have turned, such as cached
    /// keys, keeps its angles, as in transformers (which takes the longest row's T for all). bloc97
    /// and emozilla, 2023; section 3.3 of arXiv 2309.00071.
    dynamic,
    /// Pairs that make more than beta_fast full turns within original_positions keep their rates;
    /// for those that make fewer than beta_slow the rates are divided by `factor`; between the two,
    /// the rate changes linearly with the number of the pair. Besides, sines and cosines are
    /// multiplied by attention_factor. Peng et al., "YaRN", arXiv 2309.00071.
    yarn,
  };
  Kind kind = Kind::none;             ///< the rule by which rates are changed
  double factor = 1.0;                ///< divisor of the rates; at least 1
  double low_freq_factor = 1.0;       ///< for llama3
  double high_freq_factor = 4.0;      ///< for llama3; larger than low_freq_factor
  int64_t original_positions = 8192;  ///< the longest sequence in the original training
  double beta_fast = 32.0;            ///< for yarn, in full turns; larger than beta_slow
  double beta_slow = 1.0;             ///< for yarn, in full turns
  /// For yarn; when absent, 0.1 ln(factor) + 1.
  std::optional<double> attention_factor = {};
  bool truncate = true;  ///< for yarn: true: the ramp begins and ends at whole numbers of pairs
};

/// Options of rotary_embedding() and RotaryEmbedding.
struct RotaryOptions {
  double base = 10000.0;                  ///< pair i is rotated by position * base^(-2 i / D)
  RotaryPairs pairs = RotaryPairs::half;  ///< which elements form a pair
  RotaryScaling scaling = {};             ///< changes of the rates
};

/// Rotates x [.., T, D], where D is even and row t is at position offset + t. Returns the same
/// shape and dtype; angles are computed in float64. Throws an Error for options that make no sense,
/// such as a factor below 1.
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
  std::shared_ptr<Table> table_;  // a shared_ptr only because it needs no complete type
};

}  // namespace hero::nn
