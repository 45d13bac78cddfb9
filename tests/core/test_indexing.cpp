#include <algorithm>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/indexing.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

using Ints = std::vector<int64_t>;

const DType kAll[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

// Element [i, j, k] of x as a double.
double at(const Array& x, int64_t i, int64_t j, int64_t k) {
  return x.select(0, i).select(0, j).select(0, k).item<double>();
}

TEST_CASE("gather takes the element that its index names, in every dtype and layout", "[core]") {
  for (const DType dtype : kAll) {
    const Array x = make(
        {3, 4, 5}, [](int64_t i) { return (i * 7) % 100; }, dtype);
    for (int dim = 0; dim < 3; ++dim) {
      Shape shape{3, 4, 5};
      shape[dim] = 6;
      const int64_t size = x.size(dim);
      const Array index = make(
          shape, [&](int64_t i) { return (i * 5 + 1) % size; }, kInt64);
      const Array out = gather(x, dim, index);
      REQUIRE(out.shape() == shape);
      REQUIRE(same(gather(awkward(x), dim, awkward(index)), out));
      REQUIRE(same(gather(x, dim, index.to(kInt32)), out));
      for (int64_t i = 0; i < shape[0]; ++i) {
        for (int64_t j = 0; j < shape[1]; ++j) {
          for (int64_t k = 0; k < shape[2]; ++k) {
            Dims from{i, j, k};
            from[dim] = static_cast<int64_t>(at(index, i, j, k));
            REQUIRE(at(out, i, j, k) == at(x, from[0], from[1], from[2]));
          }
        }
      }
    }
  }
}

TEST_CASE("scatter assigns in index order: the later element wins", "[core]") {
  const Array x = Array::zeros({4});
  const Array index = Array::from(Ints{2, 0, 2, 2}, {4});
  const Array src = Array::from(std::vector<float>{1, 2, 3, 4}, {4});
  const Array out = scatter(ScatterMode::assign, x, 0, index, src);
  REQUIRE(out.to_vector<float>() == std::vector<float>{2, 0, 4, 0});
  REQUIRE(x.to_vector<float>() == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("scatter add matches a loop in index order, bit for bit", "[core]") {
  for (const DType dtype : {kInt64, kFloat16, kFloat32, kFloat64}) {
    for (int dim = 0; dim < 3; ++dim) {
      const Array x = noise({5, 6, 7}, dtype, 3), src = noise({5, 6, 7}, dtype, 4);
      const int64_t size = x.size(dim);
      const Array index = make(
          {5, 6, 7}, [&](int64_t i) { return (i * i) % size; }, kInt64);
      const Array out = scatter(ScatterMode::add, x, dim, index, src);
      // Sums of halves are made in float32 and rounded once.
      const Array sums = dtype == kFloat16 ? x.to(kFloat32) : x.clone();
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          for (int64_t k = 0; k < 7; ++k) {
            Dims to{i, j, k};
            to[dim] = static_cast<int64_t>(at(index, i, j, k));
            const Array cell = sums.select(0, to[0]).select(0, to[1]).select(0, to[2]);
            const double sum = cell.item<double>() + at(src, i, j, k);
            backend(kCpu).run(call::Fill{cell, sum});
          }
        }
      }
      REQUIRE(same(out, sums.to(dtype)));
      REQUIRE(same(scatter(ScatterMode::add, awkward(x), dim, awkward(index), awkward(src)), out));
    }
  }
}

TEST_CASE("scatter of many lines matches a loop, in every mode, dtype and layout", "[core]") {
  constexpr ScatterMode kModes[] = {ScatterMode::assign, ScatterMode::add, ScatterMode::multiply,
                                    ScatterMode::maximum, ScatterMode::minimum};
  for (const Shape& shape : {Shape{1, 40, 150}, Shape{3, 9, 70}, Shape{2, 130, 1}}) {
    for (int dim = 0; dim < 3; ++dim) {
      Shape larger = shape;
      for (int64_t& size : larger) size += 2;
      const int64_t places = larger[dim];
      const Array index = make(
          shape, [&](int64_t i) { return (i * 7 + i / 5) % places; }, kInt64);
      const Array src = make(larger, [](int64_t i) { return i % 5 - 2; });
      const Array used = src.slice(0, 0, shape[0]).slice(1, 0, shape[1]).slice(2, 0, shape[2]);
      for (const ScatterMode mode : kModes) {
        std::vector<double> expected =
            make(larger, [](int64_t i) { return i % 3; }).to(kFloat64).to_vector<double>();
        const Array whole = Array::from(expected, larger);
        for (int64_t i = 0; i < index.numel(); ++i) {
          Dims spot{i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
          const double value = at(used, spot[0], spot[1], spot[2]);
          spot[dim] = static_cast<int64_t>(at(index, spot[0], spot[1], spot[2]));
          double& to =
              expected[static_cast<size_t>((spot[0] * larger[1] + spot[1]) * larger[2] + spot[2])];
          to = mode == ScatterMode::assign     ? value
               : mode == ScatterMode::add      ? to + value
               : mode == ScatterMode::multiply ? to * value
               : mode == ScatterMode::maximum  ? std::max(to, value)
                                               : std::min(to, value);
        }
        if (mode == ScatterMode::multiply && shape[1] == 40) continue;  // leaves exact numbers
        for (const DType dtype : {kInt64, kInt32, kFloat32, kFloat64, kBFloat16}) {
          if (dtype == kBFloat16 && mode == ScatterMode::multiply) continue;
          CAPTURE(to_string(shape), dim, static_cast<int>(mode), name(dtype));
          const Array start = whole.to(dtype), values = src.to(dtype);
          const Array want = Array::from(expected, larger).to(dtype);
          CHECK(same(scatter(mode, start, dim, index, values), want));
          CHECK(same(scatter(mode, awkward(start), dim, awkward(index), awkward(values)), want));
          const Array turned = awkward(start);
          scatter_into(mode, turned, dim, index, values);
          CHECK(same(turned.contiguous(), want));
        }
      }
    }
  }
}

TEST_CASE("index_select takes slices along any dim, dense or not", "[core]") {
  for (const DType dtype : kAll) {
    const Array x = make(
        {3, 4, 40}, [](int64_t i) { return i % 200; }, dtype);
    const Array index = Array::from(Ints{2, 0, 0, 1, 2}, {5});
    for (int dim = 0; dim < 3; ++dim) {
      const Array out = index_select(x, dim, index);
      REQUIRE(same(index_select(awkward(x), dim, index), out));
      for (int64_t i = 0; i < 5; ++i) {
        const Array slice = x.select(dim, index.select(0, i).item<int64_t>());
        REQUIRE(same(out.select(dim, i), slice));
      }
    }
  }
  REQUIRE(index_select(Array::ones({3, 2}), 0, Array::zeros({0}, kInt64)).shape() == Shape{0, 2});
}

TEST_CASE("index_add adds scaled slices in index order", "[core]") {
  for (const int64_t width : {3, 300}) {  // short slices go by element, long ones by row
    const Array x = noise({6, width}, kFloat32, 5), src = noise({4, width}, kFloat32, 6);
    const Array index = Array::from(Ints{5, 1, 5, 5}, {4});
    const Array out = index_add(x, 0, index, src, 0.5);
    auto expected = x.to_vector<float>();
    const auto add = src.to_vector<float>();
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t row = index.select(0, i).item<int64_t>();
      for (int64_t c = 0; c < width; ++c) {
        const float term = add[static_cast<size_t>(i * width + c)] * 0.5f;
        expected[static_cast<size_t>(row * width + c)] += term;
      }
    }
    REQUIRE(out.to_vector<float>() == expected);
    REQUIRE(same(index_add(x.t(), 1, index, src.t(), 0.5).t().contiguous(), out));
  }
}

TEST_CASE("index_add of halves adds up in float32, whether it names few slices or many", "[core]") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const int64_t width : {3, 40}) {
      for (const Ints& list : {Ints{5, 1, 5, 5}, Ints{0, 6, 3, 3, 2, 3, 1, 1, 0}}) {
        const auto n = static_cast<int64_t>(list.size());
        const Array index = Array::from(list, {n}), x = noise({2, 7, width}, dtype, 5);
        const Array src = noise({2, n, width}, dtype, 6);
        const Array wide = index_add(x.to(kFloat32), 1, index, src.to(kFloat32), 0.3);
        REQUIRE(same(index_add(x, 1, index, src, 0.3), wide.to(dtype)));
        const Array turned = x.transpose(1, 2).contiguous(), other = src.transpose(1, 2);
        REQUIRE(same(index_add(turned, 2, index, other, 0.3).transpose(1, 2).contiguous(),
                     wide.to(dtype)));
      }
    }
  }
}

