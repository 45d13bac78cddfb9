#include <array>
#include <type_traits>

#include <hero/autograd/ops/pool/pool.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/pool.h>

namespace hero::nn {

namespace {

void check_line(const char* layer, const Tensor& x) {
  check(x.ndim() == 2 || x.ndim() == 3, layer, ": expected [N, C, L] or [C, L], got ", x.shape());
}

void check_image(const char* layer, const Tensor& x) {
  check(x.ndim() == 3 || x.ndim() == 4, layer, ": expected [N, C, H, W] or [C, H, W], got ",
        x.shape());
}

void check_volume(const char* layer, const Tensor& x) {
  check(x.ndim() == 4 || x.ndim() == 5, layer, ": expected [N, C, D, H, W] or [C, D, H, W], got ",
        x.shape());
}

Dims dims_of(int64_t size) { return {size}; }
Dims dims_of(const Size2& size) { return {size.height, size.width}; }
Dims dims_of(const Size3& size) { return {size.depth, size.height, size.width}; }

// PyTorch prints what it was given: one number or several.
template <class Size>
std::string text(const Size& size) {
  const Dims sizes = dims_of(size);
  for (const int64_t each : sizes) {
    if (each != sizes[0]) return repr::tuple(sizes);
  }
  return std::to_string(sizes[0]);
}

// An adaptive pooling's size: None stands for that of the input.
template <class Size>
std::string text_of_output(const Size& size) {
  std::string result = text(size);
  for (size_t at = result.find("-1"); at != std::string::npos; at = result.find("-1")) {
    result.replace(at, 2, "None");
  }
  return "output_size=" + result;
}

std::optional<Pair> pair_of(const std::optional<Size2>& size) {
  return size ? std::optional<Pair>(*size) : std::nullopt;
}
std::optional<Triple> triple_of(const std::optional<Size3>& size) {
  return size ? std::optional<Triple>(*size) : std::nullopt;
}

template <class Size, class Options>
std::string describe_average(const Size& kernel, const Options& o) {
  return "kernel_size=" + text(kernel) + ", stride=" + text(o.stride.value_or(kernel)) +
         ", padding=" + text(o.padding);
}

template <class Size, class Options>
std::string describe_max(const Size& kernel, const Options& o) {
  return "kernel_size=" + text(kernel) + ", stride=" + text(o.stride.value_or(kernel)) +
         ", padding=" + text(o.padding) + ", dilation=" + text(o.dilation) +
         ", ceil_mode=" + repr::text(o.ceil_mode);
}

}  // namespace

Tensor MaxPool1d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices MaxPool1d::forward_with_indices(const Tensor& x) const {
  check_line("MaxPool1d", x);
  return max_pool1d_with_indices(x, kernel_,
                                 {.stride = options_.stride,
                                  .padding = options_.padding,
                                  .dilation = options_.dilation,
                                  .ceil_mode = options_.ceil_mode});
}
std::string MaxPool1d::extra_repr() const { return describe_max(kernel_, options_); }

Tensor MaxPool2d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices MaxPool2d::forward_with_indices(const Tensor& x) const {
  check_image("MaxPool2d", x);
  return max_pool2d_with_indices(x, kernel_,
                                 {.stride = pair_of(options_.stride),
                                  .padding = options_.padding,
                                  .dilation = options_.dilation,
                                  .ceil_mode = options_.ceil_mode});
}
std::string MaxPool2d::extra_repr() const { return describe_max(kernel_, options_); }

Tensor MaxPool3d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices MaxPool3d::forward_with_indices(const Tensor& x) const {
  check_volume("MaxPool3d", x);
  return max_pool3d_with_indices(x, kernel_,
                                 {.stride = triple_of(options_.stride),
                                  .padding = options_.padding,
                                  .dilation = options_.dilation,
                                  .ceil_mode = options_.ceil_mode});
}
std::string MaxPool3d::extra_repr() const { return describe_max(kernel_, options_); }

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
                     .count_include_pad = options_.count_include_pad,
                     .divisor_override = options_.divisor_override});
}
std::string AvgPool2d::extra_repr() const { return describe_average(kernel_, options_); }

Tensor AvgPool3d::forward(const Tensor& x) {
  check_volume("AvgPool3d", x);
  return avg_pool3d(x, kernel_,
                    {.stride = triple_of(options_.stride),
                     .padding = options_.padding,
                     .ceil_mode = options_.ceil_mode,
                     .count_include_pad = options_.count_include_pad,
                     .divisor_override = options_.divisor_override});
}
std::string AvgPool3d::extra_repr() const { return describe_average(kernel_, options_); }

