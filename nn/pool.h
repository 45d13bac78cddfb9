#pragma once
// Pooling. N batch, C channels, L or (D,) H, W positions; inputs [N, C, ..] or [C, ..]. The window
// moves by `stride`, which is the size of the window when absent.
#include <optional>

#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::nn {

/// Options of MaxPool1d.
struct MaxPool1dOptions {
  std::optional<int64_t> stride = {};  ///< positions from one window to the next
  int64_t padding = 0;     ///< elements of minus infinity on each side, at most half the window
  int64_t dilation = 1;    ///< positions from one element of the window to the next
  bool ceil_mode = false;  ///< true: keep a last window that extends over the end
};

/// The largest value in each window of x [N, C, L] or [C, L].
class MaxPool1d : public Module {
 public:
  using Options = MaxPool1dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxPool1d(int64_t kernel_size, const MaxPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in L, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  int64_t kernel_;
  MaxPool1dOptions options_;
};

/// Options of MaxPool2d.
struct MaxPool2dOptions {
  std::optional<Size2> stride = {};  ///< positions from one window to the next
  Size2 padding = 0;       ///< elements of minus infinity on each side, at most half the window
  Size2 dilation = 1;      ///< positions from one element of the window to the next
  bool ceil_mode = false;  ///< true: keep a last window that extends over the end
};

/// The largest value in each window of images x [N, C, H, W] or [C, H, W].
class MaxPool2d : public Module {
 public:
  using Options = MaxPool2dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxPool2d(const Size2& kernel_size, const MaxPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  MaxPool2dOptions options_;
};

/// Options of MaxPool3d.
struct MaxPool3dOptions {
  std::optional<Size3> stride = {};  ///< positions from one window to the next
  Size3 padding = 0;       ///< elements of minus infinity on each side, at most half the window
  Size3 dilation = 1;      ///< positions from one element of the window to the next
  bool ceil_mode = false;  ///< true: keep a last window that extends over the end
};

/// The largest value in each window of volumes x [N, C, D, H, W] or [C, D, H, W].
class MaxPool3d : public Module {
 public:
  using Options = MaxPool3dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxPool3d(const Size3& kernel_size, const MaxPool3dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in D H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  Size3 kernel_;
  MaxPool3dOptions options_;
};

/// Options of AvgPool1d.
struct AvgPool1dOptions {
  std::optional<int64_t> stride = {};  ///< positions from one window to the next
  int64_t padding = 0;                 ///< zeros on each side, at most half the window
  bool ceil_mode = false;              ///< true: keep a last window that extends over the end
  bool count_include_pad = true;  ///< true: divide by the size of the window, including padding
};

/// The mean of each window of x [N, C, L] or [C, L].
class AvgPool1d : public Module {
 public:
  using Options = AvgPool1dOptions;
  /// Makes the layer for windows of this size.
  explicit AvgPool1d(int64_t kernel_size, const AvgPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t kernel_;
  AvgPool1dOptions options_;
};

/// Options of AvgPool2d.
struct AvgPool2dOptions {
  std::optional<Size2> stride = {};  ///< positions from one window to the next
  Size2 padding = 0;                 ///< zeros on each side, at most half the window
  bool ceil_mode = false;            ///< true: keep a last window that extends over the end
  bool count_include_pad = true;     ///< true: divide by the size of the window, including padding
  /// What sums of windows are divided by, in place of their size.
  std::optional<int64_t> divisor_override = {};
};

/// The mean of each window of images x [N, C, H, W] or [C, H, W].
class AvgPool2d : public Module {
 public:
  using Options = AvgPool2dOptions;
  /// Makes the layer for windows of this size.
  explicit AvgPool2d(const Size2& kernel_size, const AvgPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  AvgPool2dOptions options_;
};

/// Options of AvgPool3d.
struct AvgPool3dOptions {
  std::optional<Size3> stride = {};  ///< positions from one window to the next
  Size3 padding = 0;                 ///< zeros on each side, at most half the window
  bool ceil_mode = false;            ///< true: keep a last window that extends over the end
  bool count_include_pad = true;     ///< true: divide by the size of the window, including padding
  /// What sums of windows are divided by, in place of their size.
  std::optional<int64_t> divisor_override = {};
};

/// The mean of each window of volumes x [N, C, D, H, W] or [C, D, H, W].
class AvgPool3d : public Module {
 public:
  using Options = AvgPool3dOptions;
  /// Makes the layer for windows of this size.
  explicit AvgPool3d(const Size3& kernel_size, const AvgPool3dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size3 kernel_;
  AvgPool3dOptions options_;
};

/// Means of n positions in output_size cells: cell i is the mean of positions floor(i n / o) to
/// ceil((i + 1) n / o) - 1, with o = output_size. Here and in the layers below, an output size of
/// -1 (PyTorch's None) is that of the input.
class AdaptiveAvgPool1d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveAvgPool1d(int64_t output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t size_;
};

/// AdaptiveAvgPool1d in two dimensions.
class AdaptiveAvgPool2d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveAvgPool2d(const Size2& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 size_;
};

/// The largest value in each of the cells that AdaptiveAvgPool1d has.
class AdaptiveMaxPool1d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveMaxPool1d(int64_t output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in L, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  int64_t size_;
};

/// AdaptiveMaxPool1d in two dimensions.
class AdaptiveMaxPool2d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveMaxPool2d(const Size2& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  Size2 size_;
};

/// AdaptiveAvgPool1d in three dimensions.
class AdaptiveAvgPool3d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveAvgPool3d(const Size3& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size3 size_;
};

/// AdaptiveMaxPool1d in three dimensions.
class AdaptiveMaxPool3d : public Module {
 public:
  /// Makes the layer for this size of the output.
  explicit AdaptiveMaxPool3d(const Size3& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  /// The largest values together with their positions in D H W, PyTorch's return_indices; without
  /// hooks.
  ValuesIndices forward_with_indices(const Tensor& x) const;
  std::string extra_repr() const override;

 private:
  Size3 size_;
};

/// The common base of MaxUnpool1d, 2d and 3d, which put values back at the positions that max
/// pooling found, with zeros elsewhere. They are called with the values, [N, C, ..] or [C, ..], and
/// their positions.
class MaxUnpool : public Module {
 public:
  using Module::forward;
  /// If output_size is empty, it is (size - 1) stride + kernel_size - 2 padding; any other must be
  /// less than a stride from it.
  Tensor forward(const Tensor& x, const Tensor& indices, const Dims& output_size = {});
  using Module::operator();
  /// Calls forward(), with hooks around it.
  Tensor operator()(const Tensor& x, const Tensor& indices, const Dims& output_size = {});
  std::string extra_repr() const override;

