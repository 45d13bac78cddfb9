#include <array>
#include <type_traits>

#include <hero/autograd/ops/pool/pool.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/pool_more.h>

namespace hero::nn {

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
