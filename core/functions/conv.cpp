#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/functions/conv.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>
#include <hero/core/profile/work.h>
#include <hero/core/profile/work_of.h>

namespace hero::core {

namespace {

constexpr int64_t kCopies = 2 << 20;  // bytes of images

// Images as volumes of one plane.
Array volumes(const Array& x) { return x.ndim() == 4 ? x.unsqueeze(2) : x; }

// How many images' copies with padding stay in the cache; 0 where they are much larger than images.
int64_t images_at_once(const Array& x, const Window3& window) {
  const int64_t size[3] = {x.size(2), x.size(3), x.size(4)};
  const int64_t each = cpu::padded_image(x.size(1), size, window.padding, window.stride[2]);
  if (each < 0) return 0;
  return std::clamp<int64_t>(kCopies / (each * item_size(x.dtype())), 1, x.size(0));
}

cpu::Convolution convolution_of(const Array& x_in, const Window3& window, const Array& y_in,
                                int64_t groups = 1) {
  const Array x = volumes(x_in), y = volumes(y_in);
  cpu::Convolution of{};
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

// Charges a native product of a convolution from x by w to y, or one of its gradients. False on
// meta, where that is all.
bool charge_native(const Array& x, const Array& w, const Array& y) {
  if (WorkMeter* const meter = current_work_meter(); meter != nullptr) {
    meter->charge(product_work(kBFloat16, y.numel() / y.size(1), w.numel(), 1,
                               stored_bytes(x) + stored_bytes(w) + stored_bytes(y)));
  }
  return x.device() == kCpu;
}

// What follows a native convolution; `bias` keeps its numbers.
cpu::HalfEnd half_end(const ConvolutionEnd& end, Array& bias) {
  if (end.bias.defined()) bias = end.bias.to(kFloat32).contiguous();
  return {end.bias.defined() ? bias.data<float>() : nullptr, end.activation == Activation::relu};
}

}  // namespace

Window3 volume_window(const Window& plane, const DepthWindow& depth) {
  Window3 all{{depth.kernel}, {depth.stride}, {depth.padding}, {depth.dilation}};
  for (int i = 0; i < 2; ++i) {
    all.kernel[1 + i] = plane.kernel[i];
    all.stride[1 + i] = plane.stride[i];
    all.padding[1 + i] = plane.padding[i];
    all.dilation[1 + i] = plane.dilation[i];
  }
  return all;
}

bool has_native_products(const Array& x) {
  return x.dtype() == kBFloat16 && kernels_of(x.device()) == DeviceType::cpu &&
         native_half_products();
}

bool convolves_on_host(const Array& x_in, const Window3& window, int64_t groups) {
  const bool is_native = has_native_products(x_in);
  const int64_t taps = window.kernel[0] * window.kernel[1] * window.kernel[2];
  if (x_in.numel() == 0 || taps == 0) return false;
  if (!is_native) {
    if (x_in.device() != kCpu || current_work_meter() != nullptr || taps == 1) return false;
    if (x_in.dtype() != kFloat32 && x_in.dtype() != kFloat64) return false;
  }
  // One chain for each tap, as the gradient of the input has.
  if (groups > 1 && (x_in.dtype() == kFloat64 || x_in.size(1) / groups > cpu::kDepth)) return false;
  return images_at_once(volumes(x_in), window) > 0;
}

bool has_gradients_on_host(const Array& x, const Window3& window) {
  return x.dtype() != kFloat64 && convolves_on_host(x, window);
}

bool has_group_weights_on_host(const Array& x, const Shape& w, const Window3& window,
                               int64_t groups) {
  constexpr int64_t kWidest = 1 << 20;  // a window's place is an int32
  if (x.dtype() == kFloat64 || x.size(3) > kWidest) return false;
  if (has_native_products(x)) {
    const bool has_groups = cpu::bf16::has_groups(cpu::bf16::native_kernel());
    if (!has_groups) return false;
    const bool is_depthwise = x.size(1) == groups && w[0] == groups;
    const bool has_lanes =
        cpu::have_half_lanes(x.size(1) / groups, w[0] / groups, window.kernel[1] * window.kernel[2],
                             std::max(window.stride[1], window.stride[2]), x.size(2) * x.size(3));
    if (!is_depthwise && !has_lanes) return false;
  }
  return convolves_on_host(x, window, groups);
}

int64_t native_weight_images(const Array& x, const Window3& window) {
  return images_at_once(volumes(x), window);
}

void convolve_on_host(const Array& x, const Array& w, const Window3& window, int64_t groups,
                      const ConvolutionEnd& end, const Array& y) {
  if (x.dtype() == kBFloat16) {
    if (!charge_native(x, w, y)) return;
    const WorkScope inside(nullptr);
    Array bias;
    return cpu::kernels().convolve_bf16(cpu::bf16::native_kernel(),
                                        convolution_of(x, window, y, groups), w.data<BFloat16>(),
                                        half_end(end, bias), y.data<BFloat16>());
  }
  const int64_t step = images_at_once(volumes(x), window);
  for (int64_t n = 0; n < x.size(0); n += step) {
    const int64_t last = std::min(x.size(0), n + step);
    const Array part = y.slice(0, n, last);
    const cpu::Convolution of = convolution_of(x.slice(0, n, last), window, part, groups);
    if (x.dtype() == kFloat64) {
      cpu::kernels().of_double.convolve(of, w.data<double>(), part.data<double>());
    } else {
      cpu::kernels().of_float.convolve(of, w.data<float>(), part.data<float>());
    }
    if (!end.bias.defined() && end.activation == Activation::none) continue;
    const Array rows = part.reshape({(last - n) * y.size(1), -1});
    const Array bias = end.bias.defined() ? end.bias.reshape({y.size(1), 1}) : Array();
    backend(x.device())
        .run(call::BiasActivation{end.activation, bias.defined() ? &bias : nullptr, rows, rows});
  }
}

namespace {

// The padding and the movement of the windows of y of which the gradient of the input is made.
Window3 back_window(const Array& y, const Shape& x, const Window3& window) {
  cpu::Convolution of{};
  Window3 back;
  for (int i = 0; i < 3; ++i) {
    of.size[i] = i == 0 ? 1 : y.size(1 + i);
    of.places[i] = i == 0 ? 1 : x[1 + i];
    of.kernel[i] = back.kernel[i] = window.kernel[i];
    of.stride[i] = window.stride[i];
    of.padding[i] = window.padding[i];
    of.dilation[i] = window.dilation[i];
    back.padding[i] = cpu::back_padding(of, i);
  }
  return back;
}

}  // namespace

bool convolves_back_on_host(const Array& y, const Shape& x, const Window3& window, int64_t groups) {
  constexpr int64_t kPhases = 64;    // more of them than taps that a network has
  constexpr int64_t kFewest = 5;     // channels of x: with fewer, columns are faster
  if (x.numel() == 0) return false;  // windows of padding alone
  if (window.stride[1] > kPhases || window.stride[2] > kPhases) return false;
  if (window.stride[1] * window.stride[2] > 1 && groups == 1 && x[1] < kFewest) return false;
  return y.dtype() != kFloat64 && convolves_on_host(y, back_window(y, x, window), groups);
}

bool convolve_back_on_host(const Array& y, const Array& w, const Window3& window, int64_t groups,
                           const Array& bias, const Array& x) {
  if (x.dtype() == kBFloat16 && !charge_native(x, w, y)) return true;
  cpu::Convolution of = convolution_of(y, window, x, groups);
  of.at_once = images_at_once(volumes(y), back_window(y, x.shape(), window));
  if (x.dtype() == kBFloat16) {
    const WorkScope inside(nullptr);
    Array kept;
    return cpu::kernels().convolve_back_bf16(cpu::bf16::native_kernel(), of, w.data<BFloat16>(),
                                             half_end({.bias = bias}, kept), x.data<BFloat16>());
  }
  if (!cpu::kernels().convolve_back(of, w.data<float>(), x.data<float>())) return false;
  if (bias.defined()) {
    map_into<kernels::Add>(x, x, bias.reshape({x.size(1), 1, 1}));
  }
  return true;
}

void weights_on_host(const Array& x, const Array& y, const Window3& window, int64_t groups,
                     int64_t chain, const Array& w) {
  if (x.dtype() == kBFloat16) {
    if (!charge_native(x, w, y)) return;
    const WorkScope inside(nullptr);
    return cpu::kernels().weights_bf16(cpu::bf16::native_kernel(),
                                       convolution_of(x, window, y, groups), y.data<BFloat16>(),
                                       w.data<BFloat16>());
  }
  if (groups > 1) {
    return cpu::kernels().add_weights(convolution_of(x, window, y, groups), y.data<float>(), 1,
                                      true, w.data<float>());
  }
  // Few places of few images: all at once, so that large weights are written once.
  const int64_t places = y.numel() / (y.size(0) * y.size(1));
  const bool at_once = chain * places <= cpu::kDepth && x.numel() * item_size(x.dtype()) <= kCopies;
  const int64_t step = x.ndim() == 5 ? 1 : at_once ? x.size(0) : chain;
  for (int64_t n = 0; n < x.size(0); n += step) {
    const int64_t last = std::min(x.size(0), n + step);
    const Array of_y = y.slice(0, n, last);
    cpu::kernels().add_weights(convolution_of(x.slice(0, n, last), window, of_y),
                               of_y.data<float>(), chain, n == 0, w.data<float>());
  }
}

}  // namespace hero::core
