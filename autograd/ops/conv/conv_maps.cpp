// The three maps of a convolution, without columns of windows where the device has kernels of it,
// else as products with columns of some images at a time.
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>

namespace hero::detail {

namespace {

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
  core::backend(x.device()).run(core::call::Im2col{part, geometry.window, columns});
  return columns;
}

template <class Body>
void each_chunk(const Geometry& geometry, int64_t step, Body&& body) {
  for (int64_t first = 0; first < geometry.images(); first += step) {
    body(first, std::min(step, geometry.images() - first));
  }
}

// What is multiplied, and what the sums are kept in: halves are multiplied as they are where the
// machine or a GPU does so, and as float32 elsewhere.
DType factor_dtype(const Array& x) {
  return core::has_native_products(x.dtype(), x.device()) ? x.dtype() : column_dtype(x);
}

}  // namespace

core::Window3 volume_window(const core::Window& plane, const DepthWindow& depth) {
  core::Window3 all{{depth.kernel}, {depth.stride}, {depth.padding}, {depth.dilation}};
  for (int i = 0; i < 2; ++i) {
    all.kernel[1 + i] = plane.kernel[i];
    all.stride[1 + i] = plane.stride[i];
    all.padding[1 + i] = plane.padding[i];
    all.dilation[1 + i] = plane.dilation[i];
  }
  return all;
}

Array convolve(const Array& x_in, const Array& w_in, const Geometry& geometry, const Array& bias_in,
               core::Activation activation) {
  const DType factors = factor_dtype(x_in);
  const core::Window3 window = volume_window(geometry.window);
  const Array x = geometry.groups == 1 ? x_in.to(factors) : x_in.to(factors).contiguous();
  const Array w = weight_matrices(w_in, geometry, factors);
  core::Backend& device = core::backend(x.device());
  const bool direct = device.run(core::call::HasConvolution{core::ConvolutionMap::output, x,
                                                            geometry.y, window, geometry.groups});
  const DType sums = direct ? x.dtype() : column_dtype(x);
  const Array y = Array::empty(geometry.y, sums, x.device());
  if (y.numel() == 0) return y.to(x_in.dtype());
  const Array bias = bias_in.defined() ? bias_in.to(sums).contiguous() : Array();
  if (direct) {
    device.run(core::call::Convolve{x, w, window, geometry.groups, bias.defined() ? &bias : nullptr,
                                    activation, y});
    return y.to(x_in.dtype());
  }
  each_chunk(geometry, geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array columns = column_matrices(columns_of(x, geometry, first, count), geometry);
    device.run(core::call::Matmul{w.expand({columns.size(0), w.size(1), w.size(2)}), columns,
                                  place_matrices(y, geometry, first, count)});
    if (!bias.defined() && activation == core::Activation::none) return;
    const Array rows =
        y.slice(0, first, first + count).reshape({count * geometry.y[1], geometry.places()});
    const Array shift = bias.defined() ? bias.reshape({geometry.y[1], 1}) : Array();
    device.run(
        core::call::BiasActivation{activation, bias.defined() ? &shift : nullptr, rows, rows});
  });
  return y.to(x_in.dtype());
}

Array convolve_back(const Array& y_in, const Array& w_in, const Geometry& geometry,
                    const Array& bias_in) {
  const Array y = y_in.to(factor_dtype(y_in)).contiguous();
  const Array w = weight_matrices(w_in, geometry, y.dtype());
  const core::Window3 window = volume_window(geometry.window);
  core::Backend& device = core::backend(y.device());
  if (y.numel() > 0 && device.run(core::call::HasConvolution{
                           core::ConvolutionMap::input, y, geometry.x, window, geometry.groups})) {
    const Array x = Array::empty(geometry.x, y.dtype(), y.device());
    const Array bias = bias_in.defined() ? bias_in.to(y.dtype()).contiguous() : Array();
    if (device.run(core::call::ConvolveBack{y, w, window, geometry.groups,
                                            bias.defined() ? &bias : nullptr, x})) {
      return x.to(y_in.dtype());
    }
  }
  const DType sums = column_dtype(y);
  const Array x = Array::empty(geometry.x, sums, y.device()), turned = w.t();
  if (x.numel() == 0) return x.to(y_in.dtype());
  each_chunk(geometry, geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array target = x.slice(0, first, first + count);
    const Shape shape{count, geometry.rows(), geometry.places()};
    const bool direct = geometry.is_pointwise();
    const Array columns = direct ? target.reshape(shape) : Array::empty(shape, sums, y.device());
    const Array products = column_matrices(columns, geometry);
    device.run(core::call::Matmul{turned.expand({products.size(0), turned.size(1), turned.size(2)}),
                                  place_matrices(y, geometry, first, count), products});
    if (!direct) device.run(core::call::Col2im{columns, geometry.window, target});
  });
  if (bias_in.defined()) {
    core::map_into<core::kernels::Add>(x, x, bias_in.to(sums).reshape({geometry.x[1], 1, 1}));
  }
  return x.to(y_in.dtype());
}

// Images side by side make one long product: y [O, images L] times columns^T [images L, C K].
Array weight_gradient(const Array& x_in, const Array& y_in, const Geometry& geometry) {
  const Array x = x_in.to(factor_dtype(x_in)), y = y_in.to(x.dtype()).contiguous();
  const Shape shape{geometry.groups, geometry.group_outputs(), geometry.group_rows()};
  const core::Window3 window = volume_window(geometry.window);
  const int64_t groups = geometry.groups;
  core::Backend& device = core::backend(x.device());
  if (y.numel() > 0 && device.run(core::call::HasConvolution{core::ConvolutionMap::weight, x,
                                                             geometry.w, window, groups})) {
    const Array w = Array::empty(geometry.w, x.dtype(), x.device());
    const Array from = groups == 1 ? x : x.contiguous();
    device.run(core::call::ConvolveWeight{from, y, window, groups, geometry.chunk(x), w});
    return w.to(x_in.dtype());
  }
  const Array total = Array::zeros(shape, column_dtype(x), x.device());
  const int64_t places = geometry.places();
  each_chunk(geometry, geometry.chunk(x), [&](int64_t first, int64_t count) {
    const Array part = total.empty_like();
    if (geometry.groups > 1 || count == 1) {
      const Array columns = column_matrices(columns_of(x, geometry, first, count), geometry);
      device.run(core::call::Matmul{place_matrices(y, geometry, first, count), columns.t(), part});
    } else {
      const Array wide = Array::empty({geometry.rows(), count, places}, x.dtype(), x.device());
      device.run(core::call::Im2col{x.slice(0, first, first + count), geometry.window,
                                    wide.permute({1, 0, 2})});
      const Array out = place_matrices(y, geometry, first, count).permute({1, 0, 2});
      device.run(core::call::Matmul{out.reshape({1, out.size(0), count * places}),
                                    wide.reshape({1, geometry.rows(), count * places}).t(), part});
    }
    core::map_into<core::kernels::Add>(total, total, part);
  });
  return total.reshape(geometry.w).to(x_in.dtype());
}

}  // namespace hero::detail
