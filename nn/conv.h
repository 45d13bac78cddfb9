#pragma once
// Convolutions. N batch, C input channels, O output channels, L or (D,) H, W positions, K taps.
// Weights and biases start uniform within 1 / sqrt(fan_in), where fan_in is weight.size(1) times
// the taps.
#include <string>

#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::nn {

class BatchNorm;

/// How many elements are added on each side of the input: numbers, "same" (as many as give the
/// output the input's size, for stride 1 only) or "valid" (none).
class Padding {
 public:
  /// The same number on every side.
  Padding(int64_t all) : size_(all) {}
  /// One number above and below, another to the left and right.
  Padding(int64_t height, int64_t width) : size_(0, height, width), count_(2) {}
  /// One number in front and behind, one above and below, one to the left and right.
  Padding(int64_t depth, int64_t height, int64_t width) : size_(depth, height, width), count_(3) {}
  /// {height, width}.
  Padding(const Pair& pair) : Padding(pair[0], pair[1]) {}
  /// {depth, height, width}.
  Padding(const Triple& three) : size_(three), count_(3) {}
  /// "same" or "valid"; throws an Error for any other word.
  Padding(const std::string& word);
  /// "same" or "valid"; throws an Error for any other word.
  template <size_t N>
  Padding(const char (&word)[N]) : Padding(std::string(word)) {}

  /// True for "same".
  bool is_same() const { return word_ == "same"; }
  /// One size for each dimension; zeros for a word. Throws an Error that names `layer` if sizes for
  /// another number of dimensions were given.
  Dims sizes(const char* layer, int dimensions) const;
  /// "same" or "valid"; "" for numbers.
  const std::string& word() const { return word_; }

 private:
  Size3 size_;
  int count_ = 1;  // numbers given
  std::string word_;
};

/// What the added elements are: zeros, the input mirrored, its edge repeated, or its opposite end.
enum class PaddingMode { zeros, reflect, replicate, circular };

/// Options of Conv1d.
struct Conv1dOptions {
  int64_t stride = 1;    ///< positions from one window to the next
  Padding padding = 0;   ///< elements added on each side
  int64_t dilation = 1;  ///< positions from one tap to the next
  int64_t groups = 1;    ///< groups of channels that are convolved separately
  bool bias = true;      ///< whether the layer has a bias
  PaddingMode padding_mode = PaddingMode::zeros;  ///< what the added elements are
};

/// Options of Conv2d.
struct Conv2dOptions {
  Size2 stride = 1;     ///< positions from one window to the next
  Padding padding = 0;  ///< elements added on each side
  Size2 dilation = 1;   ///< positions from one tap to the next
  int64_t groups = 1;   ///< groups of channels that are convolved separately
  bool bias = true;     ///< whether the layer has a bias
  PaddingMode padding_mode = PaddingMode::zeros;  ///< what the added elements are
};

/// Options of Conv3d.
struct Conv3dOptions {
  Size3 stride = 1;     ///< positions from one window to the next
  Padding padding = 0;  ///< elements added on each side
  Size3 dilation = 1;   ///< positions from one tap to the next
  int64_t groups = 1;   ///< groups of channels that are convolved separately
  bool bias = true;     ///< whether the layer has a bias
  PaddingMode padding_mode = PaddingMode::zeros;  ///< what the added elements are
};

/// Options of ConvTranspose1d.
struct ConvTranspose1dOptions {
  int64_t stride = 1;          ///< positions of the output from one input element to the next
  int64_t padding = 0;         ///< elements that are cut off on each side of the output
  int64_t output_padding = 0;  ///< elements that the output has more at its end
  int64_t groups = 1;          ///< groups of channels that are convolved separately
  bool bias = true;            ///< whether the layer has a bias
  int64_t dilation = 1;        ///< positions from one tap to the next
};

/// Options of ConvTranspose2d.
struct ConvTranspose2dOptions {
  Size2 stride = 1;          ///< positions of the output from one input element to the next
  Size2 padding = 0;         ///< elements that are cut off on each side of the output
  Size2 output_padding = 0;  ///< elements that the output has more at its end
  int64_t groups = 1;        ///< groups of channels that are convolved separately
  bool bias = true;          ///< whether the layer has a bias
  Size2 dilation = 1;        ///< positions from one tap to the next
};

