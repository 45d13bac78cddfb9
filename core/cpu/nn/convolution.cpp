// Convolutions without columns of windows in memory, and which of them there are. Copies of some
// images with their padding are made at a time, so that they stay in the cache.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kCopiedBytes = 2 << 20;  // of images

// Images as volumes of one plane.
Array as_volumes(const Array& x) { return x.ndim() == 4 ? x.unsqueeze(2) : x; }

// How many images' copies with padding stay in the cache; 0 where they are much larger than images.
int64_t images_at_once(const Array& x_in, const Window3& window) {
  const Array x = as_volumes(x_in);
  const int64_t size[3] = {x.size(2), x.size(3), x.size(4)};
  const int64_t each = padded_image(x.size(1), size, window.padding, window.stride[2]);
  if (each < 0) return 0;
  return std::clamp<int64_t>(kCopiedBytes / (each * item_size(x.dtype())), 1, x.size(0));
}

Convolution convolution_of(const Array& x_in, const Window3& window, const Array& y_in,
                           int64_t groups) {
  const Array x = as_volumes(x_in), y = as_volumes(y_in);
  Convolution of{};
  of.images = x.size(0);
  of.channels = x.size(1);
  of.outputs = y.size(1);
  for (int i = 0; i < 3; ++i) {
    of.size[i] = x.size(2 + i);
    of.kernel[i] = window.kernel[i];
    of.stride[i] = window.stride[i];
    of.padding[i] = window.padding[i];
    of.dilation[i] = window.dilation[i];
    of.places[i] = y.size(2 + i);
  }
  for (int i = 0; i < 5; ++i) of.x_strides[i] = x.strides()[i];
  of.x = x.bytes();
  of.groups = groups;
  of.at_once = images_at_once(x, window);
  return of;
}

// The bias of a native convolution as it is added to sums; `kept` keeps its numbers.
const float* half_bias(const Array* bias, Array& kept) {
  if (bias == nullptr) return nullptr;
  kept = bias->to(kFloat32).contiguous();
  return kept.data<float>();
}

// The padding and the movement of the windows of y of which the gradient of the input, of shape x,
// is made.
Window3 back_window(const Array& y, const Shape& x, const Window3& window) {
  Convolution of{};
  Window3 back;
  for (int i = 0; i < 3; ++i) {
    of.size[i] = i == 0 ? 1 : y.size(1 + i);
    of.places[i] = i == 0 ? 1 : x[1 + i];
    of.kernel[i] = back.kernel[i] = window.kernel[i];
    of.stride[i] = window.stride[i];
    of.padding[i] = window.padding[i];
    of.dilation[i] = window.dilation[i];
    back.padding[i] = back_padding(of, i);
  }
  return back;
}

// Not where padding is most of the image and, but for native products, for one tap. Groups, of
// planes only, are neither of float64 nor of more channels than a block of k has steps.
bool has_windows(const Array& x, const Window3& window, int64_t groups) {
  const int64_t taps = window.kernel[0] * window.kernel[1] * window.kernel[2];
  if (x.numel() == 0 || taps == 0) return false;
  const bool is_native = x.dtype() == kBFloat16 && native_half_products();
  if (!is_native && (taps == 1 || (x.dtype() != kFloat32 && x.dtype() != kFloat64))) return false;
  // One chain for each tap, as the gradient of the input has.
  if (groups > 1 && (x.dtype() == kFloat64 || x.size(1) / groups > kDepth)) return false;
  return images_at_once(x, window) > 0;
}

// Not for four channels or fewer whose windows move by more than one, nor float64.
bool has_input_gradient(const call::HasConvolution& call) {
  constexpr int64_t kPhases = 64;  // more of them than taps that a network has
  constexpr int64_t kFewest = 5;   // channels of x: with fewer, columns are faster
  const Window3& window = call.window;
  if (call.to.numel() == 0) return false;  // windows of padding alone
  if (window.stride[1] > kPhases || window.stride[2] > kPhases) return false;
  const bool moves = window.stride[1] * window.stride[2] > 1;
  if (moves && call.groups == 1 && call.to[1] < kFewest) return false;
  return call.from.dtype() != kFloat64 &&
         has_windows(call.from, back_window(call.from, call.to, window), call.groups);
}

