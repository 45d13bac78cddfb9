// The index arithmetic of kernels, which needs no GPU.
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/cuda/elementwise/walk.cuh>

using namespace hero;
using namespace hero::test;
using cuda::Divider;
using cuda::Joint;

TEST_CASE("division by a known number is exact below 2^31") {
  constexpr uint32_t kTop = 0x7fffffffu;
  for (uint32_t by :
       {1u, 2u, 3u, 5u, 7u, 10u, 31u, 641u, 4095u, 4096u, 65537u, 1000003u, kTop - 1, kTop}) {
    const Divider divide(by);
    for (uint32_t x : {0u, 1u, 2u, 6u, 640u, 641u, 4096u, 1u << 30, kTop - 1, kTop}) {
      CHECK(divide(x) == x / by);
      const uint32_t multiple = x / by * by;
      CHECK(divide(multiple) == multiple / by);
      if (multiple > 0) CHECK(divide(multiple - 1) == (multiple - 1) / by);
    }
  }
}

TEST_CASE("dimensions are put into the order of memory and joined") {
  Joint dense(Array::empty({4, 5, 6}, kFloat32, kMeta));
  dense.join();
  CHECK(dense.ndim() == 1);
  CHECK(dense.count() == 120);
  const Array turned = Array::empty({4, 5, 6}, kFloat32, kMeta).permute({2, 0, 1});
  Joint both(turned);
  both.add(turned);
  both.join();
  CHECK(both.ndim() == 1);
  Joint row(Array::empty({4, 5, 6}, kFloat32, kMeta));
  row.add(Array::empty({6}, kFloat32, kMeta));
  row.join();
  CHECK(row.ndim() == 2);
  CHECK(row.stride(1, 0) == 0);
  CHECK(row.inner_stride(1) == 1);
  Joint one(Array::empty({1, 1}, kFloat32, kMeta));
  one.join();
  CHECK(one.ndim() == 1);
  CHECK(one.count() == 1);
}

TEST_CASE("whole vectors are used only where every row begins with one") {
  const auto splits = [](const Array& out, const Array& in) {
    Joint joint(out);
    joint.add(in);
    joint.join();
    return joint.splits(4);
  };
  const Array wide = Array::empty({5, 24}, kFloat32, kMeta);
  CHECK(splits(Array::empty({7}, kFloat32, kMeta), Array::empty({7}, kFloat32, kMeta)));
  CHECK(splits(Array::empty({5, 8}, kFloat32, kMeta), wide.slice(1, 0, 8)));
  CHECK(splits(Array::empty({5, 8}, kFloat32, kMeta), Array::empty({5, 1}, kFloat32, kMeta)));
  CHECK_FALSE(splits(Array::empty({5, 6}, kFloat32, kMeta), wide.slice(1, 0, 6)));
  CHECK_FALSE(splits(Array::empty({5, 8}, kFloat32, kMeta),
                     Array::empty({5, 26}, kFloat32, kMeta).slice(1, 0, 8)));
  CHECK_FALSE(splits(Array::empty({24, 5}, kFloat32, kMeta), wide.t()));
}

TEST_CASE("pieces cover every position once") {
  const Shape shape{3, 7, 10};
  const Array x = Array::zeros(shape), source = awkward(Array::zeros(shape));
  Joint joint(x);
  joint.add(source);
  joint.join();
  std::vector<int> seen(210, 0);
  joint.pieces(16, [&](const Joint& piece) {
    const cuda::Walk walk = piece.walk();
    CHECK(walk.count <= 16);
    for (uint32_t i = 0; i < walk.count; ++i) {
      int64_t places[2];
      walk.at(i, places);
      const int64_t at = piece.start(0) + places[0];
      ++seen[static_cast<size_t>(at)];
      const int64_t expected = at / 70 * source.strides()[0] + at / 10 % 7 * source.strides()[1] +
                               at % 10 * source.strides()[2];
      CHECK(piece.start(1) + places[1] == expected);
    }
  });
  CHECK(seen == std::vector<int>(210, 1));
}
