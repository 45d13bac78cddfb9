#include <cmath>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/device/backend.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What a window sees, tap by tap: the element or nothing.
struct Seen {
  bool inside;
  int64_t y, x;
};
Seen see(const Window& w, const Shape& shape, int64_t oy, int64_t ox, int64_t ky, int64_t kx) {
  const int64_t y = oy * w.stride[0] - w.padding[0] + ky * w.dilation[0];
  const int64_t x = ox * w.stride[1] - w.padding[1] + kx * w.dilation[1];
  return {y >= 0 && y < shape[2] && x >= 0 && x < shape[3], y, x};
}

int64_t places(const Window& w, int axis, int64_t size) {
  return (size + 2 * w.padding[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1) /
             w.stride[axis] +
         1;
}

double at(const Array& x, int64_t n, int64_t c, int64_t i, int64_t j) {
  return x.select(0, n).select(0, c).select(0, i).select(0, j).item<double>();
}

std::vector<Window> windows() {
  std::vector<Window> all;
  for (const int64_t stride : {1, 2, 3}) {
    for (const int64_t dilation : {1, 2}) {
      for (const int64_t padding : {0, 1}) {
        Window w;
        w.kernel[0] = 3, w.kernel[1] = 2;
        w.stride[0] = stride, w.stride[1] = 4 - stride;
        w.padding[0] = padding, w.padding[1] = padding;
        w.dilation[0] = dilation, w.dilation[1] = 3 - dilation;
        all.push_back(w);
      }
    }
  }
  Window same;  // as many places as elements
  same.kernel[0] = 3, same.kernel[1] = 2;
  same.padding[0] = 1, same.padding[1] = 1, same.dilation[1] = 2;
  all.push_back(same);
  return all;
}

TEST_CASE("im2col lays windows out as columns", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kInt64}) {
    const Array x = noise({2, 3, 7, 8}, dtype);
    for (const Window& w : windows()) {
      const int64_t oh = places(w, 0, 7), ow = places(w, 1, 8);
      const Array out = Array::full({2, 3 * 6, oh * ow}, 99, dtype);
      backend(kCpu).run(call::Im2col{x, w, out});
      const Array strided = awkward(Array::full(out.shape(), 99, dtype));
      backend(kCpu).run(call::Im2col{awkward(x), w, strided});
      REQUIRE(same(strided, out));
      const auto got = out.to_vector<double>();
      size_t i = 0;
      for (int64_t n = 0; n < 2; ++n) {
        for (int64_t row = 0; row < 18; ++row) {
          for (int64_t p = 0; p < oh * ow; ++p, ++i) {
            const Seen seen = see(w, x.shape(), p / ow, p % ow, row % 6 / 2, row % 2);
            REQUIRE(got[i] == (seen.inside ? at(x, n, row / 6, seen.y, seen.x) : 0.0));
          }
        }
      }
    }
  }
}

TEST_CASE("col2im is the transpose of im2col", "[core]") {
  // <im2col(x), c> = <x, col2im(c)> in integers, exactly.
  for (const Window& w : windows()) {
    const Array x = make(
        {2, 3, 7, 8}, [](int64_t i) { return i * 31 % 17 - 8; }, kInt64);
    const int64_t places_all = places(w, 0, 7) * places(w, 1, 8);
    const Array columns = Array::empty({2, 18, places_all}, kInt64);
    backend(kCpu).run(call::Im2col{x, w, columns});
    const Array c = make(
        columns.shape(), [](int64_t i) { return i * 13 % 19 - 9; }, kInt64);
    const Array back = Array::full(x.shape(), 99, kInt64);
    backend(kCpu).run(call::Col2im{c, w, back});
    const auto dot = [](const Array& a, const Array& b) {
      const auto u = a.to_vector<int64_t>(), v = b.to_vector<int64_t>();
      int64_t sum = 0;
      for (size_t i = 0; i < u.size(); ++i) sum += u[i] * v[i];
      return sum;
    };
    REQUIRE(dot(columns, c) == dot(x, back));
    const Array strided = awkward(x);
    backend(kCpu).run(call::Col2im{awkward(c), w, strided});
    REQUIRE(same(strided, back));
  }
}

TEST_CASE("max pooling gives the first largest element of each window", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt32}) {
    // Few values: ties everywhere.
    const Array x = make(
        {2, 3, 7, 8}, [](int64_t i) { return i * 31 % 5 - 9; }, dtype);
    for (const Window& w : windows()) {
      const Shape shape{2, 3, places(w, 0, 7), places(w, 1, 8)};
      const Array out = Array::empty(shape, dtype), indices = Array::empty(shape, kInt64);
      backend(kCpu).run(call::Pool{PoolOp::max, x, w, out, &indices});
      const Array strided = awkward(out);
      backend(kCpu).run(call::Pool{PoolOp::max, awkward(x), w, strided, nullptr});
      REQUIRE(same(strided, out));
      for (int64_t p = 0; p < shape.numel(); ++p) {
        const int64_t ox = p % shape[3], oy = p / shape[3] % shape[2];
        const int64_t c = p / shape[3] / shape[2] % 3, n = p / shape[3] / shape[2] / 3;
        double best = 0;
        int64_t best_at = -1;
        for (int64_t tap = 0; tap < 6; ++tap) {
          const Seen seen = see(w, x.shape(), oy, ox, tap / 2, tap % 2);
          if (!seen.inside) continue;
          const double value = at(x, n, c, seen.y, seen.x);
          if (best_at < 0 || value > best) best = value, best_at = seen.y * 8 + seen.x;
        }
        REQUIRE(at(out, n, c, oy, ox) == best);
        REQUIRE(at(indices, n, c, oy, ox) == static_cast<double>(best_at));
      }
    }
  }
}

