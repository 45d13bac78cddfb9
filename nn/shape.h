#pragma once
// Modules that rearrange elements and have no parameters.
#include <hero/autograd/ops/resampling/interpolate.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::nn {

/// Joins dimensions start_dim to end_dim into one; by default all but the batch.
class Flatten : public Module {
 public:
  /// Makes the module. Negative dimensions count from the end.
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
      : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_, end_); }
  std::string extra_repr() const override;

 private:
  int64_t start_, end_;
};

/// Splits dimension `dim` into dimensions of `unflattened_size`, in which one size may be -1.
class Unflatten : public Module {
 public:
  /// Makes the module. A negative dimension counts from the end.
  Unflatten(int64_t dim, const Shape& unflattened_size) : dim_(dim), sizes_(unflattened_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t dim_;
  Shape sizes_;
};

/// \name Padding: of the last one, two or three dimensions of [N, C, ..] or [C, ..]
/// \{
/// One width for all sides, or a pair (before, after) for each dimension from the last one
/// backwards: left, right, top, bottom, front, back.
using PadWidths = OneOrEach<int64_t>;

/// The common base of the paddings. Negative widths cut elements off.
class Pad : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 protected:
  /// Makes the module. Throws an Error unless there is one width, or two for each dimension.
  Pad(int dimensions, const PadWidths& widths, PadMode mode, Scalar value = 0);
  /// The widths as PyTorch prints them.
  std::string widths() const;
  /// The value of what is added.
  Scalar value() const { return value_; }

 private:
  int dimensions_;
  std::vector<int64_t> widths_;
  PadMode mode_;
  Scalar value_;
};

/// Adds zeros on both sides of lines [.., L].
class ZeroPad1d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ZeroPad1d(const PadWidths& padding) : Pad(1, padding, PadMode::constant) {}
};
/// Adds zeros around images [.., H, W].
class ZeroPad2d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ZeroPad2d(const PadWidths& padding) : Pad(2, padding, PadMode::constant) {}
  /// Makes the module, with these widths in braces.
  explicit ZeroPad2d(std::initializer_list<int64_t> padding) : ZeroPad2d(PadWidths(padding)) {}
  /// Makes the module, with a width for each side.
  ZeroPad2d(int64_t left, int64_t right, int64_t top, int64_t bottom)
      : ZeroPad2d(PadWidths{left, right, top, bottom}) {}
};
/// Adds zeros around volumes [.., D, H, W].
class ZeroPad3d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ZeroPad3d(const PadWidths& padding) : Pad(3, padding, PadMode::constant) {}
};

/// The common base of the paddings with one number.
class ConstantPad : public Pad {
 public:
  std::string extra_repr() const override;

 protected:
  /// Makes the module.
  ConstantPad(int dimensions, const PadWidths& padding, Scalar value)
      : Pad(dimensions, padding, PadMode::constant, value) {}
};
/// Adds one number on both sides of lines [.., L].
class ConstantPad1d : public ConstantPad {
 public:
  /// Makes the module, with these widths and this number.
  ConstantPad1d(const PadWidths& padding, Scalar value) : ConstantPad(1, padding, value) {}
};
/// Adds one number around images [.., H, W].
class ConstantPad2d : public ConstantPad {
 public:
  /// Makes the module, with these widths and this number.
  ConstantPad2d(const PadWidths& padding, Scalar value) : ConstantPad(2, padding, value) {}
};
/// Adds one number around volumes [.., D, H, W].
class ConstantPad3d : public ConstantPad {
 public:
  /// Makes the module, with these widths and this number.
  ConstantPad3d(const PadWidths& padding, Scalar value) : ConstantPad(3, padding, value) {}
};
/// Adds the input mirrored at its edge on both sides of lines [.., L].
class ReflectionPad1d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReflectionPad1d(const PadWidths& padding) : Pad(1, padding, PadMode::reflect) {}
};
/// Adds the input mirrored at its edge around images [.., H, W].
class ReflectionPad2d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReflectionPad2d(const PadWidths& padding) : Pad(2, padding, PadMode::reflect) {}
};
/// Adds the input mirrored at its edge around volumes [.., D, H, W].
class ReflectionPad3d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReflectionPad3d(const PadWidths& padding) : Pad(3, padding, PadMode::reflect) {}
};
/// Adds repetitions of the input's edge on both sides of lines [.., L].
class ReplicationPad1d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReplicationPad1d(const PadWidths& padding) : Pad(1, padding, PadMode::replicate) {}
};
/// Adds repetitions of the input's edge around images [.., H, W].
class ReplicationPad2d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReplicationPad2d(const PadWidths& padding) : Pad(2, padding, PadMode::replicate) {}
};
/// Adds repetitions of the input's edge around volumes [.., D, H, W].
class ReplicationPad3d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit ReplicationPad3d(const PadWidths& padding) : Pad(3, padding, PadMode::replicate) {}
};
/// Adds the input's opposite end on both sides of lines [.., L].
class CircularPad1d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit CircularPad1d(const PadWidths& padding) : Pad(1, padding, PadMode::circular) {}
};
/// Adds the input's opposite end around images [.., H, W].
class CircularPad2d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit CircularPad2d(const PadWidths& padding) : Pad(2, padding, PadMode::circular) {}
};
/// Adds the input's opposite end around volumes [.., D, H, W].
class CircularPad3d : public Pad {
 public:
  /// Makes the module, with these widths.
  explicit CircularPad3d(const PadWidths& padding) : Pad(3, padding, PadMode::circular) {}
};
/// \}

