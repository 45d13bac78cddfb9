#include <algorithm>
#include <cmath>

#include <hero/core/array/checked.h>
#include <hero/nn/conv.h>
#include <hero/nn/module/repr.h>

namespace hero::nn {

namespace {

Dims both(const Size2& size) { return {size.height, size.width}; }
Dims three(const Size3& size) { return {size.depth, size.height, size.width}; }
Triple triple(const Dims& sizes) { return {sizes[0], sizes[1], sizes[2]}; }

bool all_are(const Dims& sizes, int64_t value) {
  for (const int64_t size : sizes) {
    if (size != value) return false;
  }
  return true;
}

// Channels of the one side and, of the other, those of one group; then the taps.
Shape weight_shape(const char* layer, int64_t in, int64_t out, int64_t groups, bool transposed,
                   const Dims& kernel) {
  check(in > 0 && out > 0, layer, ": channels must be positive: ", in, ", ", out);
  check(groups > 0 && in % groups == 0 && out % groups == 0, layer, ": ", in, " and ", out,
        " channels do not divide into ", groups, " groups");
  Shape shape = transposed ? Shape{in, out / groups} : Shape{out, in / groups};
  for (const int64_t size : kernel) {
    check(size > 0, layer, ": kernel_size must be positive: ", kernel);
    shape.push_back(size);
  }
  return shape;
}

int64_t fan_in(const Shape& weight) { return weight.numel() / weight[0]; }

const char* name_of(PaddingMode mode) {
  constexpr const char* names[] = {"zeros", "reflect", "replicate", "circular"};
  return names[static_cast<int>(mode)];
}

// Each dimension continued by its other end; widths as pad's, of which negative ones cut off.
Tensor wrap(const Tensor& x, const std::vector<int64_t>& widths) {
  if (std::any_of(widths.begin(), widths.end(), [](int64_t width) { return width < 0; })) {
    return pad(x, widths, PadMode::circular);
  }
  Tensor result = x;
  for (size_t i = 0; i < widths.size(); i += 2) {
    const int64_t dim = -1 - static_cast<int64_t>(i / 2), size = x.size(dim);
    const int64_t before = widths[i], after = widths[i + 1];
    check(before <= size && after <= size, "Convolution: circular padding of ",
          std::max(before, after), " is larger than the input ", x.shape());
    result = cat({slice(result, dim, size - before), result, slice(result, dim, 0, after)}, dim);
  }
  return result;
}

}  // namespace

Padding::Padding(const std::string& word) : size_(0), word_(word) {
  check(word == "same" || word == "valid", "Padding: '", word,
        "' is neither \"same\" nor \"valid\"");
}

Dims Padding::sizes(const char* layer, int dimensions) const {
  check(count_ == 1 || count_ == dimensions, layer, ": padding of ", count_, " numbers for ",
        dimensions, dimensions == 1 ? " dimension" : " dimensions");
  const Dims all{size_.depth, size_.height, size_.width};
  Dims result;
  for (int i = 3 - dimensions; i < 3; ++i) result.push_back(all[i]);
  return result;
}

Convolution::Convolution(int64_t in, int64_t out, const Spec& spec)
    : in_channels(in),
      out_channels(out),
      weight(parameter("weight",
                       weight_shape(spec.layer, in, out, spec.groups, spec.transposed, spec.kernel),
                       init::kaiming_uniform({.a = std::sqrt(5.0)}))),
      bias(spec.has_bias ? parameter("bias", {out}, init::uniform_fan(fan_in(weight.shape())))
                         : no_parameter("bias")),
      spec_(spec),
      padding_(spec.padding.sizes(spec.layer, spec.kernel.size())) {
  for (int i = 0; i < spec.kernel.size(); ++i) {
    check(spec.stride[i] > 0 && spec.dilation[i] > 0, spec.layer,
          ": stride and dilation must be positive: ", spec.stride, ", ", spec.dilation);
  }
  check(!spec.padding.is_same() || all_are(spec.stride, 1), spec.layer,
        ": padding \"same\" needs stride 1: ", spec.stride);
}

void Convolution::check_input(const Tensor& x) const {
  const int spatial = spec_.kernel.size();
  const bool fits =
      (x.ndim() == spatial + 1 || x.ndim() == spatial + 2) && x.size(-1 - spatial) == in_channels;
  constexpr const char* kPlaces[] = {", L]", ", H, W]", ", D, H, W]"};
  const char* places = kPlaces[spatial - 1];
  check(fits, spec_.layer, ": expected [N, ", in_channels, places, " or [", in_channels, places,
        ", got ", x.shape());
}

Convolution::Sides Convolution::sides(int axis) const {
  if (spec_.padding.is_same()) {
    const core::Checked dilation{spec_.layer, spec_.dilation[axis]};
    const int64_t total = (dilation * (spec_.kernel[axis] - 1)).value;
    return {total / 2, total - total / 2};
  }
  return {padding_[axis], padding_[axis]};
}

int64_t Convolution::product_padding(int axis) const {
  return spec_.mode == PaddingMode::zeros ? sides(axis).before : 0;
}

Tensor Convolution::padded(const Tensor& x) const {
  const bool zeros = spec_.mode == PaddingMode::zeros;
  std::vector<int64_t> widths;  // pairs from the last dimension backwards
  bool any = false;
  for (int axis = spec_.kernel.size() - 1; axis >= 0; --axis) {
    Sides s = sides(axis);
    if (zeros) s = {0, s.after - s.before};
    widths.push_back(s.before);
    widths.push_back(s.after);
    any = any || s.before != 0 || s.after != 0;
  }
  if (!any) return x;
  if (spec_.mode == PaddingMode::circular) return wrap(x, widths);
  if (zeros) return pad(x, widths);
  return pad(x, widths, spec_.mode == PaddingMode::reflect ? PadMode::reflect : PadMode::replicate);
}

std::string Convolution::extra_repr() const {
  const Spec& s = spec_;
  std::string result = std::to_string(in_channels) + ", " + std::to_string(out_channels) +
                       ", kernel_size=" + repr::tuple(s.kernel) +
                       ", stride=" + repr::tuple(s.stride);
  if (!s.padding.word().empty()) {
    result += ", padding=" + s.padding.word();
  } else if (!all_are(padding_, 0)) {
    result += ", padding=" + repr::tuple(padding_);
  }
  if (!all_are(s.dilation, 1)) result += ", dilation=" + repr::tuple(s.dilation);
  if (!all_are(s.output_padding, 0)) result += ", output_padding=" + repr::tuple(s.output_padding);
  if (s.groups != 1) result += ", groups=" + std::to_string(s.groups);
  if (!bias.defined()) result += ", bias=False";
  if (s.mode != PaddingMode::zeros) result += std::string(", padding_mode=") + name_of(s.mode);
  return result;
}

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel_size, const Conv1dOptions& o)
    : Convolution(in, out,
                  {.layer = "Conv1d",
                   .kernel = {kernel_size},
                   .stride = {o.stride},
                   .dilation = {o.dilation},
                   .output_padding = {0},
                   .padding = o.padding,
                   .groups = o.groups,
                   .transposed = false,
                   .has_bias = o.bias,
                   .mode = o.padding_mode}) {}

