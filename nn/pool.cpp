#include <hero/nn/pool.h>
#include <hero/nn/repr.h>

namespace hero::nn {

namespace {

void check_line(const char* layer, const Tensor& x) {
  check(x.ndim() == 2 || x.ndim() == 3, layer, ": expected [N, C, L] or [C, L], got ", x.shape());
}

void check_image(const char* layer, const Tensor& x) {
  check(x.ndim() == 3 || x.ndim() == 4, layer, ": expected [N, C, H, W] or [C, H, W], got ",
        x.shape());
}

// PyTorch prints what it was given: one number or a pair.
std::string text(const Size2& size) {
  if (size.height == size.width) return std::to_string(size.height);
  return repr::tuple({size.height, size.width});
}
std::string text(int64_t size) { return std::to_string(size); }

std::optional<Pair> pair_of(const std::optional<Size2>& size) {
  return size ? std::optional<Pair>(*size) : std::nullopt;
}

template <class Size, class Options>
std::string describe_max(const Size& kernel, const Options& o) {
  return "kernel_size=" + text(kernel) + ", stride=" + text(o.stride.value_or(kernel)) +
         ", padding=" + text(o.padding) + ", dilation=" + text(o.dilation) +
         ", ceil_mode=" + repr::text(o.ceil_mode);
}

}  // namespace

Tensor MaxPool1d::forward(const Tensor& x) {
  check_line("MaxPool1d", x);
  return max_pool1d(x, kernel_,
                    {.stride = options_.stride,
                     .padding = options_.padding,
                     .dilation = options_.dilation,
                     .ceil_mode = options_.ceil_mode});
}
std::string MaxPool1d::extra_repr() const { return describe_max(kernel_, options_); }

Tensor MaxPool2d::forward(const Tensor& x) {
  check_image("MaxPool2d", x);
  return max_pool2d(x, kernel_,
                    {.stride = pair_of(options_.stride),
                     .padding = options_.padding,
                     .dilation = options_.dilation,
                     .ceil_mode = options_.ceil_mode});
}
std::string MaxPool2d::extra_repr() const { return describe_max(kernel_, options_); }

Tensor AvgPool1d::forward(const Tensor& x) {
  check_line("AvgPool1d", x);
  return avg_pool1d(x, kernel_,
                    {.stride = options_.stride,
                     .padding = options_.padding,
                     .ceil_mode = options_.ceil_mode,
                     .count_include_pad = options_.count_include_pad});
}
std::string AvgPool1d::extra_repr() const {
  return "kernel_size=" + repr::tuple({kernel_}) +
         ", stride=" + repr::tuple({options_.stride.value_or(kernel_)}) +
         ", padding=" + repr::tuple({options_.padding});
}

Tensor AvgPool2d::forward(const Tensor& x) {
  check_image("AvgPool2d", x);
  return avg_pool2d(x, kernel_,
                    {.stride = pair_of(options_.stride),
                     .padding = options_.padding,
                     .ceil_mode = options_.ceil_mode,
                     .count_include_pad = options_.count_include_pad});
}
std::string AvgPool2d::extra_repr() const {
  return "kernel_size=" + text(kernel_) + ", stride=" + text(options_.stride.value_or(kernel_)) +
         ", padding=" + text(options_.padding);
}

Tensor AdaptiveAvgPool1d::forward(const Tensor& x) {
  check_line("AdaptiveAvgPool1d", x);
  return adaptive_avg_pool1d(x, size_);
}
std::string AdaptiveAvgPool1d::extra_repr() const { return "output_size=" + text(size_); }

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  check_image("AdaptiveAvgPool2d", x);
  return adaptive_avg_pool2d(x, size_);
}
std::string AdaptiveAvgPool2d::extra_repr() const { return "output_size=" + text(size_); }

Tensor AdaptiveMaxPool1d::forward(const Tensor& x) {
  check_line("AdaptiveMaxPool1d", x);
  return adaptive_max_pool1d(x, size_);
}
std::string AdaptiveMaxPool1d::extra_repr() const { return "output_size=" + text(size_); }

Tensor AdaptiveMaxPool2d::forward(const Tensor& x) {
  check_image("AdaptiveMaxPool2d", x);
  return adaptive_max_pool2d(x, size_);
}
std::string AdaptiveMaxPool2d::extra_repr() const { return "output_size=" + text(size_); }

}  // namespace hero::nn
