#pragma once
// Pooling. N batch, C channels, L or H, W positions; inputs [N, C, ..] or [C, ..]. The window moves
// by `stride`, which is its own size when absent.
#include <optional>

#include <hero/nn/module.h>
#include <hero/nn/size2.h>

namespace hero::nn {

struct MaxPool1dOptions {
  std::optional<int64_t> stride = {};
  int64_t padding = 0;  ///< of minus infinity, at most half the window
  int64_t dilation = 1;
  bool ceil_mode = false;  ///< keep a last window that hangs over the end
};

class MaxPool1d : public Module {
 public:
  using Options = MaxPool1dOptions;
  explicit MaxPool1d(int64_t kernel_size, const MaxPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t kernel_;
  MaxPool1dOptions options_;
};

struct MaxPool2dOptions {
  std::optional<Size2> stride = {};
  Size2 padding = 0;  ///< of minus infinity, at most half the window
  Size2 dilation = 1;
  bool ceil_mode = false;  ///< keep a last window that hangs over the end
};

class MaxPool2d : public Module {
 public:
  using Options = MaxPool2dOptions;
  explicit MaxPool2d(const Size2& kernel_size, const MaxPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  MaxPool2dOptions options_;
};

struct AvgPool1dOptions {
  std::optional<int64_t> stride = {};
  int64_t padding = 0;  ///< of zeros, at most half the window
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< divide by the window's size, padding and all
};

class AvgPool1d : public Module {
 public:
  using Options = AvgPool1dOptions;
  explicit AvgPool1d(int64_t kernel_size, const AvgPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t kernel_;
  AvgPool1dOptions options_;
};

struct AvgPool2dOptions {
  std::optional<Size2> stride = {};
  Size2 padding = 0;  ///< of zeros, at most half the window
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< divide by the window's size, padding and all
};

class AvgPool2d : public Module {
 public:
  using Options = AvgPool2dOptions;
  explicit AvgPool2d(const Size2& kernel_size, const AvgPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 kernel_;
  AvgPool2dOptions options_;
};

/// Cell i of o is the mean of positions floor(i n / o) .. ceil((i + 1) n / o).
class AdaptiveAvgPool1d : public Module {
 public:
  explicit AdaptiveAvgPool1d(int64_t output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t size_;
};

/// The same in two dimensions.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(const Size2& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 size_;
};

/// The largest value of the cells of AdaptiveAvgPool1d.
class AdaptiveMaxPool1d : public Module {
 public:
  explicit AdaptiveMaxPool1d(int64_t output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  int64_t size_;
};

/// The same in two dimensions.
class AdaptiveMaxPool2d : public Module {
 public:
  explicit AdaptiveMaxPool2d(const Size2& output_size) : size_(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Size2 size_;
};

}  // namespace hero::nn
