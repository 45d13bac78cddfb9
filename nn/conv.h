#pragma once
// Convolutions. N batch, C input channels, O output channels, L or H, W positions, K taps. Weights
// and biases start uniform within 1 / sqrt(fan_in), where fan_in is weight.size(1) times the taps.
#include <string>

#include <hero/nn/module.h>
#include <hero/nn/size2.h>

namespace hero::nn {

/// Elements beside the input, a side: numbers, or "same" (the output has the input's size, stride 1
/// only) or "valid" (none).
class Padding {
 public:
  Padding(int64_t both) : size_(both) {}
  Padding(int64_t height, int64_t width) : size_(height, width) {}
  Padding(const Pair& pair) : size_(pair) {}
  Padding(const std::string& word);
  template <size_t N>
  Padding(const char (&word)[N]) : Padding(std::string(word)) {}

  bool is_same() const { return word_ == "same"; }
  const Size2& size() const { return size_; }
  /// "same" or "valid", or "" for numbers.
  const std::string& word() const { return word_; }

 private:
  Size2 size_;
  std::string word_;
};

/// What the elements beside the input are: zeros, or the input mirrored, its edge repeated, or its
/// other end.
enum class PaddingMode { zeros, reflect, replicate, circular };

struct Conv1dOptions {
  int64_t stride = 1;
  Padding padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
};

struct Conv2dOptions {
  Size2 stride = 1;
  Padding padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
};

struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  int64_t dilation = 1;
};

struct ConvTranspose2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Size2 dilation = 1;
};

/// What the four share: their sizes, parameters and description. An Error unless groups divides
/// both numbers of channels.
class Convolution : public Module {
 public:
  std::string extra_repr() const override;

  const int64_t in_channels, out_channels;
  Tensor& weight;
  Tensor& bias;  ///< undefined without bias

 protected:
  /// Sizes in as many numbers as there are spatial dimensions.
  struct Spec {
    const char* layer;
    Dims kernel, stride, dilation, output_padding;
    Padding padding;
    int64_t groups;
    bool transposed, has_bias;
    PaddingMode mode;
  };
  Convolution(int64_t in, int64_t out, const Spec& spec);
  /// Throws unless x is a batch of [in_channels, ..] or one of them.
  void check_input(const Tensor& x) const;
  struct Sides {
    int64_t before, after;
  };
  Sides sides(int axis) const;
  /// Padding that the product itself can add: 0 where padded() has done it.
  int64_t product_padding(int axis) const;
  /// x with what the product cannot add: uneven or not of zeros.
  Tensor padded(const Tensor& x) const;

  Spec spec_;
};

/// x [N, C, L] or [C, L]. Parameters: weight [O, C / groups, K], bias [O].
class Conv1d : public Convolution {
 public:
  using Options = Conv1dOptions;
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         const Conv1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// x [N, C, H, W] or [C, H, W]. Parameters: weight [O, C / groups, KH, KW], bias [O].
/// \snippet test_examples_networks.cpp Conv2d
class Conv2d : public Convolution {
 public:
  using Options = Conv2dOptions;
  Conv2d(int64_t in_channels, int64_t out_channels, const Size2& kernel_size,
         const Conv2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The transpose of Conv1d. Parameters: weight [C, O / groups, K], bias [O].
class ConvTranspose1d : public Convolution {
 public:
  using Options = ConvTranspose1dOptions;
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  const ConvTranspose1dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

/// The transpose of Conv2d: x [N, C, H, W] to [N, O, (H - 1) stride - 2 padding + dilation (KH - 1)
/// + output_padding + 1, ..]. Parameters: weight [C, O / groups, KH, KW], bias [O].
class ConvTranspose2d : public Convolution {
 public:
  using Options = ConvTranspose2dOptions;
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, const Size2& kernel_size,
                  const ConvTranspose2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
};

}  // namespace hero::nn
