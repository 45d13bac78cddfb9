#pragma once
// What conv2d and conv_transpose2d share. N images, C input and O output channels, K = KH * KW
// taps, L places of the window. [note: three operations closed under differentiation] The forward
// map, its transpose and the gradient of the weight are the three ways to leave one factor out of
// the sum over n, o, c, tap, place of y w x; the derivative of each is the other two.
#include <vector>

#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>

namespace hero::detail {

/// Columns that are held at once: enough for large products, no more than a few images of a large
/// network.
inline int64_t column_bytes(Device device) {
  return int64_t{core::kernel_traits(device).wants_large_calls ? 256 : 4} << 20;
}

/// Halves are multiplied as float and rounded once, but where kernels take them as they are.
inline DType column_dtype(const Array& x) {
  if (core::kernel_traits(x.device()).takes_halves) return x.dtype();
  return x.dtype() == kFloat64 ? kFloat64 : kFloat32;
}

/// How a window moves along the depth.
struct DepthWindow {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};
/// A window in planes, and one along the depth.
core::Window3 volume_window(const core::Window& plane, const DepthWindow& depth = {});

/// One convolution from x [N, C, H, W] to y [N, O, h, w].
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
    return std::max<int64_t>(1, std::min(images(), column_bytes(like.device()) / bytes));
  }
};

/// \name The three maps, on arrays (conv_maps.cpp)
/// \{
/// y of x and w, a bias [O], if it is defined, and an activation.
Array convolve(const Array& x, const Array& w, const Geometry& geometry, const Array& bias = {},
               core::Activation activation = core::Activation::none);
/// x of y and w, and a bias [C], if it is defined.
Array convolve_back(const Array& y, const Array& w, const Geometry& geometry,
                    const Array& bias = {});
/// w of x and y.
Array weight_gradient(const Array& x, const Array& y, const Geometry& geometry);
/// \}

/// The second as a recorded operation: y, w and perhaps bias -> x.
Tensor record_transposed(const Geometry& geometry, const std::vector<Tensor>& inputs);

/// \name What a user asks for
/// \{
struct ConvolutionSpec {
  const char* op;
  hero::Pair stride, padding, dilation;
  int64_t groups;
  bool is_line = false;  ///< operands are lines with a dimension of height 1

  /// The shape of an operand as errors tell it.
  Shape shown(const Tensor& operand) const {
    Shape shape = operand.shape();
    if (is_line && shape.size() == 4) shape.erase(2);
    return shape;
  }
};
void check_operands(const ConvolutionSpec& spec, const Tensor& x, const Tensor& w,
                    const Tensor& bias, int64_t outputs);
core::Window window_of(const ConvolutionSpec& spec, const Tensor& w);
/// Positions that the kernel spans.
int64_t window_reach(const char* op, const core::Window& window, int axis);
/// Steps that nobody takes become small, so that kernels may multiply by them: the dilation of one
/// tap, and a stride that leads out of the padded input.
void bound_steps(const char* op, core::Window& window, int axis, int64_t padded);
/// A bias of another dtype promotes.
Tensor add_channel_bias(const Tensor& y, const Tensor& bias);
/// \}

}  // namespace hero::detail
