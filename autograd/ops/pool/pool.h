#pragma once
// Pooling over windows of lines [N, C, L], images [N, C, H, W] and volumes [N, C, D, H, W], or
// without N.
#include <array>
#include <optional>

#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/ops/reduce/reduce.h>

namespace hero {

/// \name Lines and images
/// \{
/// Options of max_pool2d() and avg_pool2d().
struct PoolOptions {
  std::optional<Pair> stride = {};  ///< windows' distance; the kernel size when absent
  Pair padding = {0, 0};            ///< elements on each side, which do not count or are 0
  Pair dilation = {1, 1};           ///< for max pooling: distance of a window's elements
  bool ceil_mode = false;           ///< true: keep a last window that extends over the end
  bool count_include_pad = true;    ///< for average pooling: divide by the whole window's size
  /// For average pooling: what sums of windows are divided by, in place of their size.
  std::optional<int64_t> divisor_override = {};
};
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const PoolOptions& options = {});
/// Means of cells: cell i of o covers positions floor(i n / o) to ceil((i + 1) n / o) - 1 of n.
/// Here and in all adaptive pooling, an output size of -1 (PyTorch's None) is that of x.
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);
/// The largest elements in the cells of adaptive_avg_pool2d().
Tensor adaptive_max_pool2d(const Tensor& x, Pair output_size);
/// Options of max_pool1d() and avg_pool1d().
struct Pool1dOptions {
  std::optional<int64_t> stride = {};  ///< windows' distance; the kernel size when absent
  int64_t padding = 0;                 ///< elements on each side, which do not count or are 0
  int64_t dilation = 1;                ///< for max pooling: distance of a window's elements
  bool ceil_mode = false;              ///< true: keep a last window that extends over the end
  bool count_include_pad = true;       ///< for average pooling: divide by the whole window's size
};
/// The largest element in each window of x [N, C, L] or [C, L].
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const Pool1dOptions& options = {});
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size);
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

}  // namespace hero