Tensor Conv1d::forward(const Tensor& x) {
  check_input(x);
  return conv1d(padded(x), weight, bias,
                {.stride = spec_.stride[0],
                 .padding = product_padding(0),
                 .dilation = spec_.dilation[0],
                 .groups = spec_.groups});
}

Conv2d::Conv2d(int64_t in, int64_t out, const Size2& kernel_size, const Conv2dOptions& o)
    : Convolution(in, out,
                  {.layer = "Conv2d",
                   .kernel = both(kernel_size),
                   .stride = both(o.stride),
                   .dilation = both(o.dilation),
                   .output_padding = {0, 0},
                   .padding = o.padding,
                   .groups = o.groups,
                   .transposed = false,
                   .has_bias = o.bias,
                   .mode = o.padding_mode}) {}

Tensor Conv2d::forward(const Tensor& x) {
  check_input(x);
  return conv2d(padded(x), weight, bias,
                {.stride = {spec_.stride[0], spec_.stride[1]},
                 .padding = {product_padding(0), product_padding(1)},
                 .dilation = {spec_.dilation[0], spec_.dilation[1]},
                 .groups = spec_.groups});
}

Conv3d::Conv3d(int64_t in, int64_t out, const Size3& kernel_size, const Conv3dOptions& o)
    : Convolution(in, out,
                  {.layer = "Conv3d",
                   .kernel = three(kernel_size),
                   .stride = three(o.stride),
                   .dilation = three(o.dilation),
                   .output_padding = {0, 0, 0},
                   .padding = o.padding,
                   .groups = o.groups,
                   .transposed = false,
                   .has_bias = o.bias,
                   .mode = o.padding_mode}) {}