TEST_CASE("rows of halves that are added are rounded once a row", "[core]") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const int64_t inner : {16, 33, 1100}) {
      for (const int64_t places : {3, 40}) {
        const Array x = noise({2, places, inner}, dtype, 1), src = noise({2, 25, inner}, dtype, 2);
        const Array index = make(
            {25}, [&](int64_t i) { return i * i % places; }, kInt64);
        Array wide = x.to(kFloat32).clone();
        index_add_into(wide, 1, index, src.to(kFloat32), 0.75);
        CHECK(same(index_add(x, 1, index, src, 0.75), wide.to(dtype)));
        CHECK(same(index_add(awkward(x), 1, index, awkward(src), 0.75), wide.to(dtype)));
        const Array out = awkward(x);
        index_add_into(out, 1, awkward(index), src, 0.75);
        CHECK(same(out.contiguous(), wide.to(dtype)));
      }
    }
  }
}

TEST_CASE("of several slices that are put at one place the last one stays", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kBool}) {
    const Array x = noise({2, 5, 40}, kFloat32, 1).to(dtype);
    const Array src = noise({2, 3, 40}, kFloat32, 2).to(dtype);
    const Array index = Array::from(Ints{4, 1, 4}, {1, 3, 1}).expand({2, 3, 40});
    const Array out = scatter(ScatterMode::assign, x, 1, index, src);
    REQUIRE(same(out.select(1, 4).contiguous(), src.select(1, 2).contiguous()));
    REQUIRE(same(out.select(1, 1).contiguous(), src.select(1, 1).contiguous()));
    for (const int64_t kept : {0, 2, 3}) {
      REQUIRE(same(out.select(1, kept).contiguous(), x.select(1, kept).contiguous()));
    }
  }
}

