#pragma once
// Images: sizes changed, points sampled, windows taken apart and put together; vectors scaled to
// length 1 and other functions of torch.nn.functional that nn_ops.h leaves out.
#include <hero/autograd/nn_ops.h>

namespace hero {

/// \name Resampling
/// \{
enum class Interpolation {
  nearest,        ///< pixel floor(i in / out)
  nearest_exact,  ///< pixel floor((i + 1/2) in / out)
  linear,         ///< of [N, C, L]
  bilinear,       ///< of [N, C, H, W]
  bicubic,        ///< of [N, C, H, W]; Keys, IEEE TASSP 29, 1981, with a = -0.75
  trilinear,      ///< of [N, C, D, H, W]
  area            ///< means of the cells of adaptive_avg_pool2d
};
struct InterpolateOptions {
  /// Sizes of what follows N and C, or one for all of them; either these or scale_factor.
  std::vector<int64_t> size = {};
  /// New size over old, which is cut to a whole number; one for each dimension or for all.
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  /// The corners' centres keep their values; of the linear modes and bicubic only.
  bool align_corners = false;
  /// Positions follow from the sizes, not from scale_factor.
  bool recompute_scale_factor = false;
  /// Smaller images are means over as many pixels as are left out; of bilinear and bicubic (whose a
  /// is then -0.5) only, without align_corners.
  bool antialias = false;
};
/// x [N, C, ..] with one to three dimensions behind C, resampled. Derivatives of any order.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// interpolate() by its older name.
Tensor upsample(const Tensor& x, const InterpolateOptions& options);

enum class GridMode { bilinear, nearest, bicubic };
enum class GridPadding { zeros, border, reflection };
struct GridSampleOptions {
  GridMode mode = GridMode::bilinear;  ///< of volumes bilinear is trilinear, and bicubic refused
  GridPadding padding_mode = GridPadding::zeros;
  bool align_corners = false;
};
/// x [N, C, H, W] at the points grid [N, h, w, 2] (x before y, -1 and 1 at the borders), as [N, C,
/// h, w]; or x [N, C, D, H, W] at grid [N, d, h, w, 3]. Beyond the border lie zeros, the border's
/// pixels, or the image reflected. NaN counts as -1. Jaderberg et al., arXiv 1506.02025.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
/// The grid of theta [N, 2, 3] for size [N, C, H, W], or of theta [N, 3, 4] for [N, C, D, H, W].
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);
/// \}

/// \name Windows
/// \{
struct UnfoldOptions {
  Pair dilation = {1, 1};
  Pair padding = {0, 0};
  Pair stride = {1, 1};
};
/// Windows of x [N, C, H, W] or [C, H, W] as columns [N, C KH KW, places]: im2col.
Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options = {});
/// Columns [N, C KH KW, places] or without N, added up to images [N, C, output_size]: unfold's
/// derivative.
Tensor fold(const Tensor& columns, Pair output_size, Pair kernel_size,
            const UnfoldOptions& options = {});
/// max_pool2d and where the largest lie: int64 positions in H W.
ValuesIndices max_pool2d_with_indices(const Tensor& x, Pair kernel_size,
                                      const PoolOptions& options = {});
ValuesIndices max_pool1d_with_indices(const Tensor& x, int64_t kernel_size,
                                      const Pool1dOptions& options = {});
/// x [N, C, h, w] or [C, h, w] put at the positions that max pooling found, zeros elsewhere.
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Pair output_size);
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, int64_t output_size);
/// \}

/// \name Volumes: x [N, C, D, H, W] or [C, D, H, W]
/// \{
using Triple = std::array<int64_t, 3>;
struct Conv3dOptions {
  Triple stride = {1, 1, 1};
  Triple padding = {0, 0, 0};
  Triple dilation = {1, 1, 1};
  int64_t groups = 1;
};
/// weight [O, C / groups, KD, KH, KW], bias [O]: conv2d of slices whose channels hold the taps
/// along D.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {});
struct ConvTranspose3dOptions {
  Triple stride = {1, 1, 1};
  Triple padding = {0, 0, 0};
  Triple output_padding = {0, 0, 0};
  Triple dilation = {1, 1, 1};
  int64_t groups = 1;
};
/// weight [C, O / groups, KD, KH, KW], bias [O].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});
struct Pool3dOptions {
  std::optional<Triple> stride = {};  ///< the kernel size when absent
  Triple padding = {0, 0, 0};
  Triple dilation = {1, 1, 1};  ///< max pooling only
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pooling only
};
Tensor max_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options = {});
Tensor avg_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options = {});
Tensor adaptive_avg_pool3d(const Tensor& x, Triple output_size);
Tensor adaptive_max_pool3d(const Tensor& x, Triple output_size);
/// \}

/// \name Convolutions that keep the size: stride 1, zeros on both sides, one more behind where the
/// kernel's reach is even
/// \{
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
/// x / max(norm(x, p, dim), eps)
Tensor normalize(const Tensor& x, double p = 2.0, int64_t dim = 1, double eps = 1e-12);
/// x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta, x [N, C, ..]; zeros beyond the
/// channels. Krizhevsky et al., NIPS 2012.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1.0);
/// Each channel of each x [N, C, ..] brought to mean 0 and variance 1, with its own statistics.
/// Ulyanov et al., arXiv 1607.08022.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5);
/// dropout that keeps mean 0 and variance 1 behind selu: what is dropped becomes -1.758.
/// Klambauer et al., arXiv 1706.02515.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
/// dropout of whole channels of x [N, C, D, H, W] or [C, D, H, W].
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);
/// Scores x [N, C] or [C]; y of the same shape holds the right classes up to the first -1. Sum over
/// right j and wrong i of max(0, 1 - (x[j] - x[i])) / C.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                              Reduction reduction = Reduction::mean);
struct CtcOptions {
  int64_t blank = 0;                      ///< the class between labels
  Reduction reduction = Reduction::mean;  ///< mean: of losses over target lengths
  bool zero_infinity = false;             ///< what cannot be aligned costs 0, not infinity
};
/// -log of the probability of the targets over all alignments: log_probs [T, N, C] (log_softmax),
/// or [T, C]; targets int64 [N, S], or one behind the other [sum of lengths]; lengths int64 [N].
/// Where there is no alignment there is no gradient. Graves et al., ICML 2006.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});
/// \}

}  // namespace hero
