#pragma once
// Power-average pooling, and max pooling at random places.
#include <array>
#include <optional>

#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::nn {

/// Options of LPPool1d.
struct LPPool1dOptions {
  std::optional<int64_t> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;              ///< true: keep a last window that extends over the end
};

/// (Sum of x^norm_type)^(1 / norm_type) over each window of x [N, C, L] or [C, L], see lp_pool1d().
class LPPool1d : public Module {
 public:
  using Options = LPPool1dOptions;
  /// Makes the layer for windows of this size.
  LPPool1d(double norm_type, int64_t kernel_size, const LPPool1dOptions& options = {})
      : norm_type_(norm_type), kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  double norm_type_;
  int64_t kernel_;
  LPPool1dOptions options_;
};

/// Options of LPPool2d.
struct LPPool2dOptions {
  std::optional<Size2> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;            ///< true: keep a last window that extends over the end
};

/// LPPool1d of images x [N, C, H, W] or [C, H, W].
class LPPool2d : public Module {
 public:
  using Options = LPPool2dOptions;
  /// Makes the layer for windows of this size.
  LPPool2d(double norm_type, const Size2& kernel_size, const LPPool2dOptions& options = {})
      : norm_type_(norm_type), kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  double norm_type_;
  Size2 kernel_;
  LPPool2dOptions options_;
};

/// Options of LPPool3d.
struct LPPool3dOptions {
  std::optional<Size3> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;            ///< true: keep a last window that extends over the end
};

/// LPPool1d of volumes x [N, C, D, H, W] or [C, D, H, W].
class LPPool3d : public Module {
 public:
  using Options = LPPool3dOptions;
  /// Makes the layer for windows of this size.
  LPPool3d(double norm_type, const Size3& kernel_size, const LPPool3dOptions& options = {})
      : norm_type_(norm_type), kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  double norm_type_;
  Size3 kernel_;
  LPPool3dOptions options_;
};

/// Options of FractionalMaxPool2d; give exactly one of the first two.
struct FractionalMaxPool2dOptions {
  std::optional<Size2> output_size = {};  ///< windows down and across
  /// The same as parts of the input's sizes, above 0 and below 1.
  OneOrEach<double> output_ratio = {};
  /// [N, C, 2], in [0, 1): where windows begin across and down, a buffer named "_random_samples";
  /// drawn at each call when undefined.
  Tensor random_samples = {};
};

/// The largest value in each of a number of windows of images x [N, C, H, W] or [C, H, W], which
/// begin at random places, in training and in evaluation. Graham, arXiv 1412.6071.
class FractionalMaxPool2d : public Module {
 public:
  using Options = FractionalMaxPool2dOptions;
  /// Makes the layer for windows of this size. Throws an Error unless exactly one of output_size
  /// and output_ratio is given.
  FractionalMaxPool2d(const Size2& kernel_size, const FractionalMaxPool2dOptions& options);
  Tensor forward(const Tensor& x) override { return forward_with_indices(x).values; }
  /// The largest values together with their positions in H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;

 private:
  Size2 kernel_;
  FractionalPool2dOptions options_;
  Tensor& samples_;
};

/// Options of FractionalMaxPool3d; give exactly one of the first two.
struct FractionalMaxPool3dOptions {
  std::optional<Size3> output_size = {};  ///< windows along the depth, down and across
  /// The same as parts of the input's sizes, above 0 and below 1.
  OneOrEach<double> output_ratio = {};
  /// [N, C, 3], in [0, 1): where windows begin along the depth, down and across, a buffer named
  /// "_random_samples"; drawn at each call when undefined.
  Tensor random_samples = {};
};

/// FractionalMaxPool2d of volumes x [N, C, D, H, W] or [C, D, H, W].
class FractionalMaxPool3d : public Module {
 public:
  using Options = FractionalMaxPool3dOptions;
  /// Makes the layer for windows of this size. Throws an Error unless exactly one of output_size
  /// and output_ratio is given.
  FractionalMaxPool3d(const Size3& kernel_size, const FractionalMaxPool3dOptions& options);
  Tensor forward(const Tensor& x) override { return forward_with_indices(x).values; }
  /// The largest values together with their positions in D H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;

 private:
  Size3 kernel_;
  FractionalPool3dOptions options_;
  Tensor& samples_;
};

}  // namespace hero::nn
