#pragma once
// Operations on images: resampling, sampling at points, windows as columns and back; also
// normalize() and other functions of torch.nn.functional that nn_ops.h does not have.
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

/// \name Resampling
/// \{
/// How interpolate() computes new pixels.
enum class Interpolation {
  /// Pixel floor(i in / out).
  nearest,
  /// Pixel floor((i + 1/2) in / out).
  nearest_exact,
  /// Linear, for [N, C, L].
  linear,
  /// Bilinear, for [N, C, H, W].
  bilinear,
  /// Bicubic, for [N, C, H, W], with a = -0.75. Keys, IEEE TASSP 29, 1981.
  bicubic,
  /// Trilinear, for [N, C, D, H, W].
  trilinear,
  area  ///< means of the cells of adaptive_avg_pool2d
};
/// Options of interpolate().
struct InterpolateOptions {
  /// The new sizes of the dimensions after N and C, or one for all of them. Give either these or
  /// scale_factor.
  std::vector<int64_t> size = {};
  /// The new size divided by the old one, for each dimension or one for all; new sizes are rounded
  /// down.
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;  ///< how new pixels are computed
  /// True: the centres of the corner pixels keep their values; for the linear modes and bicubic
  /// only.
  bool align_corners = false;
  /// True: positions are computed from the sizes, not from scale_factor.
  bool recompute_scale_factor = false;
  /// True: when an image shrinks, each new pixel is a mean over all old pixels that it covers; for
  /// bilinear and bicubic only (for which a is then -0.5), without align_corners.
  bool antialias = false;
};
/// Resamples x [N, C, ..], which has one to three dimensions after C. It has derivatives of any
/// order.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// The older name of interpolate().
Tensor upsample(const Tensor& x, const InterpolateOptions& options);

/// How grid_sample() computes values between pixels.
enum class GridMode { bilinear, nearest, bicubic };
/// What grid_sample() takes for pixels outside of the image.
enum class GridPadding { zeros, border, reflection };
/// Options of grid_sample().
struct GridSampleOptions {
  /// For volumes bilinear is trilinear, and bicubic is an Error.
  GridMode mode = GridMode::bilinear;
  GridPadding padding_mode = GridPadding::zeros;  ///< what lies outside of the image
  /// True: -1 and 1 are the centres of corner pixels, else their edges.
  bool align_corners = false;
};
/// Samples x [N, C, H, W] at the points grid [N, h, w, 2] (x before y, with -1 and 1 at the
/// borders), which gives [N, C, h, w]; or x [N, C, D, H, W] at grid [N, d, h, w, 3]. Outside of the
/// image there are zeros, the border's pixels, or the image reflected. NaN counts as -1. Jaderberg
/// et al., arXiv 1506.02025.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
/// The grid of points for grid_sample() that the affine maps theta [N, 2, 3] give for images of
/// size [N, C, H, W], or theta [N, 3, 4] for volumes of size [N, C, D, H, W].
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);
/// \}

/// \name Windows
/// \{
/// Options of unfold() and fold().
struct UnfoldOptions {
  Pair dilation = {1, 1};  ///< pixels from one element of a window to the next
  Pair padding = {0, 0};   ///< zeros on each side
  Pair stride = {1, 1};    ///< pixels from one window to the next
};
/// The windows of images x [N, C, H, W] or [C, H, W] as columns [N, C KH KW, windows]: im2col.
Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options = {});
/// Adds columns [N, C KH KW, windows], or without N, up to images [N, C, output_size]: the
/// transpose of unfold().
Tensor fold(const Tensor& columns, Pair output_size, Pair kernel_size,
            const UnfoldOptions& options = {});
/// max_pool2d() together with the positions of the largest elements, int64 in the flattened H W; of
/// equal elements the first.
ValuesIndices max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                                      const PoolOptions& options = {});
/// max_pool1d() together with the positions of the largest elements, int64.
ValuesIndices max_pool1d_with_indices(const Tensor& x, int64_t kernel_size,
                                      const Pool1dOptions& options = {});
/// adaptive_max_pool2d() together with the positions of the largest elements.
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, Pair output_size);
/// adaptive_max_pool1d() together with the positions of the largest elements.
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output_size);
/// Puts x [N, C, h, w] or [C, h, w] at the positions that max pooling found, with zeros elsewhere.
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair output_size);
/// Does the same in one dimension.
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, int64_t output_size);
/// \}