// Native products in groups are of one channel and one output, or in the lanes of vectors.
bool has_weight_gradient(const call::HasConvolution& call) {
  constexpr int64_t kWidest = 1 << 20;  // a window's place is an int32
  const Array& x = call.from;
  const Window3& window = call.window;
  const int64_t groups = call.groups;
  if (x.dtype() == kFloat64 || (groups > 1 && x.size(3) > kWidest)) return false;
  if (groups > 1 && x.dtype() == kBFloat16 && native_half_products()) {
    if (!bf16::kHasGroups) return false;
    const bool is_depthwise = x.size(1) == groups && call.to[0] == groups;
    const bool has_lanes = have_half_lanes(
        x.size(1) / groups, call.to[0] / groups, window.kernel[1] * window.kernel[2],
        std::max(window.stride[1], window.stride[2]), x.size(2) * x.size(3));
    if (!is_depthwise && !has_lanes) return false;
  }
  return has_windows(x, window, groups);
}

}  // namespace

bool CpuBackend::run(const call::HasConvolution& call) {
  switch (call.map) {
    case ConvolutionMap::output:
      return has_windows(call.from, call.window, call.groups);
    case ConvolutionMap::input:
      return has_input_gradient(call);
    case ConvolutionMap::weight:
      return has_weight_gradient(call);
  }
  return false;
}

void CpuBackend::run(const call::Convolve& call) {
  const Array &x = call.x, &w = call.w, &y = call.y;
  const Window3& window = call.window;
  if (x.dtype() == kBFloat16) {
    Array kept;
    const HalfEnd end{half_bias(call.bias, kept), call.activation == Activation::relu};
    return convolve_bf16(bf16::native_kernel(), convolution_of(x, window, y, call.groups),
                         w.data<BFloat16>(), end, y.data<BFloat16>());
  }
  const int64_t step = images_at_once(x, window);
  for (int64_t n = 0; n < x.size(0); n += step) {
    const int64_t last = std::min(x.size(0), n + step);
    const Array part = y.slice(0, n, last);
    const Convolution of = convolution_of(x.slice(0, n, last), window, part, call.groups);
    if (x.dtype() == kFloat64) {
      convolve(of, w.data<double>(), part.data<double>());
    } else {
      convolve(of, w.data<float>(), part.data<float>());
    }
    if (call.bias == nullptr && call.activation == Activation::none) continue;
    const Array rows = part.reshape({(last - n) * y.size(1), -1});
    const Array bias = call.bias != nullptr ? call.bias->reshape({y.size(1), 1}) : Array();
    run(call::BiasActivation{call.activation, bias.defined() ? &bias : nullptr, rows, rows});
  }
}

bool CpuBackend::run(const call::ConvolveBack& call) {
  const Array &y = call.y, &w = call.w, &x = call.x;
  Convolution of = convolution_of(y, call.window, x, call.groups);
  of.at_once = images_at_once(y, back_window(y, x.shape(), call.window));
  if (x.dtype() == kBFloat16) {
    Array kept;
    return convolve_back_bf16(bf16::native_kernel(), of, w.data<BFloat16>(),
                              {half_bias(call.bias, kept), false}, x.data<BFloat16>());
  }
  if (!convolve_back(of, w.data<float>(), x.data<float>())) return false;
  if (call.bias != nullptr) map_into<kernels::Add>(x, x, call.bias->reshape({x.size(1), 1, 1}));
  return true;
}

void CpuBackend::run(const call::ConvolveWeight& call) {
  const Array &x = call.x, &y = call.y, &w = call.w;
  const Window3& window = call.window;
  if (x.dtype() == kBFloat16) {
    return weights_bf16(bf16::native_kernel(), convolution_of(x, window, y, call.groups),
                        y.data<BFloat16>(), w.data<BFloat16>());
  }
  if (call.groups > 1) {
    return add_weights(convolution_of(x, window, y, call.groups), y.data<float>(), 1, true,
                       w.data<float>());
  }
  // Few places of few images: all at once, so that large weights are written once.
  const int64_t places = y.numel() / (y.size(0) * y.size(1)), chain = call.chain;
  const bool at_once = chain * places <= kDepth && x.numel() * item_size(x.dtype()) <= kCopiedBytes;
  const int64_t step = x.ndim() == 5 ? 1 : at_once ? x.size(0) : chain;
  for (int64_t n = 0; n < x.size(0); n += step) {
    const int64_t last = std::min(x.size(0), n + step);
    const Array of_y = y.slice(0, n, last);
    add_weights(convolution_of(x.slice(0, n, last), window, of_y, 1), of_y.data<float>(), chain,
                n == 0, w.data<float>());
  }
}

}  // namespace hero::core::cpu