Tensor AdaptiveAvgPool1d::forward(const Tensor& x) {
  check_line("AdaptiveAvgPool1d", x);
  return adaptive_avg_pool1d(x, size_);
}
std::string AdaptiveAvgPool1d::extra_repr() const { return text_of_output(size_); }

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  check_image("AdaptiveAvgPool2d", x);
  return adaptive_avg_pool2d(x, size_);
}
std::string AdaptiveAvgPool2d::extra_repr() const { return text_of_output(size_); }

Tensor AdaptiveMaxPool1d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices AdaptiveMaxPool1d::forward_with_indices(const Tensor& x) const {
  check_line("AdaptiveMaxPool1d", x);
  return adaptive_max_pool1d_with_indices(x, size_);
}
std::string AdaptiveMaxPool1d::extra_repr() const { return text_of_output(size_); }

Tensor AdaptiveMaxPool2d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices AdaptiveMaxPool2d::forward_with_indices(const Tensor& x) const {
  check_image("AdaptiveMaxPool2d", x);
  return adaptive_max_pool2d_with_indices(x, size_);
}
std::string AdaptiveMaxPool2d::extra_repr() const { return text_of_output(size_); }

Tensor AdaptiveAvgPool3d::forward(const Tensor& x) {
  check_volume("AdaptiveAvgPool3d", x);
  return adaptive_avg_pool3d(x, size_);
}
std::string AdaptiveAvgPool3d::extra_repr() const { return text_of_output(size_); }

Tensor AdaptiveMaxPool3d::forward(const Tensor& x) { return forward_with_indices(x).values; }
ValuesIndices AdaptiveMaxPool3d::forward_with_indices(const Tensor& x) const {
  check_volume("AdaptiveMaxPool3d", x);
  return adaptive_max_pool3d_with_indices(x, size_);
}
std::string AdaptiveMaxPool3d::extra_repr() const { return text_of_output(size_); }

Tensor MaxUnpool::forward(const Tensor& x, const Tensor& indices, const Dims& output_size) {
  const int spatial = kernel_.size();
  check(x.ndim() == spatial + 1 || x.ndim() == spatial + 2, type_name(), ": expected ", spatial,
        " dimensions behind the channels, got ", x.shape());
  check(output_size.empty() || output_size.size() == spatial, type_name(), ": output_size ",
        output_size, " has not ", spatial, " sizes");
  Dims sizes;
  for (int i = 0; i < spatial; ++i) {
    const int64_t usual = (x.size(i - spatial) - 1) * stride_[i] + kernel_[i] - 2 * padding_[i];
    const int64_t size = output_size.empty() ? usual : output_size[i];
    check(size > usual - stride_[i] && size < usual + stride_[i] && size > 0, type_name(),
          ": output_size ", size, " in dimension ", i, " is not less than a stride from ", usual);
    sizes.push_back(size);
  }
  if (spatial == 1) return max_unpool1d(x, indices, sizes[0]);
  if (spatial == 2) return max_unpool2d(x, indices, {sizes[0], sizes[1]});
  return max_unpool3d(x, indices, {sizes[0], sizes[1], sizes[2]});
}

Tensor MaxUnpool::operator()(const Tensor& x, const Tensor& indices, const Dims& output_size) {
  return run_hooked({x, indices}, [&](const Tensors& in) {
    return Tensors{forward(in[0], in[1], output_size)};
  })[0];
}

std::string MaxUnpool::extra_repr() const {
  return "kernel_size=" + repr::tuple(kernel_) + ", stride=" + repr::tuple(stride_) +
         ", padding=" + repr::tuple(padding_);
}

MaxUnpool1d::MaxUnpool1d(int64_t kernel_size, const MaxUnpool1dOptions& o)
    : MaxUnpool({kernel_size}, {o.stride.value_or(kernel_size)}, {o.padding}) {}
MaxUnpool2d::MaxUnpool2d(const Size2& kernel_size, const MaxUnpool2dOptions& o)
    : MaxUnpool(dims_of(kernel_size), dims_of(o.stride.value_or(kernel_size)), dims_of(o.padding)) {
}
MaxUnpool3d::MaxUnpool3d(const Size3& kernel_size, const MaxUnpool3dOptions& o)
    : MaxUnpool(dims_of(kernel_size), dims_of(o.stride.value_or(kernel_size)), dims_of(o.padding)) {
}

