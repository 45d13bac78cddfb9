// Fused expressions give the bits of the maps that they are made of.
#include <cmath>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/fused_expression.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

// where(b < x, exp(x * y) / 3, x - 1) * y, with shared and unused terms.
Array in_one(const Array& a, const Array& b, const Array& c) {
  FusedExpression f;
  const Term x = f(a), y = f(b), bound = f(c);
  const Term product = x * y;
  [[maybe_unused]] const Term unused = log(product + bound) * 7;
  return f.run(where(bound < x, exp(product) / 3, x - 1) * y);
}

Array by_maps(const Array& a, const Array& b, const Array& c, DType wide) {
  const Array x = a.to(wide), y = b.to(wide), bound = c.to(wide);
  const Array left = map<kernels::Div>(map<kernels::Exp>(map<kernels::Mul>(x, y)), 3.0);
  const Array chosen =
      map<kernels::Where>(map<kernels::Less>(bound, x), left, map<kernels::Sub>(x, 1.0));
  return map<kernels::Mul>(chosen, y);
}

}  // namespace

TEST_CASE("a formula gives the bits of its maps in every layout", "[core]") {
  const Array row = noise({300}, kFloat32, 5), number = Array::full({}, 0.5);
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Array a = noise({7, 300, 40}, dtype, 1), b = noise({7, 300, 40}, dtype, 2);
    const Array column = noise({300, 1}, dtype, 3), one = noise({1}, dtype, 4);
    for (const Array& c : {b, column, one, number, awkward(a), column.expand({7, 300, 40})}) {
      const Array expected = by_maps(a, b, c, dtype);
      REQUIRE(same(in_one(a, b, c), expected));
      REQUIRE(
          same(in_one(awkward(a), b.transpose(0, 1).contiguous().transpose(0, 1), c), expected));
    }
    REQUIRE(same(in_one(a, column, one), by_maps(a, column, one, dtype)));
    REQUIRE(in_one(a.slice(0, 0, 0), b.slice(0, 0, 0), one).shape() == Shape{0, 300, 40});
  }
  REQUIRE(same(in_one(row, number, row), by_maps(row, number, row, kFloat32)));
}

TEST_CASE("a formula of halves and integers is computed in float32 and rounded once", "[core]") {
  const Array x = noise({3, 700}), y = noise({700}, kFloat32, 2), z = noise({3, 1}, kFloat32, 3);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Array a = x.to(dtype), b = y.to(dtype), c = z.to(dtype);
    const Array got = in_one(a, b, c);
    REQUIRE(got.dtype() == dtype);
    REQUIRE(same(got, by_maps(a, b, c, kFloat32).to(dtype)));
    REQUIRE(in_one(a, y, c).dtype() == kFloat32);
  }
  const Array whole = map<kernels::Mul>(x, 3.0).to(kInt64);
  REQUIRE(same(in_one(whole, y, whole), by_maps(whole, y, whole, kFloat32)));
  REQUIRE(in_one(whole, whole, whole).dtype() == kFloat32);
}

TEST_CASE("a formula in float64 rounds once", "[core]") {
  const Array x = noise({3, 700});
  FusedExpression f;
  const Term t = f(x);
  const Array wide = x.to(kFloat64);
  const Array cube = map<kernels::Mul>(map<kernels::Mul>(wide, wide), wide).to(kFloat32);
  REQUIRE(same(f.run_wide(t * t * t), cube));
  REQUIRE(same(map<kernels::Cube>(x), cube));
}

TEST_CASE("a formula reads and writes long rows with gaps where they are", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
    for (const int64_t width : {127, 128, 700, 1500}) {
      const Array both = noise({5, 3, 2 * width + 3}, dtype, 1);
      const Array a = both.slice(2, 0, width), b = both.slice(2, width + 3, 2 * width + 3);
      const Array c = noise({3, 1}, dtype, 2), whole = noise({5, 3, width}, dtype, 3);
      const DType wide = dtype == kFloat64 ? kFloat64 : kFloat32;
      for (const Array& y : {b, whole, awkward(b)}) {
        const Array expected = by_maps(a.contiguous(), y.contiguous(), c, wide).to(dtype);
        REQUIRE(same(in_one(a, y, c), expected));
        for (const int64_t gap : {0, 5}) {
          const Array frame = Array::full({5, 3, width + 2 * gap}, 7.0, dtype);
          FusedExpression f;
          const Term x = f(a), z = f(y), bound = f(c), product = x * z;
          const Term result = where(bound < x, exp(product) / 3, x - 1) * z;
          Array into = frame.slice(2, gap, gap + width);
          f.run_into({&result, 1}, {&into, 1});
          REQUIRE(same(frame.slice(2, gap, gap + width).contiguous(), expected));
          if (gap > 0) REQUIRE(same(frame.slice(2, 0, gap), Array::full({5, 3, gap}, 7.0, dtype)));
          const Array last = frame.slice(2, gap + width, width + 2 * gap);
          if (gap > 0) REQUIRE(same(last, Array::full({5, 3, gap}, 7.0, dtype)));
        }
      }
    }
  }
}

