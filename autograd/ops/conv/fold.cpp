// Windows as columns and back, each the other's derivative.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

namespace {

// Halves are added up as float, but where kernels take them as they are.
DType column_type(const Array& x) {
  const bool widens = is_half(x.dtype()) && !core::kernel_traits(x.device()).takes_halves;
  return widens ? kFloat32 : x.dtype();
}

struct Im2col : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  core::Window window;
  Shape columns;
  Im2col(const core::Window& w, const Shape& s) : window(w), columns(s) {}
  const char* name() const override { return "unfold"; }
  Array forward(const Array& x) {
    const Array from = x.to(column_type(x)).contiguous();
    const Array out = Array::empty(columns, from.dtype(), x.device());
    core::backend(x.device()).run(core::call::Im2col{from, window, out});
    return out.to(x.dtype());
  }
  Grads backward(const Tensor& g) override;
};
struct Col2im : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  core::Window window;
  Shape image;
  Col2im(const core::Window& w, const Shape& s) : window(w), image(s) {}
  const char* name() const override { return "fold"; }
  Array forward(const Array& columns) {
    const Array from = columns.to(column_type(columns)).contiguous();
    const Array out = Array::empty(image, from.dtype(), columns.device());
    core::backend(columns.device()).run(core::call::Col2im{from, window, out});
    return out.to(columns.dtype());
  }
  Grads backward(const Tensor& g) override { return {record(Im2col(window, input_shape(0)), g)}; }
};
Grads Im2col::backward(const Tensor& g) { return {record(Col2im(window, input_shape(0)), g)}; }

// The window and its places over an image of these sizes.
struct WindowPlaces {
  core::Window window;
  int64_t count = 1;
};
WindowPlaces window_places(const char* op, Pair size, Pair kernel, const UnfoldOptions& o) {
  WindowPlaces result;
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i);
    check(kernel[i] > 0 && o.stride[i] > 0 && o.dilation[i] > 0 && o.padding[i] >= 0, op,
          ": kernel_size, stride and dilation must be positive and padding not negative: ",
          kernel[i], ", ", o.stride[i], ", ", o.dilation[i], ", ", o.padding[i]);
    core::Window& window = result.window;
    window.kernel[axis] = kernel[i];
    window.padding[axis] = o.padding[i];
    window.dilation[axis] = kernel[i] == 1 ? 1 : o.dilation[i];
    const int64_t padded = (core::Checked{op, size[i]} + o.padding[i] + o.padding[i]).value;
    const int64_t reach = (core::Checked{op, window.dilation[axis]} * (kernel[i] - 1) + 1).value;
    check(padded >= reach && padded < (int64_t{1} << 60), op, ": a window of reach ", reach,
          " does not fit into a padded image of ", padded);
    window.stride[axis] = std::min(o.stride[i], padded);
    result.count *= (padded - reach) / o.stride[i] + 1;
  }
  return result;
}

}  // namespace

Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options) {
  detail::check_defined("unfold", {{"x", x}});
  if (x.ndim() == 3) return squeeze(unfold(unsqueeze(x, 0), kernel_size, options), 0);
  check(x.ndim() == 4, "unfold: x must be [N, C, H, W] or [C, H, W]: got shape ", x.shape());
  check(is_floating(x.dtype()), "unfold: x is ", x.dtype(), "; convert it to a floating dtype");
  const WindowPlaces places = window_places("unfold", {x.size(2), x.size(3)}, kernel_size, options);
  const int64_t rows = (core::Checked{"unfold", x.size(1)} * kernel_size[0] * kernel_size[1]).value;
  return record(Im2col(places.window, {x.size(0), rows, places.count}), x);
}

Tensor fold(const Tensor& columns, Pair output_size, Pair kernel_size,
            const UnfoldOptions& options) {
  const detail::Named named("fold", {"columns", columns});
  if (columns.ndim() == 2) {
    return squeeze(fold(unsqueeze(columns, 0), output_size, kernel_size, options), 0);
  }
  check(columns.ndim() == 3, "fold: columns must be [N, C KH KW, places]: got shape ",
        columns.shape());
  check(is_floating(columns.dtype()), "fold: columns are ", columns.dtype(),
        "; convert them to a floating dtype");
  const WindowPlaces places = window_places("fold", output_size, kernel_size, options);
  const int64_t taps = (core::Checked{"fold", kernel_size[0]} * kernel_size[1]).value;
  check(columns.size(1) % taps == 0 && columns.size(2) == places.count, "fold: columns ",
        columns.shape(), " do not fit ", taps, " taps at ", places.count, " places");
  const Shape image{columns.size(0), columns.size(1) / taps, output_size[0], output_size[1]};
  return record(Col2im(places.window, image), columns);
}

}  // namespace hero
