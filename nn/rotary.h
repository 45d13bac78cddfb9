#pragma once
// Rotary position embedding: pairs of elements of a query or key turn by angles that grow with the
// position, so that their product depends on the distance alone. Su et al., arXiv 2104.09864.
#include <span>

#include <hero/nn/module.h>

namespace hero::nn {

/// Which elements of a row of D form pair i: (i, i + D / 2), as in GPT-NeoX and Llama, or (2i, 2i +
/// 1), as in the paper.
enum class RotaryPairs { half, interleaved };

/// How rates of turning are changed for sequences longer than those of the training.
struct RotaryScaling {
  enum class Kind : uint8_t {
    none,
    linear,  ///< every rate is divided by `factor`. Chen et al., arXiv 2306.15595.
    /// Pairs that turn fully within original_positions / high_freq_factor positions stay, those
    /// that need more than original_positions / low_freq_factor are divided by `factor`, and
    /// between the two a mean of both goes over from one to the other. Dubey et al., "The Llama 3
    /// Herd of Models", arXiv 2407.21783.
    llama3,
  };
  Kind kind = Kind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;       ///< of llama3
  double high_freq_factor = 4.0;      ///< of llama3; larger than low_freq_factor
  int64_t original_positions = 8192;  ///< of llama3: the longest sequence before
};

struct RotaryOptions {
  double base = 10000.0;  ///< pair i turns by position * base^(-2 i / D)
  RotaryPairs pairs = RotaryPairs::half;
  RotaryScaling scaling = {};
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
  /// x [B, .., T, dim], whose row b of the first dimension is at positions offsets[b], offsets[b] +
  /// 1, ...
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
