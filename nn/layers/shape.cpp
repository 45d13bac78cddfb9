#include <hero/autograd/ops/conv/conv.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/shape.h>

namespace hero::nn {

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_) + ", end_dim=" + std::to_string(end_);
}

Tensor Unflatten::forward(const Tensor& x) {
  const int axis = normalize_dim("Unflatten", dim_, x.ndim());
  Shape sizes = sizes_;
  for (int64_t& size : sizes) size = size == -1 ? 1 : size;
  const int64_t known = sizes.numel("Unflatten");
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes_[i] == -1 && known > 0) sizes[i] = x.size(axis) / known;
  }
  check(sizes.numel("Unflatten") == x.size(axis), "Unflatten: size ", x.size(axis),
        " of dimension ", dim_, " does not become ", sizes_, ": x has shape ", x.shape());
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) shape.push_back(x.size(i));
    if (i != axis) continue;
    for (const int64_t size : sizes) shape.push_back(size);
  }
  return reshape(x, shape);
}

std::string Unflatten::extra_repr() const {
  return "dim=" + std::to_string(dim_) + ", unflattened_size=" + repr::tuple(sizes_);
}

Pad::Pad(int dimensions, const PadWidths& widths, PadMode mode, Scalar value)
    : dimensions_(dimensions), widths_(widths), mode_(mode), value_(value) {
  const size_t all = 2 * static_cast<size_t>(dimensions);
  if (widths_.size() == 1) widths_.resize(all, widths_[0]);
  check(widths_.size() == all, "Pad: ", widths.size(), " widths for ", dimensions,
        dimensions == 1 ? " dimension" : " dimensions", "; give one, or two for each");
}

Tensor Pad::forward(const Tensor& x) {
  check(mode_ == PadMode::constant || x.ndim() == dimensions_ + 1 || x.ndim() == dimensions_ + 2,
        type_name(), ": expected ", dimensions_, " dimensions behind the channels, got ",
        x.shape());
  return pad(x, widths_, mode_, value_.to<double>());
}

std::string Pad::widths() const {
  Dims all;
  for (const int64_t width : widths_) all.push_back(width);
  return repr::tuple(all);
}

std::string Pad::extra_repr() const { return widths(); }

std::string ConstantPad::extra_repr() const {
  return "padding=" + widths() + ", value=" + repr::text(value());
}

Upsample::Upsample(const UpsampleOptions& options) : options_(options) {
  check(options.size.empty() != options.scale_factor.empty(),
        "Upsample: give either size or scale_factor");
}

Tensor Upsample::forward(const Tensor& x) {
  return interpolate(x, {.size = options_.size,
                         .scale_factor = options_.scale_factor,
                         .mode = options_.mode,
                         .align_corners = options_.align_corners,
                         .recompute_scale_factor = options_.recompute_scale_factor});
}

namespace {

std::string size_text(int64_t size) { return std::to_string(size); }
std::string size_text(double factor) { return repr::text(factor); }

// One number, or several in brackets.
template <class T>
std::string one_or_each(const std::vector<T>& numbers) {
  if (numbers.size() == 1) return size_text(numbers[0]);
  std::string result;
  for (const T& number : numbers) result += (result.empty() ? "(" : ", ") + size_text(number);
  return result + ")";
}

std::string one_or_both(const Size2& size) {
  return size.height == size.width ? std::to_string(size.height)
                                   : repr::tuple({size.height, size.width});
}

std::string describe_windows(const Size2& kernel, const FoldOptions& o) {
  return "kernel_size=" + one_or_both(kernel) + ", dilation=" + one_or_both(o.dilation) +
         ", padding=" + one_or_both(o.padding) + ", stride=" + one_or_both(o.stride);
}

}  // namespace

std::string Upsample::extra_repr() const {
  constexpr const char* kModes[] = {"nearest", "nearest-exact", "linear", "bilinear",
                                    "bicubic", "trilinear",     "area"};
  const std::string size = options_.size.empty()
                               ? "scale_factor=" + one_or_each(options_.scale_factor)
                               : "size=" + one_or_each(options_.size);
  return size + ", mode='" + kModes[static_cast<int>(options_.mode)] + "'";
}

std::string PixelShuffle::extra_repr() const { return "upscale_factor=" + std::to_string(factor_); }

std::string PixelUnshuffle::extra_repr() const {
  return "downscale_factor=" + std::to_string(factor_);
}

std::string ChannelShuffle::extra_repr() const { return "groups=" + std::to_string(groups_); }

Tensor Unfold::forward(const Tensor& x) {
  return unfold(
      x, kernel_,
      {.dilation = options_.dilation, .padding = options_.padding, .stride = options_.stride});
}

std::string Unfold::extra_repr() const { return describe_windows(kernel_, options_); }

Tensor Fold::forward(const Tensor& x) {
  return fold(
      x, output_, kernel_,
      {.dilation = options_.dilation, .padding = options_.padding, .stride = options_.stride});
}

std::string Fold::extra_repr() const {
  return "output_size=" + one_or_both(output_) + ", " + describe_windows(kernel_, options_);
}

}  // namespace hero::nn
