// Convolution as a matrix product with columns of windows. N images, C input and O output channels,
// K = KH * KW taps, L places of the window. [note: three operations closed under differentiation]
// The forward map, its transpose and the gradient of the weight are the three ways to leave one
// factor out of the sum over n, o, c, tap, place of y w x; the derivative of each is the other two.
#include <hero/autograd/autocast.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/math/composed.h>
#include <hero/autograd/ops/windows/columns.h>
#include <hero/autograd/two_part_backward.h>
#include <hero/core/backend.h>
#include <hero/core/checked.h>
#include <hero/core/functions/convolve.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

using core::Activation;

// One convolution from x [N, C, H, W] to y [N, O, h, w].
struct Geometry {
  core::Window window;
  int64_t groups = 1;
  Shape x, w, y;

  int64_t images() const { return x[0]; }
  int64_t rows() const { return x[1] * w[2] * w[3]; }  // of columns: C K
  int64_t group_rows() const { return rows() / groups; }
  int64_t group_outputs() const { return w[0] / groups; }
  int64_t places() const { return y[2] * y[3]; }
  bool is_pointwise() const {
    const auto is = [](const int64_t(&pair)[2], int64_t value) {
      return pair[0] == value && pair[1] == value;
    };
    return is(window.kernel, 1) && is(window.stride, 1) && is(window.padding, 0) &&
           is(window.surplus, 0);
  }
  // Images whose columns are made at a time; one where groups take the products' batch dimension.
  int64_t chunk(const Array& like) const {
    if (groups > 1) return 1;
    const int64_t item = item_size(like.dtype());
    const int64_t bytes = std::max<int64_t>(1, Shape{rows(), places(), item}.numel("conv"));
    return std::max<int64_t>(1, std::min(images(), detail::column_bytes(like.device()) / bytes));
  }
};

// Weight [O, C / groups, KH, KW] as contiguous matrices [groups, O / groups, C K / groups].
Array weight_matrices(const Array& w, const Geometry& geometry, DType dtype) {
  return w.to(dtype).contiguous().reshape(
      {geometry.groups, geometry.group_outputs(), geometry.group_rows()});
}

// Images [first, first + count) of y [N, O, h, w] as a batch of matrices [.., O / groups, L]: the
// batch is the images, or the groups of the one image.
Array place_matrices(const Array& y, const Geometry& geometry, int64_t first, int64_t count) {
  const Array part = y.slice(0, first, first + count);
  return part.reshape({count * geometry.groups, geometry.group_outputs(), geometry.places()});
}

// Columns as a batch of matrices [.., C K / groups, L].
Array column_matrices(const Array& columns, const Geometry& geometry) {
  const int64_t count = columns.size(0) * geometry.groups;
  return columns.reshape({count, geometry.group_rows(), geometry.places()});
}

// Columns [count, C K, L] of images [first, first + count) of x.
Array columns_of(const Array& x, const Geometry& geometry, int64_t first, int64_t count) {
  const Array part = x.slice(0, first, first + count);
  const Shape shape{count, geometry.rows(), geometry.places()};
  if (geometry.is_pointwise()) return part.reshape(shape);
  const Array columns = Array::empty(shape, x.dtype(), x.device());
  core::backend(x.device()).im2col(part, geometry.window, columns);
  return columns;
}

template <class Body>
void each_chunk(const Geometry& geometry, int64_t step, Body&& body) {
  for (int64_t first = 0; first < geometry.images(); first += step) {
    body(first, std::min(step, geometry.images() - first));
  }
}

// A bias [O] and an activation, if any, are added while the products are in the cache.
Array convolve(const Array& x_in, const Array& w_in, const Geometry& geometry,
               const Array& bias_in = {}, Activation activation = Activation::none) {
  const DType dtype = detail::column_dtype(x_in);
  const Array x = x_in.to(dtype), w = weight_matrices(w_in, geometry, dtype);
  const Array y = Array::empty(geometry.y, dtype, x.device());
  if (y.numel() == 0) return y.to(x_in.dtype());
  const Array bias =
      bias_in.defined() ? bias_in.to(dtype).contiguous().reshape({geometry.y[1], 1}) : Array();
  core::Backend& device = core::backend(x.device());
  const core::Window3 window = core::volume_window(geometry.window);
  const int64_t images = geometry.groups == 1 ? core::images_on_host(x, window) : 0;
  each_chunk(geometry, images > 0 ? images : geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array part = y.slice(0, first, first + count);
    if (images > 0) {
      core::convolve_on_host(x.slice(0, first, first + count), w, window, part);
    } else {
      const Array columns = column_matrices(columns_of(x, geometry, first, count), geometry);
      device.matmul(w.expand({columns.size(0), w.size(1), w.size(2)}), columns,
                    place_matrices(y, geometry, first, count));
    }
    if (!bias.defined() && activation == Activation::none) return;
    const Array rows = part.reshape({count * geometry.y[1], geometry.places()});
    device.bias_activation(activation, bias.defined() ? &bias : nullptr, rows, rows);
  });
  return y.to(x_in.dtype());
}

