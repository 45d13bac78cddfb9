// How elementwise kernels read what they are given.
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
