#include <hero/nn/pool_more.h>
#include <hero/nn/repr.h>

namespace hero::nn {

namespace {

void check_pooled_input(const char* layer, const Tensor& x, int spatial) {
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

template <class Size, class Options>
std::string describe_power(double norm_type, const Size& kernel, const Options& o) {
  return "norm_type=" + repr::text(norm_type) + ", kernel_size=" + window_text(kernel) +
         ", stride=" + (o.stride ? window_text(*o.stride) : "None") +
         ", ceil_mode=" + repr::text(o.ceil_mode);
}

// One ratio for all dimensions, or one for each.
template <size_t count>
std::optional<std::array<double, count>> ratios(const char* layer, const OneOrEach<double>& given) {
  if (given.empty()) return {};
  check(given.size() == 1 || given.size() == count, layer, ": output_ratio has ", given.size(),
        " numbers, not 1 or ", count);
  std::array<double, count> result;
  for (size_t i = 0; i < count; ++i) {
    result[i] = given[given.size() == 1 ? 0 : i];
    check(result[i] > 0.0 && result[i] < 1.0, layer,
          ": output_ratio must be above 0 and below 1: ", result[i]);
  }
  return result;
}

void check_one_given(const char* layer, bool size, bool ratio) {
  check(size != ratio, layer, ": give exactly one of output_size and output_ratio");
}

}  // namespace

Tensor LPPool1d::forward(const Tensor& x) {
  check_pooled_input("LPPool1d", x, 1);
  return lp_pool1d(x, norm_type_, kernel_,
                   {.stride = options_.stride, .ceil_mode = options_.ceil_mode});
}
std::string LPPool1d::extra_repr() const { return describe_power(norm_type_, kernel_, options_); }

Tensor LPPool2d::forward(const Tensor& x) {
  check_pooled_input("LPPool2d", x, 2);
  LpPool2dOptions options{.ceil_mode = options_.ceil_mode};
  if (options_.stride) options.stride = *options_.stride;
  return lp_pool2d(x, norm_type_, kernel_, options);
}
std::string LPPool2d::extra_repr() const { return describe_power(norm_type_, kernel_, options_); }

Tensor LPPool3d::forward(const Tensor& x) {
  check_pooled_input("LPPool3d", x, 3);
  LpPool3dOptions options{.ceil_mode = options_.ceil_mode};
  if (options_.stride) options.stride = *options_.stride;
  return lp_pool3d(x, norm_type_, kernel_, options);
}
std::string LPPool3d::extra_repr() const { return describe_power(norm_type_, kernel_, options_); }

FractionalMaxPool2d::FractionalMaxPool2d(const Size2& kernel_size,
                                         const FractionalMaxPool2dOptions& options)
    : kernel_(kernel_size),
      samples_(options.random_samples.defined() ? buffer("_random_samples", options.random_samples)
                                                : no_parameter("_random_samples")) {
  constexpr auto kLayer = "FractionalMaxPool2d";
  check_one_given(kLayer, options.output_size.has_value(), !options.output_ratio.empty());
  if (options.output_size) options_.output_size = *options.output_size;
  options_.output_ratio = ratios<2>(kLayer, options.output_ratio);
}
ValuesIndices FractionalMaxPool2d::forward_with_indices(const Tensor& x) const {
  check_pooled_input("FractionalMaxPool2d", x, 2);
  FractionalPool2dOptions options = options_;
  options.random_samples = samples_;
  return fractional_max_pool2d_with_indices(x, kernel_, options);
}

FractionalMaxPool3d::FractionalMaxPool3d(const Size3& kernel_size,
                                         const FractionalMaxPool3dOptions& options)
    : kernel_(kernel_size),
      samples_(options.random_samples.defined() ? buffer("_random_samples", options.random_samples)
                                                : no_parameter("_random_samples")) {
  constexpr auto kLayer = "FractionalMaxPool3d";
  check_one_given(kLayer, options.output_size.has_value(), !options.output_ratio.empty());
  if (options.output_size) options_.output_size = *options.output_size;
  options_.output_ratio = ratios<3>(kLayer, options.output_ratio);
}
ValuesIndices FractionalMaxPool3d::forward_with_indices(const Tensor& x) const {
  check_pooled_input("FractionalMaxPool3d", x, 3);
  FractionalPool3dOptions options = options_;
  options.random_samples = samples_;
  return fractional_max_pool3d_with_indices(x, kernel_, options);
}

}  // namespace hero::nn
