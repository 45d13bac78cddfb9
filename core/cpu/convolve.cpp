// A convolution as a product, whose second factor is packed straight from the image: with its
// padding copied around it, a step from one tap to the next is the same for all windows, and
// windows of a line lie side by side. If they move by more than one column, the columns of a line
// are sorted by their remainder first, which brings neighbours together again.
#include <cstring>

#include <hero/core/cpu/convolve.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/gemm_shifted.h>

namespace hero::core::cpu {

namespace {

// An image [C, D, H, W] with its padding.
struct PaddedImage {
  int64_t depth, height, stride, phase;  // columns x = stride i + r at r phase + i

  int64_t line() const { return stride * phase; }
  int64_t plane() const { return height * line(); }
  int64_t channel() const { return depth * plane(); }
  int64_t column(int64_t x) const { return x % stride * phase + x / stride; }
};

PaddedImage padded_of(const int64_t (&size)[3], const int64_t (&padding)[3], int64_t stride) {
  const int64_t width = size[2] + 2 * padding[2];
  return {size[0] + 2 * padding[0], size[1] + 2 * padding[1], stride,
          (width + stride - 1) / stride};
}

template <class T>
void copy_padded(const Convolution<T>& of, const PaddedImage& image, int64_t n, T* to) {
  const int64_t lines = of.size[0] * of.size[1], width = of.size[2];
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width));
  parallel_for(of.channels * lines, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i / lines, d = i % lines / of.size[1], h = i % of.size[1];
      const T* const line = of.x + n * of.x_strides[0] + c * of.x_strides[1] + d * of.x_strides[2] +
                            h * of.x_strides[3];
      T* const target = to + c * image.channel() + (d + of.padding[0]) * image.plane() +
                        (h + of.padding[1]) * image.line();
      if (image.stride == 1 && of.x_strides[4] == 1) {
        std::memcpy(target + of.padding[2], line, static_cast<size_t>(width) * sizeof(T));
        continue;
      }
      for (int64_t x = 0; x < width; ++x) {
        target[image.column(x + of.padding[2])] = line[x * of.x_strides[4]];
      }
    }
  });
}

template <class T>
ShiftedRows<T> windows_of(const Convolution<T>& of, const PaddedImage& image) {
  ShiftedRows<T> rows;
  rows.width = of.places[2];
  for (int64_t kd = 0; kd < of.kernel[0]; ++kd) {
    for (int64_t c = 0; c < of.channels; ++c) {
      for (int64_t kh = 0; kh < of.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < of.kernel[2]; ++kw) {
          rows.steps.push_back(c * image.channel() + kd * of.dilation[0] * image.plane() +
                               kh * of.dilation[1] * image.line() +
                               image.column(kw * of.dilation[2]));
        }
      }
    }
  }
  for (int64_t d = 0; d < of.places[0]; ++d) {
    for (int64_t h = 0; h < of.places[1]; ++h) {
      rows.rows.push_back(d * of.stride[0] * image.plane() + h * of.stride[1] * image.line());
    }
  }
  return rows;
}

}  // namespace

int64_t padded_image(int64_t channels, const int64_t (&size)[3], const int64_t (&padding)[3],
                     int64_t width_stride) {
  int64_t before = channels, after = channels;
  for (int i = 0; i < 3; ++i) {
    if (padding[i] > 1 << 20 || size[i] > int64_t{1} << 40) return -1;
    before *= size[i];
    after *= size[i] + 2 * padding[i];
    if (after > 4 * before + (1 << 16)) return -1;
  }
  const PaddedImage image = padded_of(size, padding, width_stride);
  return image.phase > 0 ? channels * image.channel() : -1;
}

template <class T>
void Convolution<T>::run() const {
  const PaddedImage image = padded_of(size, padding, stride[2]);
  const int64_t each = channels * image.channel();
  const ShiftedRows<T> windows = windows_of(*this, image);
  const ShiftedProduct<T> product(outputs, w, windows);
  const Workspace<T> copies(images * each + ShiftedRows<T>::kBehind);
  std::memset(copies.data(), 0,
              static_cast<size_t>(images * each + ShiftedRows<T>::kBehind) * sizeof(T));
  for (int64_t n = 0; n < images; ++n) copy_padded(*this, image, n, copies.data() + n * each);
  product.run(images, copies.data(), each, y, outputs * windows.columns());
}

template struct Convolution<float>;
template struct Convolution<double>;

}  // namespace hero::core::cpu