TEST_CASE("pooling by lines gives what pooling tap by tap gives", "[core]") {
  struct Sizes {
    int64_t kernel, stride, padding;
  };
  const std::vector<Sizes> all = {{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 1}, {5, 4, 2}, {4, 1, 0}};
  // Columns of a row, those behind the last window too: through every width of vectors.
  for (const int64_t columns : {4, 5, 8, 14, 28, 37, 64, 600}) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      // Ties, zeros of both signs, NaN and -inf, in every order.
      const Array x = make(
          {2, 3, 6, columns},
          [](int64_t i) {
            const double values[] = {0.0, -0.0, 1.0, 1.0, std::nan(""), -2.0, -HUGE_VAL};
            const int64_t kind = i * i * 31 % 101 % 7;
            return i % 5 < 3 && kind == 4 ? -HUGE_VAL : values[kind];
          },
          dtype);
      for (const Sizes& down : all) {
        for (const Sizes& right : all) {
          Window w;
          w.kernel[0] = down.kernel, w.stride[0] = down.stride, w.padding[0] = down.padding;
          w.kernel[1] = right.kernel, w.stride[1] = right.stride, w.padding[1] = right.padding;
          const Shape shape{2, 3, places(w, 0, 6), places(w, 1, columns)};
          const Array out = Array::empty(shape, dtype), indices = Array::empty(shape, kInt64);
          backend(kCpu).run(call::Pool{PoolOp::max, x, w, out, &indices});
          const Array other = awkward(out), found = awkward(indices);
          backend(kCpu).run(
              call::Pool{PoolOp::max, awkward(x), w, other, &found});  // not dense: tap by tap
          REQUIRE(same(other, out));
          REQUIRE(same(found, indices));
        }
      }
    }
  }
}

TEST_CASE("max pooling's gradient goes to what was found", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const Array x = noise({2, 3, 7, 8}, dtype, 3);
    for (const Window& w : windows()) {
      const Shape shape{2, 3, places(w, 0, 7), places(w, 1, 8)};
      const Array y = Array::empty(shape, dtype), indices = Array::empty(shape, kInt64);
      backend(kCpu).run(call::Pool{PoolOp::max, x, w, y, &indices});
      const Array g = noise(shape, dtype, 4), back = Array::full(x.shape(), 99, dtype);
      backend(kCpu).run(call::MaxPoolBack{g, w, indices, back});
      const Array expected = Array::zeros({2, 3, 56}, dtype);
      const Shape flat{2, 3, shape[2] * shape[3]};
      backend(kCpu).run(
          call::Scatter{ScatterMode::add, g.reshape(flat), 2, indices.reshape(flat), expected});
      REQUIRE(same(back.reshape({2, 3, 56}), expected));
    }
  }
}

TEST_CASE("a NaN wins its window", "[core]") {
  const Array x = Array::from(std::vector<float>{5, kNan, 7, kNan}, {1, 1, 1, 4});
  Window w;
  w.kernel[1] = 4;
  const Array out = Array::empty({1, 1, 1, 1}), index = Array::empty({1, 1, 1, 1}, kInt64);
  backend(kCpu).run(call::Pool{PoolOp::max, x, w, out, &index});
  REQUIRE(std::isnan(out.item()));
  REQUIRE(index.item<int64_t>() == 1);
}

TEST_CASE("average pooling divides as PyTorch does, at the border too", "[core]") {
  // Kernel 3, stride 2, padding 1, and one more window than fits (ceil mode): the windows are
  // [pad 1 2], [2 3 4], [4 5 6], [6 pad beyond].
  const Array x = Array::from(std::vector<double>{1, 2, 3, 4, 5, 6}, {1, 1, 1, 6});
  Window w;
  w.kernel[1] = 3, w.stride[1] = 2, w.padding[1] = 1;
  const Array out = Array::empty({1, 1, 1, 4}, kFloat64);
  backend(kCpu).run(call::Pool{PoolOp::average, x, w, out, nullptr});
  // The last window's third place lies beyond the padding and does not count.
  REQUIRE(out.to_vector<double>() == std::vector<double>{3.0 / 3, 9.0 / 3, 15.0 / 3, 6.0 / 2});
  w.count_padding = false;
  backend(kCpu).run(call::Pool{PoolOp::average, x, w, out, nullptr});
  REQUIRE(out.to_vector<double>() == std::vector<double>{3.0 / 2, 9.0 / 3, 15.0 / 3, 6.0 / 1});
}

TEST_CASE("average pooling's gradient is its transpose", "[core]") {
  for (Window w : windows()) {
    w.dilation[0] = w.dilation[1] = 1;
    for (const bool count_padding : {true, false}) {
      w.count_padding = count_padding;
      const Array x = noise({2, 3, 7, 8}, kFloat64, 1);
      const Shape shape{2, 3, places(w, 0, 7), places(w, 1, 8)};
      const Array y = Array::empty(shape, kFloat64), g = noise(shape, kFloat64, 2);
      const Array back = Array::full(x.shape(), 99, kFloat64);
      backend(kCpu).run(call::Pool{PoolOp::average, x, w, y, nullptr});
      backend(kCpu).run(call::AveragePoolBack{g, w, back});
      const auto dot = [](const Array& a, const Array& b) {
        const auto u = a.to_vector<double>(), v = b.to_vector<double>();
        double sum = 0;
        for (size_t i = 0; i < u.size(); ++i) sum += u[i] * v[i];
        return sum;
      };
      REQUIRE(std::abs(dot(y, g) - dot(x, back)) <= 1e-11);  // 336 terms of size 4 at 2^-53
      const Array strided = awkward(x);
      backend(kCpu).run(call::AveragePoolBack{awkward(g), w, strided});
      REQUIRE(same(strided, back));
    }
  }
}

}  // namespace
