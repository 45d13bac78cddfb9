// Indexing on the device against the CPU's, bit for bit where both add in one order.
#include "cuda/gpu.h"
#include "support/arrays.h"

#include <hero/core/functions/indexing.h>
#include <hero/core/functions/reductions.h>

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

const DType kAll[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

// Values that differ from element to element, of any dtype.
Array values(const Shape& shape, DType dtype, uint64_t id = 1) {
  if (is_floating(dtype)) return noise(shape, dtype, id);
  return make(
      shape, [=](int64_t i) { return (i * 7 + static_cast<int64_t>(id)) % 100; }, dtype);
}

Array positions(const Shape& shape, int64_t bound) {
  return make(
      shape, [=](int64_t i) { return (i * i + i / 3) % bound; }, kInt64);
}

// The same array on the GPU with strides of its own kind.
Array strided(const Array& x) {
  if (x.ndim() == 0) return x.to(kGpu);
  Dims reversed;
  for (int i = x.ndim() - 1; i >= 0; --i) reversed.push_back(i);
  return x.permute(reversed).contiguous().to(kGpu).permute(reversed);
}

bool same_there(const Array& gpu, const Array& cpu) { return same(gpu.to(kCpu), cpu); }

}  // namespace

TEST_CASE("gather and index_select on the GPU give the CPU's bits") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    const Array x = values({3, 5, 8}, dtype);
    for (int dim = 0; dim < 3; ++dim) {
      INFO(name(dtype) << ", dim " << dim);
      Shape shape{3, 5, 8};
      shape[dim] = 11;
      const Array index = positions(shape, x.size(dim));
      const Array expected = gather(x, dim, index);
      CHECK(same_there(gather(x.to(kGpu), dim, index.to(kGpu)), expected));
      CHECK(same_there(gather(strided(x), dim, strided(index.to(kInt32))), expected));
      const Array list = positions({7}, x.size(dim));
      const Array selected = index_select(x, dim, list);
      CHECK(same_there(index_select(x.to(kGpu), dim, list.to(kGpu)), selected));
      CHECK(same_there(index_select(strided(x), dim, list.to(kGpu)), selected));
    }
  }
  const Array number = Array::full({}, 3.0).to(kGpu), zero = Array::zeros({}, kInt64).to(kGpu);
  CHECK(gather(number, 0, zero).item() == 3.0);
  CHECK(index_select(number, 0, zero).item() == 3.0);
  CHECK(gather(Array::ones({2, 3}).to(kGpu), 0, Array::zeros({0, 3}, kInt64).to(kGpu)).numel() ==
        0);
}

TEST_CASE("scatter on the GPU gives the CPU's bits: the last one wins") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    // Few indices a line, and so many that they are sorted.
    for (const int64_t length : {1, 5, 16, 17, 100}) {
      for (int dim = 0; dim < 2; ++dim) {
        Shape target{4, 4}, shape{3, 3};
        target[dim] = 9;
        shape[dim] = length;
        if (length > 9) target[dim] = 120;
        INFO(name(dtype) << ", " << to_string(shape) << " into " << to_string(target) << ", dim "
                         << dim);
        const Array x = values(target, dtype, 2), src = values({120, 120}, dtype, 3);
        const Array index = positions(shape, 9);
        const Array expected = scatter(ScatterMode::assign, x, dim, index, src);
        CHECK(same_there(
            scatter(ScatterMode::assign, x.to(kGpu), dim, index.to(kGpu), src.to(kGpu)), expected));
        CHECK(same_there(
            scatter(ScatterMode::assign, strided(x), dim, strided(index), strided(src)), expected));
      }
    }
  }
}