/// Options of ConvTranspose3d.
struct ConvTranspose3dOptions {
  Size3 stride = 1;          ///< positions of the output from one input element to the next
  Size3 padding = 0;         ///< elements that are cut off on each side of the output
  Size3 output_padding = 0;  ///< elements that the output has more at its end
  int64_t groups = 1;        ///< groups of channels that are convolved separately
  bool bias = true;          ///< whether the layer has a bias
  Size3 dilation = 1;        ///< positions from one tap to the next
};

/// The common base of the six convolutions: sizes, parameters and description. Throws an Error
/// unless groups divides both numbers of channels.
class Convolution : public Module {
 public:
  std::string extra_repr() const override;

  /// Numbers of channels.
  const int64_t in_channels, out_channels;
  /// The taps; each class says in which shape.
  Tensor& weight;
  Tensor& bias;  ///< [O]; undefined without bias

 protected:
  /// Sizes, with one number for each spatial dimension.
  struct Spec {
    const char* layer;
    Dims kernel, stride, dilation, output_padding;
    Padding padding;
    int64_t groups;
    bool transposed, has_bias;
    PaddingMode mode;
  };
  /// Makes the parameters for these sizes.
  Convolution(int64_t in, int64_t out, const Spec& spec);
  /// Throws an Error unless x is [N, in_channels, ..] or [in_channels, ..].
  void check_input(const Tensor& x) const;
  struct Sides {
    int64_t before, after;
  };
  Sides sides(int axis) const;
  /// The padding that the convolution itself adds; 0 if padded() has added it.
  int64_t product_padding(int axis) const;
  /// x with the padding that the convolution cannot add: an uneven one, or one that is not zeros.
  Tensor padded(const Tensor& x) const;

  friend void fuse_conv_bn_eval(Convolution& conv, const BatchNorm& bn);

  Spec spec_;
  Dims padding_;  ///< in numbers; zeros where a word was given
};

/// The correlation of x [N, C, L] or [C, L] with K taps; the output has floor((L + 2 padding -
/// dilation (K - 1) - 1) / stride) + 1 positions. Parameters: weight [O, C / groups, K], bias [O].
class Conv1d : public Convolution {
 public:
  using Options = Conv1dOptions;
  /// Makes the layer. Throws an Error unless the sizes are positive.
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         const Conv1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The correlation of images x [N, C, H, W] or [C, H, W] with KH x KW taps; the output has floor((H
/// + 2 padding - dilation (KH - 1) - 1) / stride) + 1 rows, and columns likewise. Parameters:
/// weight [O, C / groups, KH, KW], bias [O].
/// \snippet test_examples_networks.cpp Conv2d
class Conv2d : public Convolution {
 public:
  using Options = Conv2dOptions;
  /// Makes the layer. Throws an Error unless the sizes are positive.
  Conv2d(int64_t in_channels, int64_t out_channels, const Size2& kernel_size,
         const Conv2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The correlation of volumes x [N, C, D, H, W] or [C, D, H, W] with KD KH KW taps. Parameters:
/// weight [O, C / groups, KD, KH, KW], bias [O].
class Conv3d : public Convolution {
 public:
  using Options = Conv3dOptions;
  /// Makes the layer for these numbers of channels and of taps.
  Conv3d(int64_t in_channels, int64_t out_channels, const Size3& kernel_size,
         const Conv3dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The transpose of Conv1d: maps [N, C, L] to [N, O, (L - 1) stride - 2 padding + dilation (K - 1)
/// + output_padding + 1]. Parameters: weight [C, O / groups, K], bias [O].
class ConvTranspose1d : public Convolution {
 public:
  using Options = ConvTranspose1dOptions;
  /// Makes the layer. Throws an Error unless the sizes are positive.
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  const ConvTranspose1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The transpose of Conv2d: maps x [N, C, H, W] to [N, O, (H - 1) stride - 2 padding + dilation (KH
/// - 1) + output_padding + 1, ..]. Parameters: weight [C, O / groups, KH, KW], bias [O].
class ConvTranspose2d : public Convolution {
 public:
  using Options = ConvTranspose2dOptions;
  /// Makes the layer. Throws an Error unless the sizes are positive.
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, const Size2& kernel_size,
                  const ConvTranspose2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The transpose of Conv3d. Parameters: weight [C, O / groups, KD, KH, KW], bias [O].
class ConvTranspose3d : public Convolution {
 public:
  using Options = ConvTranspose3dOptions;
  /// Makes the layer for these numbers of channels and of taps.
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, const Size3& kernel_size,
                  const ConvTranspose3dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

}  // namespace hero::nn
