// Average pooling and its gradient against sums over one window after the other, bit for bit.
#include <algorithm>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/device/backend.h>
#include <hero/core/kernels/half.h>

namespace {

using namespace hero;
using namespace hero::test;
using core::Window;

struct Image {
  int64_t height, width;
};

// Calls body(place, position) for every tap on the image, window after window, and before that
// divide(place, count) for what the window divides by.
template <class Divide, class Body>
void each_tap(const Window& w, Image image, Image places, Divide&& divide, Body&& body) {
  for (int64_t y = 0; y < places.height; ++y) {
    for (int64_t x = 0; x < places.width; ++x) {
      std::vector<int64_t> inside;
      int64_t padded = 0;
      for (int64_t i = 0; i < w.kernel[0]; ++i) {
        for (int64_t j = 0; j < w.kernel[1]; ++j) {
          const int64_t row = y * w.stride[0] - w.padding[0] + i * w.dilation[0];
          const int64_t column = x * w.stride[1] - w.padding[1] + j * w.dilation[1];
          padded += row < image.height + w.padding[0] && column < image.width + w.padding[1];
          if (row < 0 || row >= image.height || column < 0 || column >= image.width) continue;
          inside.push_back(row * image.width + column);
        }
      }
      const auto counted = static_cast<int64_t>(inside.size());
      divide(y * places.width + x, std::max<int64_t>(w.count_padding ? padded : counted, 1));
      for (int64_t position : inside) body(y * places.width + x, position);
    }
  }
}

// In T, as elements of `dtype` are summed.
template <class T>
Array pooled(const Array& x, const Window& w, Image image, Image places, DType dtype) {
  const std::vector<T> values = x.to_vector<T>();
  const int64_t planes = x.size(0) * x.size(1), size = image.height * image.width;
  std::vector<T> result;
  for (int64_t p = 0; p < planes; ++p) {
    std::vector<T> sums(static_cast<size_t>(places.height * places.width)), by(sums.size());
    each_tap(
        w, image, places,
        [&](int64_t at, int64_t count) { by[static_cast<size_t>(at)] = static_cast<T>(count); },
        [&](int64_t at, int64_t position) {
          sums[static_cast<size_t>(at)] += values[static_cast<size_t>(p * size + position)];
        });
    for (size_t i = 0; i < sums.size(); ++i) result.push_back(sums[i] / by[i]);
  }
  return Array::from(result, {x.size(0), x.size(1), places.height, places.width}).to(dtype);
}

template <class T>
Array spread(const Array& g, const Window& w, Image image, Image places, DType dtype) {
  const std::vector<T> values = g.to_vector<T>();
  const int64_t planes = g.size(0) * g.size(1), size = places.height * places.width;
  std::vector<T> result;
  for (int64_t p = 0; p < planes; ++p) {
    std::vector<T> sums(static_cast<size_t>(image.height * image.width));
    T share = 0;
    each_tap(
        w, image, places,
        [&](int64_t at, int64_t count) {
          share = values[static_cast<size_t>(p * size + at)] / static_cast<T>(count);
        },
        [&](int64_t, int64_t position) { sums[static_cast<size_t>(position)] += share; });
    result.insert(result.end(), sums.begin(), sums.end());
  }
  return Array::from(result, {g.size(0), g.size(1), image.height, image.width}).to(dtype);
}

template <class T>
void check_windows(DType dtype) {
  const Image images[] = {{8, 8}, {7, 19}, {1, 40}, {13, 70}};
  for (const Image image : images) {
    for (int64_t kernel : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t padding : {int64_t{0}, kernel / 2}) {
          for (int64_t dilation : {1, 2}) {
            for (bool count_padding : {false, true}) {
              Window w;
              for (int axis : {0, 1}) {
                w.kernel[axis] = axis == 0 ? std::min<int64_t>(kernel, 2) : kernel;
                w.stride[axis] = stride;
                w.padding[axis] = std::min(padding, w.kernel[axis] / 2);
                w.dilation[axis] = dilation;
              }
              w.count_padding = count_padding;
              const Image places{w.places(0, image.height), w.places(1, image.width)};
              if (places.height < 1 || places.width < 1) continue;
              INFO(dtype << " " << image.height << " x " << image.width << " kernel " << kernel
                         << " stride " << stride << " padding " << padding << " dilation "
                         << dilation << " counted " << count_padding);
              const Array x = noise({2, 3, image.height, image.width}, dtype);
              const Array g = noise({2, 3, places.height, places.width}, dtype, 2);
              const Array expected = pooled<T>(x, w, image, places, dtype);
              const Array expected_back = spread<T>(g, w, image, places, dtype);
              for (const bool gaps : {false, true}) {
                const Array out = Array::empty(g.shape(), dtype);
                core::backend(kCpu).run(core::call::Pool{core::PoolOp::average,
                                                         gaps ? awkward(x) : x, w, out, nullptr});
                CHECK(same(out, expected));
                const Array back = Array::empty(x.shape(), dtype);
                core::backend(kCpu).run(
                    core::call::AveragePoolBack{gaps ? awkward(g) : g, w, back});
                CHECK(same(back, expected_back));
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("average pooling adds up each window's terms in their order", "[core]") {
  check_windows<float>(kFloat32);
  check_windows<double>(kFloat64);
  check_windows<float>(kBFloat16);
  check_windows<float>(kFloat16);
}

}  // namespace