namespace {

void check_pooled_input(const std::string& layer, const Tensor& x, int spatial) {
  check(x.ndim() == spatial + 1 || x.ndim() == spatial + 2, layer, ": expected [N, C, ..] or [C, ",
        "..] with ", spatial, " dimensions behind C, got ", x.shape());
}

std::string window_text(int64_t size) { return std::to_string(size); }
// PyTorch prints what it was given: one number or several.
std::string window_text(const Size2& size) {
  if (size.height == size.width) return std::to_string(size.height);
  return repr::tuple({size.height, size.width});
}
std::string window_text(const Size3& size) {
  if (size == Size3(size.depth)) return std::to_string(size.depth);
  return repr::tuple({size.depth, size.height, size.width});
}

// The functions behind the layers, by the dimensions of their windows.
Tensor power_pool(const Tensor& x, double p, int64_t kernel, const LPPool1dOptions& options) {
  return lp_pool1d(x, p, kernel, {.stride = options.stride, .ceil_mode = options.ceil_mode});
}
Tensor power_pool(const Tensor& x, double p, const Size2& kernel, const LPPool2dOptions& options) {
  return lp_pool2d(x, p, kernel, {.stride = options.stride, .ceil_mode = options.ceil_mode});
}
Tensor power_pool(const Tensor& x, double p, const Size3& kernel, const LPPool3dOptions& options) {
  return lp_pool3d(x, p, kernel, {.stride = options.stride, .ceil_mode = options.ceil_mode});
}

// One ratio for all dimensions, or one for each.
template <size_t count>
std::optional<std::array<double, count>> ratios(const OneOrEach<double>& given) {
  if (given.empty()) return {};
  std::array<double, count> result;
  for (size_t i = 0; i < count; ++i) result[i] = given[given.size() == 1 ? 0 : i];
  return result;
}

ValuesIndices fractional_pool(const Tensor& x, const Size2& kernel,
                              const std::optional<Size2>& size, const OneOrEach<double>& ratio,
                              const Tensor& samples) {
  return fractional_max_pool2d_with_indices(x, kernel, {size, ratios<2>(ratio), samples});
}
ValuesIndices fractional_pool(const Tensor& x, const Size3& kernel,
                              const std::optional<Size3>& size, const OneOrEach<double>& ratio,
                              const Tensor& samples) {
  return fractional_max_pool3d_with_indices(x, kernel, {size, ratios<3>(ratio), samples});
}

template <class Size>
constexpr int kSpatial = std::is_same_v<Size, int64_t> ? 1
                         : std::is_same_v<Size, Size2> ? 2
                                                       : 3;

}  // namespace

template <class Size>
Tensor LPPool<Size>::forward(const Tensor& x) {
  check_pooled_input(type_name(), x, kSpatial<Size>);
  return power_pool(x, norm_type_.real(), kernel_, options_);
}

template <class Size>
std::string LPPool<Size>::extra_repr() const {
  return "norm_type=" + repr::text(norm_type_) + ", kernel_size=" + window_text(kernel_) +
         ", stride=" + (options_.stride ? window_text(*options_.stride) : "None") +
         ", ceil_mode=" + repr::text(options_.ceil_mode);
}

template <class Size>
FractionalMaxPool<Size>::FractionalMaxPool(const char* layer, const Size& kernel_size,
                                           const FractionalMaxPoolOptions<Size>& options)
    : kernel_(kernel_size),
      output_size_(options.output_size),
      output_ratio_(options.output_ratio),
      samples_(options.random_samples.defined() ? buffer("_random_samples", options.random_samples)
                                                : no_parameter("_random_samples")) {
  check(output_size_.has_value() == output_ratio_.empty(), layer,
        ": give exactly one of output_size and output_ratio");
  constexpr size_t kCount = kSpatial<Size>;
  check(output_ratio_.size() <= 1 || output_ratio_.size() == kCount, layer, ": output_ratio has ",
        output_ratio_.size(), " numbers, not 1 or ", kCount);
  for (const double ratio : output_ratio_) {
    check(ratio > 0.0 && ratio < 1.0, layer, ": output_ratio must be above 0 and below 1: ", ratio);
  }
}

template <class Size>
ValuesIndices FractionalMaxPool<Size>::forward_with_indices(const Tensor& x) const {
  check_pooled_input(type_name(), x, kSpatial<Size>);
  return fractional_pool(x, kernel_, output_size_, output_ratio_, samples_);
}

template class LPPool<int64_t>;
template class LPPool<Size2>;
template class LPPool<Size3>;
template class FractionalMaxPool<Size2>;
template class FractionalMaxPool<Size3>;

}  // namespace hero::nn