// With a bias [C] of x's channels.
Array convolve_back(const Array& y_in, const Array& w_in, const Geometry& geometry,
                    const Array& bias = {}) {
  const DType dtype = detail::column_dtype(y_in);
  const Array y = y_in.to(dtype).contiguous(), w = weight_matrices(w_in, geometry, dtype).t();
  const Array x = Array::empty(geometry.x, dtype, y.device());
  if (x.numel() == 0) return x.to(y_in.dtype());
  core::Backend& device = core::backend(y.device());
  const core::Window3 mirrored = core::mirrored(geometry.window);
  const int64_t images = geometry.groups == 1 ? core::gradient_images_on_host(y, mirrored) : 0;
  each_chunk(geometry, images > 0 ? images : geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array target = x.slice(0, first, first + count), of_y = y.slice(0, first, first + count);
    if (images > 0 && core::convolve_back_on_host(of_y, w.t(), mirrored, target)) return;
    const Shape shape{count, geometry.rows(), geometry.places()};
    const bool direct = geometry.is_pointwise();
    const Array columns = direct ? target.reshape(shape) : Array::empty(shape, dtype, y.device());
    const Array products = column_matrices(columns, geometry);
    device.matmul(w.expand({products.size(0), w.size(1), w.size(2)}),
                  place_matrices(y, geometry, first, count), products);
    if (!direct) device.col2im(columns, geometry.window, target);
  });
  if (bias.defined()) {
    core::map_into<core::kernels::Add>(x, x, bias.to(dtype).reshape({geometry.x[1], 1, 1}));
  }
  return x.to(y_in.dtype());
}

// Images side by side make one long product: y [O, images L] times columns^T [images L, C K].
Array weight_gradient(const Array& x_in, const Array& y_in, const Geometry& geometry) {
  const DType dtype = detail::column_dtype(x_in);
  const Array x = x_in.to(dtype), y = y_in.to(dtype).contiguous();
  const Shape shape{geometry.groups, geometry.group_outputs(), geometry.group_rows()};
  const core::Window3 window = core::volume_window(geometry.window);
  if (geometry.groups == 1 && y.numel() > 0 && core::gradient_images_on_host(x, window) > 0) {
    const Array w = Array::empty(geometry.w, dtype, x.device());
    core::weights_on_host(x, y, window, geometry.chunk(x), w);
    return w.to(x_in.dtype());
  }
  const Array total = Array::zeros(shape, dtype, x.device());
  core::Backend& device = core::backend(x.device());
  const int64_t places = geometry.places();
  each_chunk(geometry, geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array part = total.empty_like();
    if (geometry.groups > 1 || count == 1) {
      const Array columns = column_matrices(columns_of(x, geometry, first, count), geometry);
      device.matmul(place_matrices(y, geometry, first, count), columns.t(), part);
    } else {
      const Array wide = Array::empty({geometry.rows(), count, places}, dtype, x.device());
      device.im2col(x.slice(0, first, first + count), geometry.window, wide.permute({1, 0, 2}));
      const Array out = place_matrices(y, geometry, first, count).permute({1, 0, 2});
      device.matmul(out.reshape({1, out.size(0), count * places}),
                    wide.reshape({1, geometry.rows(), count * places}).t(), part);
    }
    core::map_into<core::kernels::Add>(total, total, part);
  });
  return total.reshape(geometry.w).to(x_in.dtype());
}

// x, w and perhaps bias -> y, or relu of it: one pass over products that are still in the cache.
// Without relu the gradients need no composed definition, since they are recorded operations.
struct Conv : Op, TwoPartBackward {
  static constexpr unsigned kSaveInputs = 0b111;
  Geometry geometry;
  Activation activation;
  explicit Conv(const Geometry& g, Activation a = Activation::none) : geometry(g), activation(a) {}
  bool saves_input(int i) const {
    return activation != Activation::none || (i < 2 && needs(1 - i));
  }
  const char* name() const override { return "conv2d"; }
  Array forward(std::span<const Array> in) {
    const Array y = convolve(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array(), activation);
    if (input_count() > 0 && activation == Activation::relu) Recorder::save(*this, y, -1);
    return y;
  }
  Grads backward(const Tensor& g) override;
  Grads gradients(const Tensor& g) const;
};

// y, w and perhaps bias -> x
struct ConvBack : Op, TwoPartBackward {
  Geometry geometry;
  explicit ConvBack(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return i < 2 && needs(1 - i); }
  const char* name() const override { return "conv_transpose2d"; }
  Array forward(std::span<const Array> in) {
    return convolve_back(in[0], in[1], geometry, in.size() > 2 ? in[2] : Array());
  }
  Grads backward(const Tensor& g) override;
};