TEST_CASE("nonzero lists positions in row-major order", "[core]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = Array::from(std::vector<float>{0, 1, 0, nan, -0.0f, 2}, {2, 3});
  const Array out = nonzero(x);
  REQUIRE(out.shape() == Shape{3, 2});
  REQUIRE(out.to_vector<int64_t>() == Ints{0, 1, 1, 0, 1, 2});
  REQUIRE(nonzero(awkward(x)).to_vector<int64_t>() == Ints{0, 1, 1, 0, 1, 2});
  REQUIRE(nonzero(Array::zeros({4, 5})).shape() == Shape{0, 2});
  REQUIRE(nonzero(Array::zeros({0, 5})).shape() == Shape{0, 2});
  REQUIRE(nonzero(Array::ones({})).shape() == Shape{1, 0});
  const int64_t n = 100000;  // several chunks
  const auto found = nonzero(make({n}, [](int64_t i) { return i % 3 == 0; })).to_vector<int64_t>();
  REQUIRE(found.size() == static_cast<size_t>((n + 2) / 3));
  for (size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == static_cast<int64_t>(3 * i));
  // Lines that blocks and chunks cut, with none, some and all of them found.
  for (const Shape& shape : {Shape{2, 3, 1, 40'001}, Shape{300, 7, 50}, Shape{70'000, 1}}) {
    const Array flags = make(shape, [](int64_t i) { return i / 1000 % 3 < i % 3; });
    const auto values = flags.to_vector<float>();
    Ints expected;
    for (int64_t i = 0; i < shape.numel(); ++i) {
      if (values[static_cast<size_t>(i)] == 0.0f) continue;
      for (int d = 0, last = shape.size(); d < last; ++d) {
        int64_t after = 1;
        for (int e = d + 1; e < last; ++e) after *= shape[e];
        expected.push_back(i / after % shape[d]);
      }
    }
    REQUIRE(nonzero(flags).to_vector<int64_t>() == expected);
    REQUIRE(nonzero(awkward(flags)).to_vector<int64_t>() == expected);
  }
}

TEST_CASE("numbers have one position to index", "[core]") {
  const Array x = Array::full({}, 3.0), zero = Array::zeros({}, kInt64);
  REQUIRE(gather(x, 0, zero).item() == 3.0);
  REQUIRE(scatter(ScatterMode::add, x, 0, zero, x).item() == 6.0);
  REQUIRE(index_select(x, 0, zero).item() == 3.0);
  REQUIRE(index_add(x, 0, zero, x, 2).item() == 9.0);
}

TEST_CASE("a source that overlaps the output is read before it is written", "[core]") {
  const Array x = Array::from(std::vector<float>{1, 2, 3, 4}, {4});
  scatter_into(ScatterMode::assign, x.slice(0, 1), 0, Array::from(Ints{0, 1, 2}, {3}),
               x.slice(0, 0, 3));
  REQUIRE(x.to_vector<float>() == std::vector<float>{1, 1, 2, 3});
}

