// How elementwise kernels read what they are given.
#include <cmath>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/map.h>

using namespace hero;
using namespace hero::core;
using namespace hero::test;

TEST_CASE("rows that repeat or lie side by side are read in place", "[core]") {
  const Array a = noise({6, 5, 200}, kFloat32, 1), row = noise({200}, kFloat32, 2);
  const Array column = noise({5, 1}, kFloat32, 3), half = column.to(kFloat16);
  const auto naive = [&](const Array& x, const Array& y) {
    const Array l = x.expand({6, 5, 200}).contiguous(), r = y.expand({6, 5, 200}).contiguous();
    Array out = Array::empty({6, 5, 200});
    for (int64_t i = 0; i < out.numel(); ++i) {
      out.data<float>()[i] = l.data<float>()[i] - r.data<float>()[i];
    }
    return out;
  };
  const Array all[] = {a,
                       row,
                       column,
                       half.to(kFloat32),
                       a.slice(0, 0, 1),
                       a.slice(2, 7, 8),
                       awkward(a),
                       noise({6, 5, 300}, kFloat32, 4).slice(2, 50, 250),
                       Array::full({1, 1, 1}, 0.3),
                       column.expand({6, 5, 200})};
  for (const Array& x : all) {
    for (const Array& y : all) {
      if (broadcast_shapes("sub", x.shape(), y.shape()) != Shape{6, 5, 200}) continue;
      REQUIRE(same(map<kernels::Sub>(x, y), naive(x, y)));
      const Array frame = Array::full({6, 5, 300}, 7.0), into = frame.slice(2, 10, 210);
      map_into<kernels::Sub>(into, x, y);
      REQUIRE(same(into, naive(x, y)));
      REQUIRE(same(frame.slice(2, 0, 10), Array::full({6, 5, 10}, 7.0)));
      REQUIRE(same(frame.slice(2, 210, 300), Array::full({6, 5, 90}, 7.0)));
    }
  }
  REQUIRE(same(map<kernels::Sub>(a, half), naive(a, half.to(kFloat32))));
  const Array own = a.clone();
  map_into<kernels::Sub>(own, own, row);
  REQUIRE(same(own, naive(a, row)));
}

TEST_CASE("parameters that are the same for all or along rows are read once", "[core]") {
  const Shape shape{6, 5, 201};
  const Array a = noise(shape, kFloat32, 1), row = noise({201}, kFloat32, 2);
  const Array column = noise({5, 1}, kFloat32, 3), one = noise({1}, kFloat32, 4);
  const Array nan = Array::full({5, 1}, std::nan(""));
  for (const Array& x : {a, awkward(a), column, one}) {
    for (const Array& low : {column, row, one, a, nan, column.to(kFloat64).to(kFloat16)}) {
      for (const Array& high : {column, row, one, nan}) {
        if (broadcast_shapes("clamp", broadcast_shapes("clamp", x.shape(), low.shape()),
                             high.shape()) != shape) {
          continue;
        }
        const auto whole = [&](const Array& y) {
          return y.to(kFloat32).expand(shape).contiguous();
        };
        const Array l = whole(x), m = whole(low), r = whole(high);
        Array held = Array::empty(shape), moved = Array::empty(shape);
        for (int64_t i = 0; i < a.numel(); ++i) {
          const float p = l.data<float>()[i], q = m.data<float>()[i], s = r.data<float>()[i];
          held.data<float>()[i] = kernels::Clamp{}(p, q, s);
          moved.data<float>()[i] = p * q + s;
        }
        REQUIRE(same(map<kernels::Clamp>(x, low, high), held));
        REQUIRE(same(map<kernels::Affine>(x, low, high), moved));
      }
    }
  }
  REQUIRE(same(map<kernels::Clamp>(a, Scalar(-0.5), Scalar(0.25)),
               map<kernels::Clamp>(a, Array::full(shape, -0.5), Array::full(shape, 0.25))));
}
