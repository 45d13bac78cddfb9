#pragma once
// What convolutions of lines, images and volumes and their transposes share. N images, C input and
// O output channels, K = KD * KH * KW taps, KD of them along the depth, L places of the window in a
// plane. Images are volumes of one plane. [note: three operations closed under differentiation] The
// forward map, its transpose and the gradient of the weight are the three ways to leave one factor
// out of the sum over n, o, c, tap, place of y w x; the derivative of each is the other two.
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

/// How a window moves along the depth: all of it is small enough to be multiplied.
struct DepthWindow {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};

/// One convolution from x [N, C, H, W] to y [N, O, h, w], or of volumes, [N, C, D, H, W] to
/// [N, O, d, h, w] in one group. The rows of columns are a tap of the depth, a channel, and a tap
/// of height and width, in this order.
struct Geometry {
  core::Window window;  // in a plane
  DepthWindow depth;
  int64_t groups = 1;
  Shape x, w, y;

  bool is_volume() const { return x.size() == 5; }
  int64_t images() const { return x[0]; }
  int64_t tap_rows() const { return x[1] * window.kernel[0] * window.kernel[1]; }
  int64_t rows() const { return depth.kernel * tap_rows(); }  // of columns: C K
  int64_t group_rows() const { return rows() / groups; }
  int64_t group_outputs() const { return w[0] / groups; }
  int64_t planes() const { return is_volume() ? y[2] : 1; }
  int64_t places() const { return y[y.size() - 2] * y[y.size() - 1]; }
  bool is_pointwise() const {
    const auto is = [](const int64_t(&pair)[2], int64_t value) {
      return pair[0] == value && pair[1] == value;
    };
    return is(window.kernel, 1) && is(window.stride, 1) && is(window.padding, 0) &&
           is(window.surplus, 0) && depth.kernel == 1 && depth.stride == 1 && depth.padding == 0;
  }
  core::Window3 windows() const;
  // Where windows of a volume move by one, the gradient of x is a convolution, too: of y, with what
  // the kernel reaches as padding, by the kernel mirrored.
  bool is_mirrored() const;
  Geometry mirrored() const;
  // Images whose columns are made at a time, of volumes planes of the output; one image where
  // groups take the products' batch dimension.
  int64_t chunk(const Array& like) const {
    if (groups > 1) return 1;
    const int64_t all = is_volume() ? planes() : images();
    if (is_volume() && is_pointwise()) return all;
    const Shape columns{rows(), places(), item_size(like.dtype())};
    const int64_t bytes = std::max<int64_t>(1, columns.numel(is_volume() ? "conv3d" : "conv"));
    return std::max<int64_t>(1, std::min(all, column_bytes(like.device()) / bytes));
  }
};

/// \name The three maps, on arrays (conv_maps.cpp)
/// \{
/// The output y given x and w, a bias [O], if it is defined, and an activation.
Array convolve(const Array& x, const Array& w, const Geometry& geometry, const Array& bias = {},
               core::Activation activation = core::Activation::none);
/// The transpose: x given y and w, and a bias [C], if it is defined.
Array convolve_back(const Array& y, const Array& w, const Geometry& geometry,
                    const Array& bias = {});
/// The gradient of the weight w given x and y, the gradient of the output.
Array weight_gradient(const Array& x, const Array& y, const Geometry& geometry);
/// \}

/// \name The first two as recorded operations (conv.cpp)
/// \{
/// x, w and perhaps bias -> y
Tensor record_convolution(const Geometry& geometry, const std::vector<Tensor>& inputs,
                          core::Activation activation = core::Activation::none);
/// y, w and perhaps bias -> x, not of volumes
Tensor record_transposed(const Geometry& geometry, const std::vector<Tensor>& inputs);
/// \}

/// \name What a user asks for
/// \{
struct ConvolutionSpec {
  const char* op;
  hero::Pair stride, padding, dilation;
  int64_t groups;
  bool is_line = false;  ///< operands are lines with a dimension of height 1

  /// The shape of an operand as errors show it.
  Shape shown(const Tensor& operand) const {
    Shape shape = operand.shape();
    if (is_line && shape.size() == 4) shape.erase(2);
    return shape;
  }
};
void check_operands(const ConvolutionSpec& spec, const Tensor& x, const Tensor& w,
                    const Tensor& bias, int64_t outputs);
core::Window window_of(const ConvolutionSpec& spec, const Tensor& w);
/// The number of positions that the kernel spans.
int64_t window_reach(const char* op, const core::Window& window, int axis);
/// Replaces steps that have no effect by small ones, so that kernels may multiply by them without
/// overflow: the dilation of one tap, and a stride that leads out of the padded input.
void bound_steps(const char* op, core::Window& window, int axis, int64_t padded);
/// Adds a bias of each channel; a bias of another dtype promotes.
Tensor add_channel_bias(const Tensor& y, const Tensor& bias);
/// \}

}  // namespace hero::detail