/// \name Volumes: x [N, C, D, H, W] or [C, D, H, W]
/// \{
/// Options of conv3d().
struct Conv3dOptions {
  Triple stride = {1, 1, 1};    ///< positions from one window to the next
  Triple padding = {0, 0, 0};   ///< zeros on each side
  Triple dilation = {1, 1, 1};  ///< positions from one tap to the next
  int64_t groups = 1;           ///< groups of channels that are convolved separately
};
/// Convolution with weight [O, C / groups, KD, KH, KW] and bias [O]. It is computed by conv2d() of
/// slices, whose channels are the taps along D.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {});
/// Options of conv_transpose3d().
struct ConvTranspose3dOptions {
  Triple stride = {1, 1, 1};   ///< positions of the output from one input element to the next
  Triple padding = {0, 0, 0};  ///< elements that are cut off on each side of the output
  Triple output_padding = {0, 0, 0};  ///< elements that the output has more at its end
  Triple dilation = {1, 1, 1};        ///< positions from one tap to the next
  int64_t groups = 1;                 ///< groups of channels that are convolved separately
};
/// The transpose of conv3d(), with weight [C, O / groups, KD, KH, KW] and bias [O].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});
/// Options of max_pool3d() and avg_pool3d().
struct Pool3dOptions {
  /// Positions from one window to the next; the kernel size when absent.
  std::optional<Triple> stride = {};
  Triple padding = {0, 0, 0};  ///< elements on each side, which do not count or are 0
  /// For max pooling: positions from one element of a window to the next.
  Triple dilation = {1, 1, 1};
  bool ceil_mode = false;  ///< true: keep a last window that extends over the end
  /// For average pooling: divide by the size of the window, including padding.
  bool count_include_pad = true;
  /// For average pooling: what sums of windows are divided by, in place of their size.
  std::optional<int64_t> divisor_override = {};
};
/// The largest element in each window.
Tensor max_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options = {});
/// max_pool3d() together with the positions of the largest elements, int64 in the flattened D H W.
ValuesIndices max_pool3d_with_indices(const Tensor& x, Triple kernel_size,
                                      const Pool3dOptions& options = {});
/// The mean of each window.
Tensor avg_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options = {});
/// Means of the cells of adaptive_avg_pool2d(), in three dimensions.
Tensor adaptive_avg_pool3d(const Tensor& x, Triple output_size);
/// The largest elements of the same cells.
Tensor adaptive_max_pool3d(const Tensor& x, Triple output_size);
/// adaptive_max_pool3d() together with the positions of the largest elements.
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, Triple output_size);
/// Puts x [N, C, d, h, w] or [C, d, h, w] at the positions that max pooling found.
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Triple output_size);
/// \}

/// \name Power-average pooling and fractional max pooling
/// \{
/// Options of lp_pool1d().
struct LpPool1dOptions {
  std::optional<int64_t> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;              ///< true: keep a last window that extends over the end
};
/// (Sum of x^norm_type)^(1 / norm_type) over each window of x [N, C, L] or [C, L], floating; NaN
/// where the sum is negative, and without a gradient where it is 0. norm_type is above 0.
Tensor lp_pool1d(const Tensor& x, double norm_type, int64_t kernel_size,
                 const LpPool1dOptions& options = {});
/// Options of lp_pool2d().
struct LpPool2dOptions {
  std::optional<Pair> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;           ///< true: keep a last window that extends over the end
};
/// Does the same with windows of images x [N, C, H, W] or [C, H, W].
Tensor lp_pool2d(const Tensor& x, double norm_type, Pair kernel_size,
                 const LpPool2dOptions& options = {});
/// Options of lp_pool3d().
struct LpPool3dOptions {
  std::optional<Triple> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;             ///< true: keep a last window that extends over the end
};
/// Does the same with windows of volumes x [N, C, D, H, W] or [C, D, H, W].
Tensor lp_pool3d(const Tensor& x, double norm_type, Triple kernel_size,
                 const LpPool3dOptions& options = {});
/// Options of fractional_max_pool2d(); give exactly one of the first two.
struct FractionalPool2dOptions {
  std::optional<Pair> output_size = {};  ///< windows down and across
  /// The same as parts of x's sizes, above 0 and below 1, which are cut to whole numbers.
  std::optional<std::array<double, 2>> output_ratio = {};
  /// [N, C, 2], in [0, 1): where windows begin across and down; drawn when undefined.
  Tensor random_samples = {};
};
/// The largest element in each of output_size windows of images x [N, C, H, W] or [C, H, W], which
/// begin at random places, the first at the beginning and the last at the end. Graham, arXiv
/// 1412.6071.
Tensor fractional_max_pool2d(const Tensor& x, Pair kernel_size,
                             const FractionalPool2dOptions& options);
