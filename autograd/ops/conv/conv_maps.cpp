// The three maps of a convolution, without columns of windows where the device has kernels of it,
// else as products with columns of some images, or of some planes of a volume, at a time. The
// columns of planes are made a tap of the depth at a time, from views of the input's planes, so no
// plane is copied before.
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>

namespace hero::detail {

namespace {

// Images whose columns are made together, or planes of the output of one volume.
struct Chunk {
  int64_t first, images, begin = 0, end = 1;
};

template <class Body>
void each_chunk(const Geometry& g, const Array& like, Body&& body) {
  const int64_t step = g.chunk(like);
  if (!g.is_volume()) {
    for (int64_t first = 0; first < g.images(); first += step) {
      body(Chunk{first, std::min(step, g.images() - first)});
    }
    return;
  }
  for (int64_t n = 0; n < g.images(); ++n) {
    for (int64_t begin = 0; begin < g.planes(); begin += step) {
      body(Chunk{n, 1, begin, std::min(g.planes(), begin + step)});
    }
  }
}

// The part of y that a chunk computes, [images, O, h, w] or [1, O, planes, h, w].
Array part_of(const Array& y, const Geometry& g, const Chunk& chunk) {
  const Array images = y.slice(0, chunk.first, chunk.first + chunk.images);
  return g.is_volume() ? images.slice(2, chunk.begin, chunk.end) : images;
}

// The same as a batch of matrices [.., O / groups, planes L]: the batch is the images, or the
// groups of the one image. A copy where a volume's planes are not all.
Array place_matrices(const Array& y, const Geometry& g, const Chunk& chunk) {
  return part_of(y, g, chunk)
      .reshape(
          {chunk.images * g.groups, g.group_outputs(), (chunk.end - chunk.begin) * g.places()});
}

// Columns as a batch of matrices [.., C K / groups, planes L].
Array column_matrices(const Array& columns, const Geometry& g) {
  return columns.reshape({columns.size(0) * g.groups, g.group_rows(), columns.size(2)});
}

// A weight as contiguous matrices [groups, O / groups, C K / groups].
Array weight_matrices(const Array& w, const Geometry& g, DType dtype) {
  const Array converted = w.to(dtype);
  const Array ordered = g.is_volume() ? converted.permute({0, 2, 1, 3, 4}) : converted;
  return ordered.contiguous().reshape({g.groups, g.group_outputs(), g.group_rows()});
}

// Such matrices as a weight.
Array in_weight_order(const Array& rows, const Geometry& g) {
  if (!g.is_volume()) return rows.reshape(g.w);
  const Array ordered = rows.reshape({g.w[0], g.w[2], g.w[1], g.w[3], g.w[4]});
  return ordered.permute({0, 2, 1, 3, 4}).contiguous();
}

// Planes [first, last) of the output read a tap of the depth from inside the input, where the first
// of them reads plane `from`.
struct InsidePlanes {
  int64_t first, last, from;
};
InsidePlanes inside_planes(const Geometry& g, int64_t tap, const Chunk& chunk) {
  const int64_t offset = tap * g.depth.dilation - g.depth.padding, stride = g.depth.stride;
  const int64_t low = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const int64_t high = offset < g.x[2] ? (g.x[2] - offset + stride - 1) / stride : 0;
  const int64_t first = std::clamp(low, chunk.begin, chunk.end);
  const int64_t last = std::clamp(high, first, chunk.end);
  return {first, last, first * stride + offset};
}

// Every stride-th plane of image n of x, those that `in` names: [planes, C, H, W].
Array planes_of(const Array& x, const Geometry& g, int64_t n, const InsidePlanes& in) {
  const int64_t count = in.last - in.first;
  const Array planes =
      x.select(0, n).slice(1, in.from, in.from + (count - 1) * g.depth.stride + 1, g.depth.stride);
  return planes.permute({1, 0, 2, 3});
}

// Calls body(inside planes, their columns [planes, C KH KW, L] in `columns`) for each tap of the
// depth.
template <class Body>
void each_tap(const Array& columns, const Geometry& g, const Chunk& chunk, Body&& body) {
  const Array split =
      columns.reshape({g.depth.kernel, g.tap_rows(), chunk.end - chunk.begin, g.places()});
  for (int64_t tap = 0; tap < g.depth.kernel; ++tap) {
    body(inside_planes(g, tap, chunk), split.select(0, tap).permute({1, 0, 2}));
  }
}

// Columns [images, C K, planes L].
Array columns_of(const Array& x, const Geometry& g, const Chunk& chunk) {
  const Array images = x.slice(0, chunk.first, chunk.first + chunk.images);
  const Shape shape{chunk.images, g.rows(), (chunk.end - chunk.begin) * g.places()};
  if (g.is_pointwise()) return images.reshape(shape);
  core::Backend& device = core::backend(x.device());
  const Array columns = Array::empty(shape, x.dtype(), x.device());
  if (!g.is_volume()) {
    device.run(core::call::Im2col{images, g.window, columns});
    return columns;
  }
  each_tap(columns, g, chunk, [&](const InsidePlanes& in, const Array& of_tap) {
    const auto zeros = [&](int64_t begin, int64_t end) {
      if (begin < end)
        device.run(core::call::Fill{of_tap.slice(0, begin - chunk.begin, end - chunk.begin), 0});
    };
    zeros(chunk.begin, in.first);
    zeros(in.last, chunk.end);
    if (in.first == in.last) return;
    device.run(core::call::Im2col{planes_of(x, g, chunk.first, in), g.window,
                                  of_tap.slice(0, in.first - chunk.begin, in.last - chunk.begin)});
  });
  return columns;
}

// What is multiplied, and what the sums are kept in: halves are multiplied as they are where the
// machine or a GPU does so, and as float32 elsewhere, as are columns of volumes.
DType factor_dtype(const Array& x) {
  return core::has_native_products(x.dtype(), x.device()) ? x.dtype() : column_dtype(x);
}

}  // namespace

core::Window3 Geometry::windows() const {
  core::Window3 all{{depth.kernel}, {depth.stride}, {depth.padding}, {depth.dilation}};
  for (int i = 0; i < 2; ++i) {
    all.kernel[1 + i] = window.kernel[i];
    all.stride[1 + i] = window.stride[i];
    all.padding[1 + i] = window.padding[i];
    all.dilation[1 + i] = window.dilation[i];
  }
  return all;
}

bool Geometry::is_mirrored() const {
  bool result = depth.stride == 1 && depth.padding <= depth.dilation * (depth.kernel - 1);
  for (int i = 0; i < 2; ++i) {
    result = result && window.stride[i] == 1 && window.padding[i] < window.reach(i);
  }
  return result && !is_pointwise();
}

Geometry Geometry::mirrored() const {
  Geometry back{window, depth, groups, y, w, x};
  std::swap(back.w[0], back.w[1]);
  back.depth.padding = depth.dilation * (depth.kernel - 1) - depth.padding;
  for (int i = 0; i < 2; ++i) back.window.padding[i] = window.reach(i) - 1 - window.padding[i];
  return back;
}

Array convolve(const Array& x_in, const Array& w_in, const Geometry& g, const Array& bias_in,
               core::Activation activation) {
  const core::Window3 windows = g.windows();
  Array x = x_in.to(factor_dtype(x_in));
  if (g.groups > 1) x = x.contiguous();
  core::Backend& device = core::backend(x.device());
  const bool direct = device.run(
      core::call::HasConvolution{core::ConvolutionMap::output, x, g.y, windows, g.groups});
  if (g.is_volume() && !direct) x = x.to(column_dtype(x));
  const DType sums = direct ? x.dtype() : column_dtype(x);
  const Array y = Array::empty(g.y, sums, x.device());
  if (y.numel() == 0) return y.to(x_in.dtype());
  const Array w = weight_matrices(w_in, g, x.dtype());
  const Array bias = bias_in.defined() ? bias_in.to(sums).contiguous() : Array();
  const Array* const any_bias = bias.defined() ? &bias : nullptr;
  if (direct) {
    device.run(core::call::Convolve{x, w, windows, g.groups, any_bias, activation, y});
    return y.to(x_in.dtype());
  }
  const Array shift = bias.defined() ? bias.reshape({g.y[1], 1}) : Array();
  each_chunk(g, x, [&](const Chunk& chunk) {
    const Array columns = column_matrices(columns_of(x, g, chunk), g);
    const bool whole = chunk.end - chunk.begin == g.planes();
    const Array part = whole ? place_matrices(y, g, chunk)
                             : Array::empty({1, g.y[1], columns.size(2)}, sums, x.device());
    device.run(
        core::call::Matmul{w.expand({columns.size(0), w.size(1), w.size(2)}), columns, part});
    if (bias.defined() || activation != core::Activation::none) {
      const Array rows = part.reshape({chunk.images * g.y[1], columns.size(2)});
      device.run(
          core::call::BiasActivation{activation, bias.defined() ? &shift : nullptr, rows, rows});
    }
    if (whole) return;
    const Array target = part_of(y, g, chunk);
    device.run(core::call::Copy{part.reshape(target.shape()), target});
  });
  return y.to(x_in.dtype());
}

Array convolve_back(const Array& y_in, const Array& w_in, const Geometry& g, const Array& bias_in) {
  const Array y = y_in.to(g.is_volume() ? column_dtype(y_in) : factor_dtype(y_in)).contiguous();
  const Array w = weight_matrices(w_in, g, y.dtype());
  const core::Window3 windows = g.windows();
  core::Backend& device = core::backend(y.device());
  if (!g.is_volume() && y.numel() > 0 &&
      device.run(
          core::call::HasConvolution{core::ConvolutionMap::input, y, g.x, windows, g.groups})) {
    const Array x = Array::empty(g.x, y.dtype(), y.device());
    const Array bias = bias_in.defined() ? bias_in.to(y.dtype()).contiguous() : Array();
    if (device.run(core::call::ConvolveBack{y, w, windows, g.groups,
                                            bias.defined() ? &bias : nullptr, x})) {
      return x.to(y_in.dtype());
    }
  }
  const DType dtype = column_dtype(y);
  const bool pointwise = g.is_pointwise(), adds = g.is_volume() && !pointwise;
  // Sums over taps of the depth are rounded once.
  const Array x = adds ? Array::zeros(g.x, is_half(dtype) ? kFloat32 : dtype, y.device())
                       : Array::empty(g.x, dtype, y.device());
  if (x.numel() == 0) return x.to(y_in.dtype());
  const Array turned = w.t();
  each_chunk(g, g.is_volume() ? y : x, [&](const Chunk& chunk) {
    const Array target = x.slice(0, chunk.first, chunk.first + chunk.images);
    const Shape shape{chunk.images, g.rows(), (chunk.end - chunk.begin) * g.places()};
    const Array columns =
        pointwise ? target.reshape(shape) : Array::empty(shape, dtype, y.device());
    const Array products = column_matrices(columns, g);
    device.run(core::call::Matmul{turned.expand({products.size(0), turned.size(1), turned.size(2)}),
                                  place_matrices(y, g, chunk), products});
    if (pointwise) return;
    if (!g.is_volume()) return device.run(core::call::Col2im{columns, g.window, target});
    each_tap(columns, g, chunk, [&](const InsidePlanes& in, const Array& of_tap) {
      if (in.first == in.last) return;
      const Array sums =
          Array::empty({in.last - in.first, g.x[1], g.x[3], g.x[4]}, dtype, y.device());
      const Array some = of_tap.slice(0, in.first - chunk.begin, in.last - chunk.begin);
      device.run(core::call::Col2im{some, g.window, sums});
      const Array planes = planes_of(x, g, chunk.first, in);
      core::map_into<core::kernels::Add>(planes, planes, sums);
    });
  });
  if (bias_in.defined()) {
    core::map_into<core::kernels::Add>(x, x, bias_in.to(dtype).reshape({g.x[1], 1, 1}));
  }
  return x.to(y_in.dtype());
}

// Images side by side make one long product: y [O, images L] times columns^T [images L, C K].
Array weight_gradient(const Array& x_in, const Array& y_in, const Geometry& g) {
  const core::Window3 windows = g.windows();
  Array x = x_in.to(factor_dtype(x_in));
  core::Backend& device = core::backend(x.device());
  const bool direct =
      y_in.numel() > 0 && device.run(core::call::HasConvolution{core::ConvolutionMap::weight, x,
                                                                g.w, windows, g.groups});
  if (g.is_volume() && !direct) x = x.to(column_dtype(x));
  const Array y = y_in.to(x.dtype()).contiguous();
  const Shape shape{g.groups, g.group_outputs(), g.group_rows()};
  if (direct) {
    const Array w = Array::empty(shape, x.dtype(), x.device());
    const Array from = g.groups == 1 ? x : x.contiguous();
    device.run(core::call::ConvolveWeight{from, y, windows, g.groups, g.chunk(x), w});
    return in_weight_order(w, g).to(x_in.dtype());
  }
  const Array total = Array::zeros(shape, column_dtype(x), x.device());
  if (x.numel() == 0 || y.numel() == 0) return in_weight_order(total, g).to(x_in.dtype());
  each_chunk(g, x, [&](const Chunk& chunk) {
    const Array part = total.empty_like();
    if (g.groups > 1 || chunk.images == 1) {
      const Array columns = column_matrices(columns_of(x, g, chunk), g);
      device.run(core::call::Matmul{place_matrices(y, g, chunk), columns.t(), part});
    } else {
      const int64_t places = chunk.images * g.places();
      const Array wide = Array::empty({g.rows(), chunk.images, g.places()}, x.dtype(), x.device());
      device.run(core::call::Im2col{x.slice(0, chunk.first, chunk.first + chunk.images), g.window,
                                    wide.permute({1, 0, 2})});
      const Array out = place_matrices(y, g, chunk).permute({1, 0, 2});
      device.run(core::call::Matmul{out.reshape({1, out.size(0), places}),
                                    wide.reshape({1, g.rows(), places}).t(), part});
    }
    core::map_into<core::kernels::Add>(total, total, part);
  });
  return in_weight_order(total, g).to(x_in.dtype());
}

}  // namespace hero::detail