TEST_CASE("writing through an index counts as a write to the storage", "[core]") {
  const Array x = Array::zeros({4});
  const uint32_t before = x.storage().version();
  scatter_into(ScatterMode::add, x, 0, Array::zeros({1}, kInt64), Array::ones({1}));
  index_add_into(x, 0, Array::zeros({1}, kInt64), Array::ones({1}));
  REQUIRE(x.storage().version() == before + 2);
  REQUIRE(x.to_vector<float>() == std::vector<float>{2, 0, 0, 0});
}

TEST_CASE("an index that repeats a list has the bits of one that is written out", "[core]") {
  const Array list = Array::from(Ints{3, 0, 3, 2, 3}, {5});
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kInt32, kUInt8}) {
    INFO(dtype);
    for (const int64_t inner : {3, 40}) {
      for (const int dim : {0, 1}) {
        const Shape whole = dim == 0 ? Shape{4, inner} : Shape{2, 4, inner};
        Shape part = whole;
        part[dim] = 5;
        const auto mixed = [](int64_t i) { return 0.3 * static_cast<double>((i * 7) % 101); };
        const Array x = make(whole, mixed, dtype), src = make(part, mixed, dtype);
        const Array column = dim == 0 ? list.unsqueeze(1) : list.unsqueeze(1).unsqueeze(0);
        const Array repeated = column.expand(part), written = repeated.contiguous();
        REQUIRE(same(gather(x, dim, repeated), gather(x, dim, written)));
        for (const ScatterMode mode : {ScatterMode::add, ScatterMode::assign, ScatterMode::multiply,
                                       ScatterMode::maximum, ScatterMode::minimum}) {
          REQUIRE(same(scatter(mode, x, dim, repeated, src), scatter(mode, x, dim, written, src)));
        }
        // The array may be larger than the index in other dimensions.
        const Array narrow = repeated.slice(part.size() - 1, 0, inner - 1);
        REQUIRE(same(gather(x, dim, narrow), gather(x, dim, narrow.contiguous())));
        REQUIRE(same(scatter(ScatterMode::add, x, dim, narrow, src),
                     scatter(ScatterMode::add, x, dim, narrow.contiguous(), src)));
      }
    }
  }
  const Array x = Array::zeros({2, 3, 20});
  const Array outside = Array::from(Ints{1, 0, 7}, {3}).unsqueeze(1).unsqueeze(0);
  REQUIRE(error_of([&] {
            gather(x, 1, outside.expand({2, 3, 20}));
          }) == "gather: index 7 at position [0, 2, 0] is out of range: the dimension has size 3");
}

TEST_CASE("errors name the first index out of range and its position", "[core]") {
  const Array x = Array::zeros({3, 4});
  const Array index = Array::from(Ints{0, 1, 2, 0, 7, -1}, {2, 3});
  REQUIRE(error_of([&] { gather(x, 0, index); }) ==
          "gather: index 7 at position [1, 1] is out of range: the dimension has size 3");
  REQUIRE(error_of([&] {
            index_select(x, 1, Array::from(Ints{1, -1}, {2}));
          }) == "index_select: index -1 at position [1] is out of range: the dimension has size 4");
  REQUIRE(error_of([&] { gather(x, 0, x); }) ==
          "gather: index must be int64 or int32: got float32");
  REQUIRE(error_of([&] {
            gather(x, 0, Array::zeros({2, 5}, kInt64));
          }) == "gather: index of shape [2, 5] is larger than the array of shape [3, 4]");
  REQUIRE(error_of([&] { gather(x, 1, Array::zeros({2}, kInt64)); }) ==
          "gather: index of shape [2] has not as many dimensions as the array of shape [3, 4]; "
          "unsqueeze() adds one, and index_select() takes a list");
  REQUIRE(error_of([&] { index_select(x, 0, index); }) ==
          "index_select: index must be a list of positions: has shape [2, 3]");
  REQUIRE(error_of([&] {
            index_add(x, 0, Array::zeros({2}, kInt64), Array::zeros({3, 4}));
          }) ==
          "index_add: source of shape [3, 4] does not match 2 positions along dim 0 of [3, 4]");
  REQUIRE(error_of([&] {
            scatter(ScatterMode::add, x, 0, Array::zeros({2, 2}, kInt64), x.to(kFloat64));
          }) == "scatter: source is float64, array is float32; convert with to()");
  REQUIRE(error_of([&] { gather(x, 2, index); }) != "");
  REQUIRE(error_of([&] { gather(Array(), 0, index); }) == "gather: the array is undefined");
}

}  // namespace