// x, y -> w
struct ConvWeight : Op {
  Geometry geometry;
  explicit ConvWeight(const Geometry& g) : geometry(g) {}
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override { return "conv2d_weight"; }
  Array forward(const Array& x, const Array& y) { return weight_gradient(x, y, geometry); }
  Grads backward(const Tensor& g) override;
};

// see [note: three operations closed under differentiation]
Grads Conv::gradients(const Tensor& g) const {
  Grads grads{needs(0) ? record_list(ConvBack(geometry), {g, input(1)}) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), input(0), g) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0, 2, 3}) : Tensor());
  return grads;
}
Grads Conv::backward(const Tensor& g) {
  if (activation == Activation::none) return gradients(g);
  if (!grad_enabled()) {
    return gradients(Tensor(in_both_parts(
        [&] { return core::map<core::kernels::ReluBackward>(g.array(), output().array()); })));
  }
  std::vector<Tensor> inputs;
  for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
  return detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{relu(record_list(Conv(geometry), in))};
  });
}
Grads ConvBack::backward(const Tensor& g) {
  Grads grads{needs(0) ? record_list(Conv(geometry), {g, input(1)}) : Tensor(),
              needs(1) ? record(ConvWeight(geometry), g, input(0)) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0, 2, 3}) : Tensor());
  return grads;
}
Grads ConvWeight::backward(const Tensor& g) {
  return {needs(0) ? record_list(ConvBack(geometry), {input(1), g}) : Tensor(),
          needs(1) ? record_list(Conv(geometry), {input(0), g}) : Tensor()};
}

// A bias of another dtype promotes.
Tensor add_bias(const Tensor& y, const Tensor& bias) {
  return y + reshape(bias, {bias.numel(), 1, 1});
}

struct Spec {
  const char* op;
  Pair stride, padding, dilation;
  int64_t groups;
};

void check_operands(const Spec& spec, const Tensor& x, const Tensor& w, const Tensor& bias,
                    int64_t outputs) {
  const char* op = spec.op;
  check(x.ndim() == 4 && w.ndim() == 4, op, ": x must be [N, C, H, W] and weight 4-D too: got ",
        x.shape(), " and ", w.shape());
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(x.dtype() == w.dtype(), op, ": x is ", x.dtype(), " and weight ", w.dtype(),
        "; convert one with to()");
  check(spec.groups > 0, op, ": groups must be positive: ", spec.groups);
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    check(spec.stride[axis] > 0 && spec.dilation[axis] > 0 && spec.padding[axis] >= 0, op,
          ": stride and dilation must be positive and padding not negative: ", spec.stride[axis],
          ", ", spec.dilation[axis], ", ", spec.padding[axis]);
    check(w.size(2 + i) > 0, op, ": empty kernel: weight has shape ", w.shape());
  }
  check(!bias.defined() || bias.shape() == Shape{outputs}, op, ": bias has shape ",
        bias.defined() ? bias.shape() : Shape{}, "; it should be ", Shape{outputs});
}

core::Window window_of(const Spec& spec, const Tensor& w) {
  core::Window window;
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    window.kernel[i] = w.size(2 + i);
    window.stride[i] = spec.stride[axis];
    window.padding[i] = spec.padding[axis];
    window.dilation[i] = spec.dilation[axis];
  }
  return window;
}

// Positions that the kernel spans.
int64_t reach(const char* op, const core::Window& window, int axis) {
  return (core::Checked{op, window.dilation[axis]} * (window.kernel[axis] - 1) + 1).value;
}

// Steps that nobody takes become small, so that kernels may multiply by them: the dilation of one
// tap, and a stride that leads out of the padded input.
void bound_steps(const char* op, core::Window& window, int axis, int64_t padded) {
  constexpr int64_t kMost = int64_t{1} << 60;
  check(padded <= kMost, op, ": a padded input of ", padded, " is too large; use less padding");
  if (window.kernel[axis] == 1) window.dilation[axis] = 1;
  window.stride[axis] = std::min(window.stride[axis], padded);
}