/// \name Resampling
/// \{
/// Options of Upsample; give exactly one of the first two.
struct UpsampleOptions {
  OneOrEach<int64_t> size = {};         ///< sizes of the result behind N and C
  OneOrEach<double> scale_factor = {};  ///< new size over old, which is cut to a whole number
  Interpolation mode = Interpolation::nearest;  ///< how values between pixels are found
  bool align_corners = false;           ///< true: the centres of the corners keep their values
  bool recompute_scale_factor = false;  ///< true: positions follow from the sizes alone
};

/// Resamples x [N, C, ..], with one to three dimensions behind C, by interpolate().
class Upsample : public Module {
 public:
  using Options = UpsampleOptions;
  /// Makes the module. Throws an Error unless exactly one of size and scale_factor is given.
  explicit Upsample(const UpsampleOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  UpsampleOptions options_;
};

/// Options of UpsamplingNearest2d and UpsamplingBilinear2d; give exactly one of the two.
struct Upsampling2dOptions {
  OneOrEach<int64_t> size = {};         ///< height and width of the result
  OneOrEach<double> scale_factor = {};  ///< new size over old, down and across
};

/// Resamples images x [N, C, H, W] by nearest neighbours.
class UpsamplingNearest2d : public Upsample {
 public:
  using Options = Upsampling2dOptions;
  /// Makes the module.
  explicit UpsamplingNearest2d(const Upsampling2dOptions& options)
      : Upsample({.size = options.size, .scale_factor = options.scale_factor}) {}
};

/// Resamples images x [N, C, H, W] bilinearly, with aligned corners.
class UpsamplingBilinear2d : public Upsample {
 public:
  using Options = Upsampling2dOptions;
  /// Makes the module.
  explicit UpsamplingBilinear2d(const Upsampling2dOptions& options)
      : Upsample({.size = options.size,
                  .scale_factor = options.scale_factor,
                  .mode = Interpolation::bilinear,
                  .align_corners = true}) {}
};

/// Rearranges [.., C r^2, H, W] to [.., C, H r, W r]. Shi et al., arXiv 1609.05158.
class PixelShuffle : public Module {
 public:
  /// Makes the module.
  explicit PixelShuffle(int64_t upscale_factor) : factor_(upscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor_); }
  std::string extra_repr() const override;

 private:
  int64_t factor_;
};

/// Rearranges [.., C, H r, W r] to [.., C r^2, H, W].
class PixelUnshuffle : public Module {
 public:
  /// Makes the module.
  explicit PixelUnshuffle(int64_t downscale_factor) : factor_(downscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_unshuffle(x, factor_); }
  std::string extra_repr() const override;

 private:
  int64_t factor_;
};

/// Takes the channels of [N, C, ..] as a matrix, groups by C / groups, and transposes it. Zhang et
/// al., arXiv 1707.01083.
class ChannelShuffle : public Module {
 public:
  /// Makes the module.
  explicit ChannelShuffle(int64_t groups) : groups_(groups) {}
  Tensor forward(const Tensor& x) override { return channel_shuffle(x, groups_); }
  std::string extra_repr() const override;

 private:
  int64_t groups_;
};
/// \}

/// \name Windows as columns
/// \{
/// Options of Unfold and Fold.
struct FoldOptions {
  Size2 dilation = 1;  ///< pixels from one element of a window to the next
  Size2 padding = 0;   ///< zeros on each side
  Size2 stride = 1;    ///< pixels from one window to the next
};

/// The windows of images x [N, C, H, W] or [C, H, W] as columns [N, C KH KW, windows].
class Unfold : public Module {
 public:
  using Options = FoldOptions;
  /// Makes the module.
  explicit Unfold(const Size2& kernel_size, const FoldOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  FoldOptions options_;
};

/// Adds columns [N, C KH KW, windows], or without N, up to images [N, C, output_size].
class Fold : public Module {
 public:
  using Options = FoldOptions;
  /// Makes the module.
  Fold(const Size2& output_size, const Size2& kernel_size, const FoldOptions& options = {})
      : output_(output_size), kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 output_, kernel_;
  FoldOptions options_;
};
/// \}

}  // namespace hero::nn