TEST_CASE("scatter add on the GPU adds in index order") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kFloat32, kFloat64}) {
    for (const int64_t length : {3, 16, 31, 200}) {
      INFO(name(dtype) << ", " << length);
      const Array x = values({2, 300}, dtype, 2), src = values({2, length}, dtype, 3);
      // Every place is met fewer than 32 times, so that no sum is cut; halves are rounded at every
      // step on the CPU, and here where lines are short.
      const Array index = make(
          {2, length}, [](int64_t i) { return (i * 5) % 13 * 7; }, kInt64);
      if (dtype == kFloat16 && length > 16) continue;
      const Array expected = scatter(ScatterMode::add, x, 1, index, src);
      const Array out = scatter(ScatterMode::add, x.to(kGpu), 1, index.to(kGpu), src.to(kGpu));
      if (length < 32) {
        CHECK(same_there(out, expected));
      } else {
        const auto a = out.to_vector<double>(), b = expected.to_vector<double>();
        const double tolerance = dtype == kFloat32 ? 1e-6 : 1e-15;
        for (size_t i = 0; i < a.size(); ++i) {
          CHECK(std::abs(a[i] - b[i]) <= 16 * tolerance * std::max(1.0, std::abs(b[i])));
        }
      }
      const Array again = scatter(ScatterMode::add, strided(x), 1, strided(index), strided(src));
      CHECK(same(again.to(kCpu), out.to(kCpu)));
    }
  }
}

TEST_CASE("index_add on the GPU adds rows in index order, long runs in chunks") {
  HERO_NEEDS_GPU();
  struct Case {
    int64_t count, places, width;
  };
  // One chunk of 32 rows; several; runs that end at a chunk's end, cover chunks, and are alone.
  for (const Case c : {Case{1, 1, 4},
                       {5, 3, 3},
                       {31, 7, 16},
                       {32, 2, 8},
                       {33, 1, 5},
                       {64, 2, 4},
                       {100, 40, 24},
                       {130, 1, 9},
                       {129, 3, 12}}) {
    for (const DType dtype : {kInt32, kBFloat16, kFloat32, kFloat64}) {
      INFO(c.count << " rows of " << c.width << " into " << c.places << ", " << name(dtype));
      const Array x = values({c.places, c.width}, dtype, 5);
      const Array src = values({c.count, c.width}, dtype, 6);
      const Array index = positions({c.count}, c.places);
      const Array out = index_add(x.to(kGpu), 0, index.to(kGpu), src.to(kGpu), 2);
      // Sums in float64: of the halves' rounding only the last one is left.
      const bool whole = dtype == kInt32;
      const DType wide = whole ? kInt32 : kFloat64;
      const auto expected = index_add(x.to(wide), 0, index, src.to(wide), 2).to_vector<double>();
      const auto found = out.to_vector<double>();
      // Terms are at most about 2 in size, so that a sum of 130 rounds by 130 * 300 eps at most;
      // in fact by far less.
      const double eps = dtype == kBFloat16 ? 0x1p-8 : dtype == kFloat32 ? 0x1p-24 : 0x1p-53;
      for (size_t i = 0; i < found.size(); ++i) {
        const double bound = dtype == kBFloat16 ? eps * std::max(1.0, std::abs(expected[i]))
                                                : 300.0 * static_cast<double>(c.count) * eps;
        CHECK(std::abs(found[i] - expected[i]) <= (whole ? 0.0 : bound));
      }
      CHECK(same(index_add(strided(x), 0, index.to(kGpu), strided(src), 2).to(kCpu), out.to(kCpu)));
      CHECK(same(index_add(x.t().to(kGpu), 1, index.to(kGpu), src.t().to(kGpu), 2).to(kCpu),
                 out.to(kCpu).t()));
    }
  }
}

TEST_CASE("index_add of runs inside a chunk has the CPU's bits") {
  HERO_NEEDS_GPU();
  const Array index = positions({30}, 11);
  for (const int64_t width : {1, 4, 7, 32}) {
    const Array x = values({11, 2, width}, kFloat32, 1), src = values({30, 2, width}, kFloat32, 2);
    CHECK(same_there(index_add(x.to(kGpu), 0, index.to(kGpu), src.to(kGpu), 0.3),
                     index_add(x, 0, index, src, 0.3)));
  }
}