 protected:
  /// Makes the layer, with one number for each dimension.
  MaxUnpool(const Dims& kernel, const Dims& stride, const Dims& padding)
      : kernel_(kernel), stride_(stride), padding_(padding) {}

 private:
  Dims kernel_, stride_, padding_;
};

/// Options of MaxUnpool1d: those of the max pooling.
struct MaxUnpool1dOptions {
  std::optional<int64_t> stride = {};  ///< positions from one window to the next
  int64_t padding = 0;                 ///< elements on each side
};
/// MaxUnpool in one dimension.
class MaxUnpool1d : public MaxUnpool {
 public:
  using Options = MaxUnpool1dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxUnpool1d(int64_t kernel_size, const MaxUnpool1dOptions& options = {});
};

/// Options of MaxUnpool2d: those of the max pooling.
struct MaxUnpool2dOptions {
  std::optional<Size2> stride = {};  ///< positions from one window to the next
  Size2 padding = 0;                 ///< elements on each side
};
/// MaxUnpool in two dimensions.
class MaxUnpool2d : public MaxUnpool {
 public:
  using Options = MaxUnpool2dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxUnpool2d(const Size2& kernel_size, const MaxUnpool2dOptions& options = {});
};

/// Options of MaxUnpool3d: those of the max pooling.
struct MaxUnpool3dOptions {
  std::optional<Size3> stride = {};  ///< positions from one window to the next
  Size3 padding = 0;                 ///< elements on each side
};
/// MaxUnpool in three dimensions.
class MaxUnpool3d : public MaxUnpool {
 public:
  using Options = MaxUnpool3dOptions;
  /// Makes the layer for windows of this size.
  explicit MaxUnpool3d(const Size3& kernel_size, const MaxUnpool3dOptions& options = {});
};

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