/// fractional_max_pool2d() together with the positions of the largest elements, int64 in the
/// flattened H W.
ValuesIndices fractional_max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                                                 const FractionalPool2dOptions& options);
/// Options of fractional_max_pool3d(); give exactly one of the first two.
struct FractionalPool3dOptions {
  std::optional<Triple> output_size = {};  ///< windows along the depth, down and across
  /// The same as parts of x's sizes, above 0 and below 1, which are cut to whole numbers.
  std::optional<std::array<double, 3>> output_ratio = {};
  /// [N, C, 3], in [0, 1): where windows begin along the depth, down and across; drawn when
  /// undefined.
  Tensor random_samples = {};
};
/// Does the same with volumes x [N, C, D, H, W] or [C, D, H, W].
Tensor fractional_max_pool3d(const Tensor& x, Triple kernel_size,
                             const FractionalPool3dOptions& options);
/// fractional_max_pool3d() together with the positions of the largest elements, int64 in the
/// flattened D H W.
ValuesIndices fractional_max_pool3d_with_indices(const Tensor& x, Triple kernel_size,
                                                 const FractionalPool3dOptions& options);
/// \}

/// \name Convolutions that keep the size: stride 1, zeros on both sides, one more at the end if the
/// kernel's reach is even
/// \{
/// Same: as many zeros as keep the size; valid: none.
enum class PaddingWord { same, valid };
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              int64_t dilation = 1, int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Pair dilation = {1, 1}, int64_t groups = 1);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Triple dilation = {1, 1, 1}, int64_t groups = 1);
/// \}

/// \name Functions of torch.nn.functional
/// \{
/// x / max(norm(x, p, dim), eps): scales vectors along `dim` to length 1.
Tensor normalize(const Tensor& x, double p = 2.0, int64_t dim = 1, double eps = 1e-12);
/// x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta, for x [N, C, ..], with zeros
/// beyond the first and the last channel. Krizhevsky et al., NIPS 2012.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1.0);
/// Normalises each channel of each sample of x [N, C, ..] to mean 0 and variance 1, then applies
/// weight [C] and bias [C], which may be undefined. Ulyanov et al., arXiv 1607.08022.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5);
/// Options of instance_norm() with running statistics.
struct InstanceNormOptions {
  Tensor weight = {};  ///< [C]; may be undefined
  Tensor bias = {};    ///< [C]; may be undefined
  /// True: each channel's own statistics normalise it. False: running_mean and running_var do.
  bool use_input_stats = true;
  double momentum = 0.1;  ///< weight of the newest statistics in the running ones
  double eps = 1e-5;      ///< added to the variance
};
/// The same with running statistics [C], which may be undefined. With use_input_stats they are
/// updated in place, by the means over the batch of the channels' means and unbiased variances.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormOptions& options);
/// Dropout that keeps mean 0 and variance 1 after selu(): dropped elements become -1.758, and all
/// are then scaled and shifted. Klambauer et al., arXiv 1706.02515.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
/// alpha_dropout() of whole channels of x [N, C, ..].
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
/// Randomised leaky_relu(): in training, each element that is not above 0 is multiplied by a number
/// of its own, drawn from [lower, upper); in evaluation, by their mean. Xu et al., arXiv
/// 1505.00853.
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8.0, double upper = 1.0 / 3.0,
             bool training = false);
/// Dropout of whole channels of x [N, C, D, H, W] or [C, D, H, W].
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);
/// The sum over right classes j and wrong classes i of max(0, 1 - (x[j] - x[i])) / C, for scores x
/// [N, C] or [C]; y, of the same shape, contains the right classes, up to the first -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                              Reduction reduction = Reduction::mean);
/// Options of ctc_loss().
struct CtcOptions {
  int64_t blank = 0;                      ///< the class between labels
  Reduction reduction = Reduction::mean;  ///< mean: the mean of losses divided by target lengths
  bool zero_infinity = false;  ///< true: targets that cannot be aligned cost 0, not infinity
};
/// Connectionist temporal classification: -log of the probability of the targets, summed over all
/// alignments. log_probs is [T, N, C], from log_softmax(), or [T, C]; targets is int64 [N, S], or
/// [sum of lengths] with one target after the other; lengths are int64 [N]. If there is no
/// alignment, there is no gradient. Graves et al., ICML 2006.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});
/// \}

}  // namespace hero
