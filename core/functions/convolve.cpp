#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/nn/convolve.h>
#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/functions/convolve.h>
#include <hero/core/profile/work.h>

namespace hero::core {

namespace {

constexpr int64_t kCopies = 2 << 20;  // bytes of images

// Images as volumes of one plane.
Array volumes(const Array& x) { return x.ndim() == 4 ? x.unsqueeze(2) : x; }

cpu::Convolution convolution_of(const Array& x_in, const Window3& window, const Array& y_in) {
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
  return of;
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

int64_t images_on_host(const Array& x_in, const Window3& window) {
  const Array x = volumes(x_in);
  if (x.device() != kCpu || current_work_meter() != nullptr || x.numel() == 0) return 0;
  if (x.dtype() != kFloat32 && x.dtype() != kFloat64) return 0;
  if (window.kernel[0] * window.kernel[1] * window.kernel[2] <= 1) return 0;
  const int64_t size[3] = {x.size(2), x.size(3), x.size(4)};
  const int64_t each = cpu::padded_image(x.size(1), size, window.padding, window.stride[2]);
  if (each < 0) return 0;
  return std::clamp<int64_t>(kCopies / (each * item_size(x.dtype())), 1, x.size(0));
}

int64_t gradient_images_on_host(const Array& x, const Window3& window) {
  return x.dtype() == kFloat32 ? images_on_host(x, window) : 0;
}

void convolve_on_host(const Array& x, const Array& w, const Window3& window, const Array& y) {
  const cpu::Convolution of = convolution_of(x, window, y);
  if (x.dtype() == kFloat64) {
    cpu::kernels().of_double.convolve(of, w.data<double>(), y.data<double>());
  } else {
    cpu::kernels().of_float.convolve(of, w.data<float>(), y.data<float>());
  }
}

Window3 mirrored(const Window& window) {
  Window3 all = volume_window(window);
  for (int i = 0; i < 2; ++i) {
    const int64_t padding = window.reach(i) - 1 - window.padding[i];
    if (window.stride[i] != 1 || window.surplus[i] != 0 || padding < 0) all.kernel[0] = 0;
    all.padding[1 + i] = padding;
  }
  return all;
}

bool convolve_back_on_host(const Array& y, const Array& w, const Window3& window, const Array& x) {
  return cpu::kernels().convolve_back(convolution_of(y, window, x), w.data<float>(),
                                      x.data<float>());
}

void weights_on_host(const Array& x, const Array& y, const Window3& window, int64_t chain,
                     const Array& w) {
  // Few places of few images: all at once, so that large weights are written once.
  const int64_t places = y.numel() / (y.size(0) * y.size(1));
  const bool at_once = chain * places <= cpu::kDepth && x.numel() * item_size(x.dtype()) <= kCopies;
  const int64_t step = at_once ? x.size(0) : chain;
  for (int64_t n = 0; n < x.size(0); n += step) {
    const int64_t last = std::min(x.size(0), n + step);
    const Array of_y = y.slice(0, n, last);
    cpu::kernels().add_weights(convolution_of(x.slice(0, n, last), window, of_y),
                               of_y.data<float>(), chain, n == 0, w.data<float>());
  }
}

}  // namespace hero::core
