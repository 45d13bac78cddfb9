#pragma once
// Pooling. N batch, C channels, L or H, W positions; inputs [N, C, ..] or [C, ..]. The window moves
// by `stride`, which is the size of the window when absent.
#include <optional>

#include <hero/nn/module.h>
#include <hero/nn/size2.h>

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
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  MaxPool2dOptions options_;
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

/// Means of n positions in output_size cells: cell i is the mean of positions floor(i n / o) to
/// ceil((i + 1) n / o) - 1, with o = output_size.
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
  std::string extra_repr() const override;

 private:
  Size2 size_;
};

}  // namespace hero::nn
