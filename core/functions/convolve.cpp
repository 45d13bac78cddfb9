#include <hero/core/cpu/convolve.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/convolve.h>
#include <hero/core/profile/work.h>

namespace hero::core {

namespace {

template <class T>
void convolve_as(const Array& x, const Array& w, const Window3& window, const Array& y) {
  cpu::Convolution<T> of{};
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
  of.x = x.data<T>();
  of.w = w.data<T>();
  of.y = y.data<T>();
  cpu::kernels().matrices<T>().convolve(of);
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

int64_t images_on_host(const Array& x, const Window3& window) {
  constexpr int64_t kCopies = 4 << 20;  // bytes
  if (x.device() != kCpu || current_work_meter() != nullptr || x.numel() == 0) return 0;
  if (x.dtype() != kFloat32 && x.dtype() != kFloat64) return 0;
  if (window.kernel[0] * window.kernel[1] * window.kernel[2] == 1) return 0;
  const int64_t size[3] = {x.size(2), x.size(3), x.size(4)};
  const int64_t each = cpu::padded_image(x.size(1), size, window.padding, window.stride[2]);
  if (each < 0) return 0;
  return std::clamp<int64_t>(kCopies / (each * item_size(x.dtype())), 1, x.size(0));
}

void convolve_on_host(const Array& x, const Array& w, const Window3& window, const Array& y) {
  x.dtype() == kFloat64 ? convolve_as<double>(x, w, window, y)
                        : convolve_as<float>(x, w, window, y);
}

}  // namespace hero::core