Tensor Conv3d::forward(const Tensor& x) {
  check_input(x);
  return conv3d(padded(x), weight, bias,
                {.stride = triple(spec_.stride),
                 .padding = {product_padding(0), product_padding(1), product_padding(2)},
                 .dilation = triple(spec_.dilation),
                 .groups = spec_.groups});
}

ConvTranspose1d::ConvTranspose1d(int64_t in, int64_t out, int64_t kernel_size,
                                 const ConvTranspose1dOptions& o)
    : Convolution(in, out,
                  {.layer = "ConvTranspose1d",
                   .kernel = {kernel_size},
                   .stride = {o.stride},
                   .dilation = {o.dilation},
                   .output_padding = {o.output_padding},
                   .padding = o.padding,
                   .groups = o.groups,
                   .transposed = true,
                   .has_bias = o.bias,
                   .mode = PaddingMode::zeros}) {}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  check_input(x);
  return conv_transpose1d(x, weight, bias,
                          {.stride = spec_.stride[0],
                           .padding = padding_[0],
                           .output_padding = spec_.output_padding[0],
                           .dilation = spec_.dilation[0],
                           .groups = spec_.groups});
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const Size2& kernel_size,
                                 const ConvTranspose2dOptions& o)
    : Convolution(in, out,
                  {.layer = "ConvTranspose2d",
                   .kernel = both(kernel_size),
                   .stride = both(o.stride),
                   .dilation = both(o.dilation),
                   .output_padding = both(o.output_padding),
                   .padding = Pair(o.padding),
                   .groups = o.groups,
                   .transposed = true,
                   .has_bias = o.bias,
                   .mode = PaddingMode::zeros}) {}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  check_input(x);
  return conv_transpose2d(x, weight, bias,
                          {.stride = {spec_.stride[0], spec_.stride[1]},
                           .padding = {padding_[0], padding_[1]},
                           .output_padding = {spec_.output_padding[0], spec_.output_padding[1]},
                           .dilation = {spec_.dilation[0], spec_.dilation[1]},
                           .groups = spec_.groups});
}

ConvTranspose3d::ConvTranspose3d(int64_t in, int64_t out, const Size3& kernel_size,
                                 const ConvTranspose3dOptions& o)
    : Convolution(in, out,
                  {.layer = "ConvTranspose3d",
                   .kernel = three(kernel_size),
                   .stride = three(o.stride),
                   .dilation = three(o.dilation),
                   .output_padding = three(o.output_padding),
                   .padding = Triple(o.padding),
                   .groups = o.groups,
                   .transposed = true,
                   .has_bias = o.bias,
                   .mode = PaddingMode::zeros}) {}

Tensor ConvTranspose3d::forward(const Tensor& x) {
  check_input(x);
  return conv_transpose3d(x, weight, bias,
                          {.stride = triple(spec_.stride),
                           .padding = triple(padding_),
                           .output_padding = triple(spec_.output_padding),
                           .dilation = triple(spec_.dilation),
                           .groups = spec_.groups});
}

}  // namespace hero::nn