TEST_CASE("an index outside of its dimension is never lost on the GPU") {
  HERO_NEEDS_GPU();
  const Array x = Array::ones({3, 4}).to(kGpu);
  const auto list = [](std::vector<int64_t> v) {
    return Array::from(v, {static_cast<int64_t>(v.size())}).to(kGpu);
  };
  const std::string message =
      "index_select: index 7 at position [2] is out of range: the dimension has size 3";
  // Found when the host waits for values, or for the device, or comes by with another index.
  const Array bad = index_select(x, 0, list({0, 1, 7}));
  CHECK_THROWS_WITH(bad.to(kCpu), message);
  CHECK(bad.to(kCpu).numel() == 12);  // reported once
  index_select(x, 0, list({0, 1, 7}));
  CHECK_THROWS_WITH(cuda::synchronize(kGpu), message);
  CHECK_THROWS_WITH(gather(x, 0, Array::full({1, 4}, -1, kInt64, kGpu)).to(kCpu),
                    ContainsSubstring("gather: index -1 at position [0, "));
  // Nothing was written outside.
  const Array kept = index_add(x, 0, list({5}), Array::zeros({1, 4}, kFloat32, kGpu));
  CHECK_THROWS_WITH(kept.to(kCpu), ContainsSubstring("index_add: index 5"));
  CHECK_THROWS_WITH(index_select(Array::zeros({0, 4}, kFloat32, kGpu), 0, list({0})),
                    ContainsSubstring("size 0"));
}

TEST_CASE("sort on the GPU is the CPU's stable sort, in values and positions") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    for (const Shape& shape : {Shape{1}, Shape{33}, Shape{3, 40}, Shape{40, 3}, Shape{2, 9, 4}}) {
      for (int dim = 0; dim < shape.size(); ++dim) {
        for (const core::Order order : {core::Order::ascending, core::Order::descending}) {
          INFO(name(dtype) << " " << to_string(shape) << ", dim " << dim << ", descending "
                           << (order == core::Order::descending));
          // Few different values: many ties.
          const Array x = make(
              shape, [](int64_t i) { return static_cast<double>((i * 7) % 5) - 2.0; }, dtype);
          const auto expected = sort(x, dim, order);
          const auto found = sort(strided(x), dim, order);
          CHECK(same_there(found.values, expected.values));
          CHECK(same_there(found.indices, expected.indices));
        }
      }
    }
  }
}

TEST_CASE("sort on the GPU puts NaN above infinity and keeps the order of zeros") {
  HERO_NEEDS_GPU();
  const double nan = std::nan(""), infinity = INFINITY;
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Array x =
        Array::from(std::vector<double>{0.0, nan, -infinity, -0.0, infinity, -1.0, nan, 0.0}, {8})
            .to(dtype);
    for (const core::Order order : {core::Order::ascending, core::Order::descending}) {
      const auto expected = sort(x, 0, order), found = sort(x.to(kGpu), 0, order);
      CHECK(same_there(found.indices, expected.indices));
    }
  }
}

TEST_CASE("nonzero on the GPU finds the CPU's rows") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kAll) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{5, 7}, Shape{2050}, Shape{3, 4, 400}}) {
      INFO(name(dtype) << " " << to_string(shape));
      const Array x = make(
          shape, [](int64_t i) { return i % 3 == 0 || i % 7 == 1 ? 1 : 0; }, dtype);
      CHECK(same_there(nonzero(x.to(kGpu)), nonzero(x)));
      CHECK(same_there(nonzero(strided(x)), nonzero(x)));
    }
  }
  CHECK(nonzero(Array::zeros({9}).to(kGpu)).shape() == Shape{0, 1});
}
