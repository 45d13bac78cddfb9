#pragma once
// Power-average pooling, and max pooling at random places.
#include <optional>

#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::nn {

/// Options of LPPool1d (Size is int64_t), LPPool2d (Size2) and LPPool3d (Size3).
template <class Size>
struct LPPoolOptions {
  std::optional<Size> stride = {};  ///< positions between windows; the kernel size when absent
  bool ceil_mode = false;           ///< true: keep a last window that extends over the end
};

/// The common base of LPPool1d, 2d and 3d: (sum of x^norm_type)^(1 / norm_type) over each window,
/// see lp_pool1d().
template <class Size>
class LPPool : public Module {
 public:
  using Options = LPPoolOptions<Size>;
  /// Makes the layer for windows of this size.
  LPPool(Scalar norm_type, const Size& kernel_size, const LPPoolOptions<Size>& options = {})
      : norm_type_(norm_type), kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Scalar norm_type_;
  Size kernel_;
  LPPoolOptions<Size> options_;
};

/// Power-average pooling of x [N, C, L] or [C, L].
class LPPool1d : public LPPool<int64_t> {
 public:
  using LPPool::LPPool;
};

/// Power-average pooling of images x [N, C, H, W] or [C, H, W].
class LPPool2d : public LPPool<Size2> {
 public:
  using LPPool::LPPool;
};

/// Power-average pooling of volumes x [N, C, D, H, W] or [C, D, H, W].
class LPPool3d : public LPPool<Size3> {
 public:
  using LPPool::LPPool;
};

using LPPool1dOptions = LPPoolOptions<int64_t>;  ///< options of LPPool1d
using LPPool2dOptions = LPPoolOptions<Size2>;    ///< options of LPPool2d
using LPPool3dOptions = LPPoolOptions<Size3>;    ///< options of LPPool3d

/// Options of FractionalMaxPool2d (Size is Size2) and FractionalMaxPool3d (Size3); give exactly one
/// of the first two.
template <class Size>
struct FractionalMaxPoolOptions {
  std::optional<Size> output_size = {};  ///< the numbers of windows along each dimension
  /// The same as parts of the input's sizes, above 0 and below 1.
  OneOrEach<double> output_ratio = {};
  /// In [0, 1), a buffer named "_random_samples": where windows begin across and down, [N, C, 2],
  /// or along the depth, down and across, [N, C, 3]; drawn at each call when undefined.
  Tensor random_samples = {};
};

/// The common base of FractionalMaxPool2d and 3d: the largest value in each of a number of windows
/// that begin at random places, in training and in evaluation. Graham, arXiv 1412.6071.
template <class Size>
class FractionalMaxPool : public Module {
 public:
  using Options = FractionalMaxPoolOptions<Size>;
  Tensor forward(const Tensor& x) override { return forward_with_indices(x).values; }
  /// The largest values together with their positions in the flattened H W or D H W, PyTorch's
  /// return_indices; without hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;

 protected:
  /// Makes the layer for windows of this size; its name begins errors.
  FractionalMaxPool(const char* layer, const Size& kernel_size,
                    const FractionalMaxPoolOptions<Size>& options);

 private:
  Size kernel_;
  std::optional<Size> output_size_;
  OneOrEach<double> output_ratio_;
  Tensor& samples_;
};

/// Fractional max pooling of images x [N, C, H, W] or [C, H, W].
class FractionalMaxPool2d : public FractionalMaxPool<Size2> {
 public:
  /// Makes the layer for windows of this size. Throws an Error unless exactly one of output_size
  /// and output_ratio is given.
  FractionalMaxPool2d(const Size2& kernel_size, const Options& options)
      : FractionalMaxPool("FractionalMaxPool2d", kernel_size, options) {}
};

/// Fractional max pooling of volumes x [N, C, D, H, W] or [C, D, H, W].
class FractionalMaxPool3d : public FractionalMaxPool<Size3> {
 public:
  /// Makes the layer for windows of this size. Throws an Error unless exactly one of output_size
  /// and output_ratio is given.
  FractionalMaxPool3d(const Size3& kernel_size, const Options& options)
      : FractionalMaxPool("FractionalMaxPool3d", kernel_size, options) {}
};

using FractionalMaxPool2dOptions = FractionalMaxPoolOptions<Size2>;  ///< of FractionalMaxPool2d
using FractionalMaxPool3dOptions = FractionalMaxPoolOptions<Size3>;  ///< of FractionalMaxPool3d

extern template class LPPool<int64_t>;
extern template class LPPool<Size2>;
extern template class LPPool<Size3>;
extern template class FractionalMaxPool<Size2>;
extern template class FractionalMaxPool<Size3>;

}  // namespace hero::nn