TEST_CASE("a formula of several results gives the bits of each alone", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    for (const int64_t width : {5, 700}) {
      const Array a = noise({5, 3, width}, dtype, 1), b = noise({3, width}, dtype, 2);
      const Array both = Array::full({5, 3, 2 * width + 3}, 7.0, dtype);
      const auto terms = [](Term x, Term y) {
        const Term quotient = x / (y + 3);  // a result of which another one is made
        return std::array{quotient * quotient - y, quotient, exp(x)};
      };
      std::vector<Array> alone;
      for (size_t i = 0; i < 3; ++i) {
        FusedExpression f;
        alone.push_back(f.run(terms(f(a), f(b))[i]));
      }
      FusedExpression f;
      Array results[] = {Array(), both.slice(2, 0, width), both.slice(2, width + 3, 2 * width + 3)};
      f.run_into(terms(f(a), f(b)), results);
      for (size_t i = 0; i < 3; ++i) REQUIRE(same(results[i].contiguous(), alone[i]));
      REQUIRE(same(both.slice(2, width, width + 3), Array::full({5, 3, 3}, 7.0, dtype)));
    }
  }
  FusedExpression f;
  const Term once = f(Array::full({3}, 2.0)) * 3;
  Array results[2];
  REQUIRE_THROWS_AS(f.run_into(std::array{once, once}, results), Error);
}

TEST_CASE("sums of a formula have the bits of a reduction of its result", "[core]") {
  const auto of = [](FusedExpression& f, const Array& a, const Array& b) {
    return (f(a) - 0.5) * f(b);
  };
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{3, 5000}, Shape{700, 9}, Shape{2, 3, 4097}, Shape{1, 200'003},
                               Shape{5, 1}, Shape{0, 7}, Shape{7, 0}, Shape{4, 128, 33}}) {
      Array a = noise(shape, dtype, 1);
      if (a.numel() == 15000) {
        backend(kCpu).run(call::Fill{a.select(0, 1).slice(0, 4321, 4322),
                                     std::numeric_limits<double>::quiet_NaN()});
      }
      for (const Array& b : {noise(shape, dtype, 2), awkward(noise(shape, dtype, 3)),
                             noise({shape.back()}, dtype, 4), Array::full({}, -0.25, dtype)}) {
        FusedExpression f;
        const Term result = of(f, a, b);
        const Array all = f.run(result);
        for (int dims = 1; dims <= shape.size(); ++dims) {
          Dims last;
          for (int i = shape.size() - dims; i < shape.size(); ++i) last.push_back(i);
          const Array expected = reduce(ReduceKind::sum, all, last, KeepDims::no);
          CAPTURE(to_string(shape), dims);
          REQUIRE(same(f.sum(result, dims), expected));
          const ThreadLimit limit(3);
          REQUIRE(same(f.sum(result, dims), expected));
        }
        REQUIRE(f.sum(result).shape().empty());
      }
    }
  }
  FusedExpression f;  // a sum of one keeps the sign of a zero
  REQUIRE(std::signbit(f.sum(-f(Array::full({1}, 0.0))).item<float>()));
}

TEST_CASE("a fused map is the same on any number of threads and without a kernel of its own",
          "[core]") {
  const Array a = noise({200'000}, kFloat32, 1), b = noise({1, 200'000}, kFloat32, 2);
  constexpr auto op = [](uint16_t index) { return MapOp{index}; };
  const FusedMapStep steps[] = {{op(kernels::MapList::index_of<kernels::Sub>()), 2, {-1, -2}},
                                {op(kernels::MapList::index_of<kernels::Square>()), 1, {0}},
                                {op(kernels::MapList::index_of<kernels::Lerp>()), 3, {0, 1, -3}},
                                {op(kernels::MapList::index_of<kernels::Mul>()), 2, {2, 0}, 0}};
  const Operand inputs[] = {a, b, Scalar(0.25)};
  const Array out = Array::empty({1, 200'000}), one = Array::empty({1, 200'000}),
              plain = Array::empty({1, 200'000}), view = awkward(plain);
  Backend& cpu = backend(kCpu);
  cpu.run(call::FusedMap{steps, inputs, kFloat32, {&out, 1}});
  cpu.Backend::run(call::FusedMap{steps, inputs, kFloat32, {&plain, 1}});
  cpu.run(call::FusedMap{steps, inputs, kFloat32, {&view, 1}});
  const int threads = num_threads();
  set_num_threads(threads == 1 ? 3 : 1);
  cpu.run(call::FusedMap{steps, inputs, kFloat32, {&one, 1}});
  set_num_threads(threads);
  REQUIRE(same(out, one));
  REQUIRE(same(out, plain));
  REQUIRE(same(out, view));
  const Array sums = Array::empty({4}), by_maps = Array::empty({4});
  cpu.run(call::FusedMapSum{steps, inputs, kFloat32, {1, 200'000}, sums});
  cpu.Backend::run(call::FusedMapSum{steps, inputs, kFloat32, {1, 200'000}, by_maps});
  REQUIRE(same(sums, by_maps));
}

TEST_CASE("terms belong to the innermost formula", "[core]") {
  const Array x = Array::full({3}, 2.0);
  FusedExpression outer;
  const Term t = outer(x);
  {
    FusedExpression inner;
    REQUIRE(inner.run(inner(x) * 3).to_vector<float>() == std::vector<float>{6, 6, 6});
  }
  REQUIRE(outer.run(t + 1).to_vector<float>() == std::vector<float>{3, 3, 3});
}