Tensor convolution(const Spec& spec, const Tensor& x, const Tensor& w, const Tensor& bias,
                   Activation activation = Activation::none) {
  if (const AutocastInputs in(spec.op, x, w, bias); in.changed()) {
    return convolution(spec, in[0], in[1], in[2], activation);
  }
  check_operands(spec, x, w, bias, w.size(0));
  check(x.size(1) % spec.groups == 0 && x.size(1) / spec.groups == w.size(1) &&
            w.size(0) % spec.groups == 0,
        spec.op, ": x ", x.shape(), " does not fit weight ", w.shape(),
        " with groups = ", spec.groups, "; weight is [O, C / groups, KH, KW]");
  Geometry geometry{window_of(spec, w), spec.groups, x.shape(), w.shape(), x.shape()};
  geometry.y[1] = w.size(0);
  for (int i = 0; i < 2; ++i) {
    core::Window& window = geometry.window;
    const int64_t spanned = reach(spec.op, window, i);
    const int64_t padded =
        (core::Checked{spec.op, x.size(2 + i)} + window.padding[i] + window.padding[i]).value;
    check(padded >= spanned, spec.op, ": kernel of reach ", spanned,
          " is larger than the padded input of ", padded, ": x ", x.shape(), ", weight ",
          w.shape());
    geometry.y[2 + i] = (padded - spanned) / window.stride[i] + 1;
    bound_steps(spec.op, window, i, padded);
  }
  std::vector<Tensor> inputs{x, w};
  if (bias.defined() && bias.dtype() == w.dtype()) inputs.push_back(bias);
  if (!bias.defined() || inputs.size() > 2) return record_list(Conv(geometry, activation), inputs);
  if (detail::any_half(x, bias)) {
    return detail::in_float32(spec.op, {x, w, bias}, [=](const auto& in) {
      return convolution(spec, in[0], in[1], in[2], activation);
    });
  }
  const Tensor y = add_bias(record_list(Conv(geometry), inputs), bias);
  return activation == Activation::relu ? relu(y) : y;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (x.ndim() == 3) return squeeze(conv2d(unsqueeze(x, 0), weight, bias, options), 0);
  return convolution({"conv2d", options.stride, options.padding, options.dilation, options.groups},
                     x, weight, bias);
}

Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& options) {
  if (x.ndim() == 3) return squeeze(conv2d_relu(unsqueeze(x, 0), weight, bias, options), 0);
  const Spec spec{"conv2d", options.stride, options.padding, options.dilation, options.groups};
  return convolution(spec, x, weight, bias, Activation::relu);
}

// An image of height 1.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (x.ndim() == 2) return squeeze(conv1d(unsqueeze(x, 0), weight, bias, options), 0);
  check(x.ndim() == 3 && weight.ndim() == 3, "conv1d: x must be [N, C, L] and weight 3-D too: got ",
        x.shape(), " and ", weight.shape());
  const Spec spec{
      "conv1d", {1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups};
  return squeeze(convolution(spec, unsqueeze(x, 2), unsqueeze(weight, 2), bias), 2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  constexpr auto kName = "conv_transpose2d";
  if (x.ndim() == 3) return squeeze(conv_transpose2d(unsqueeze(x, 0), weight, bias, options), 0);
  const Spec spec{kName, options.stride, options.padding, options.dilation, options.groups};
  const core::Checked outputs =
      core::Checked{kName, weight.ndim() == 4 ? weight.size(1) : 0} * options.groups;
  check_operands(spec, x, weight, bias, outputs.value);
  check(x.size(1) == weight.size(0) && x.size(1) % options.groups == 0, kName, ": x ", x.shape(),
        " does not fit weight ", weight.shape(), " with groups = ", options.groups,
        "; weight is [C, O / groups, KH, KW]");
  Geometry geometry{window_of(spec, weight), options.groups, x.shape(), weight.shape(), x.shape()};
  geometry.x[1] = outputs.value;
  for (int i = 0; i < 2; ++i) {
    core::Window& window = geometry.window;
    const int64_t extra = options.output_padding[static_cast<size_t>(i)];
    check(extra >= 0 && (extra < window.stride[i] || extra < window.dilation[i]), kName,
          ": output_padding ", extra, " must be smaller than stride or dilation");
    const core::Checked moved = core::Checked{kName, x.size(2 + i) - 1} * window.stride[i];
    const int64_t padded = (moved + reach(kName, window, i) + extra).value;
    geometry.x[2 + i] =
        (core::Checked{kName, padded} - window.padding[i] - window.padding[i]).value;
    // Beyond the last place that y has; columns have no more places than y.
    geometry.window.surplus[i] = extra;
    check(geometry.x[2 + i] > 0, kName, ": the output would be empty: x ", x.shape(), ", weight ",
          weight.shape());
    bound_steps(kName, window, i, padded);
  }
  if (!bias.defined()) return record_list(ConvBack(geometry), {x, weight});
  if (bias.dtype() == x.dtype()) return record_list(ConvBack(geometry), {x, weight, bias});
  if (detail::any_half(x, bias)) {
    return detail::in_float32(kName, {x, weight, bias}, [=](const auto& in) {
      return conv_transpose2d(in[0], in[1], in[2], options);
    });
  }
  return add_bias(record_list(ConvBack(geometry), {x, weight}), bias);
}

}  // namespace hero
