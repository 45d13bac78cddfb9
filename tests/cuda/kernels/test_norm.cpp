// Layer norm and RMS norm of rows on the GPU beside the CPU's in float64. Of halves, means and
// scales are float32.
#include "cuda/close.h"

#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>

using namespace hero;
using namespace hero_test;
using core::RowNorm;
using test::noise;

namespace {

struct Problem {
  Array x, g, weight, bias, residual, g_sum;
  Problem(int64_t rows, int64_t n, DType dtype)
      : x(noise({rows, n}, dtype)),
        g(noise({rows, n}, dtype, 2)),
        weight(noise({n}, dtype, 3)),
        bias(noise({n}, dtype, 4)),
        residual(noise({rows, n}, dtype, 5)),
        g_sum(noise({rows, n}, dtype, 6)) {}
  template <class To>
  Problem to(To where) const {
    Problem moved = *this;
    for (Array* array :
         {&moved.x, &moved.g, &moved.weight, &moved.bias, &moved.residual, &moved.g_sum}) {
      *array = array->to(where);
    }
    return moved;
  }
};

struct Options {
  bool centered, weight, bias;
  bool residual = false;
};

struct Solution {
  Array out, mean, scale, g_x, g_weight, g_bias, sum;
};

Solution solve(const Problem& p, const Options& options) {
  RowNorm norm{options.weight ? &p.weight : nullptr, options.bias ? &p.bias : nullptr, 1e-5,
               options.centered};
  const DType dtype = p.x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Array mean = Array::empty({p.x.shape()[0]}, dtype, p.x.device());
  Solution s{p.x.empty_like(),    mean, mean.empty_like(), p.x.empty_like(), p.weight.empty_like(),
             p.bias.empty_like(), p.x};
  if (options.residual) {
    s.sum = p.x.empty_like();
    norm.residual = &p.residual;
    norm.sum = &s.sum;
    norm.g_sum = &p.g_sum;
  }
  core::Backend& device = core::backend(p.x.device());
  device.run(core::call::NormalizeRows{norm, p.x, s.out, s.mean, s.scale});
  device.run(core::call::NormalizeRowsBack{norm, p.g, s.sum, s.mean, s.scale, s.g_x,
                                           options.weight ? &s.g_weight : nullptr,
                                           options.bias ? &s.g_bias : nullptr});
  return s;
}

void check_close(const Problem& p, const Options& options) {
  const DType dtype = p.x.dtype();
  Problem wide = p.to(kFloat64);
  if (options.residual) {  // rows are normalised as the sum is stored, rounded
    wide.x = core::map<core::kernels::Add>(p.x, p.residual).to(kFloat64);
    wide.residual = Array::zeros(p.x.shape(), kFloat64);
  }
  const Solution exact = solve(wide, options), found = solve(p.to(kGpu), options);
  INFO(name(dtype) << " " << to_string(p.x.shape()) << (options.centered ? " layer" : " rms"));
  const double sums = dtype == kFloat64 ? allowed(kFloat64) : allowed(kFloat32);
  CHECK(distance(found.scale, exact.scale) <= sums);
  // The mean of numbers of both signs loses some bits; 2^6 bounds it here.
  if (options.centered) CHECK(distance(found.mean, exact.mean) <= 64 * sums);
  if (!options.centered) CHECK(distance(found.mean, exact.mean) <= 0.0);
  CHECK(distance(found.out, exact.out) <= allowed(dtype));
  // The gradient of a row of one or two elements is the difference of equals.
  if (p.x.shape()[1] > 2) CHECK(distance(found.g_x, exact.g_x) <= 2 * allowed(dtype));
  if (options.weight) CHECK(distance(found.g_weight, exact.g_weight) <= 2 * allowed(dtype));
  if (options.bias) CHECK(distance(found.g_bias, exact.g_bias) <= 2 * allowed(dtype));
}

}  // namespace

TEST_CASE("layer norm and its gradients are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 2},
                                  {70, 10},
                                  {9, 31},
                                  {5, 33},
                                  {20, 256},
                                  {600, 768},
                                  {3, 1025},
                                  {2, 2300},
                                  {2, 4200}}) {
      check_close(Problem(rows, n, dtype), {true, true, true});
    }
  }
}

TEST_CASE("RMS norm and its gradients are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const auto& [rows, n] :
         {std::pair<int64_t, int64_t>{1, 1}, {33, 17}, {9, 256}, {3, 1000}}) {
      check_close(Problem(rows, n, dtype), {false, true, false});
    }
  }
}

TEST_CASE("normalisation needs neither weight nor bias, and takes rows of any length") {
  HERO_NEEDS_GPU();
  for (const Options& options : {Options{true, false, false}, Options{true, true, false},
                                 Options{true, false, true}, Options{false, false, false}}) {
    check_close(Problem(6, 100, kFloat32), options);
  }
  // Beyond the registers of a block: float64 holds 3072 elements a row in backward and 8192
  // forward, float32 twice as many.
  check_close(Problem(2, 8300, kFloat64), {true, true, true});
  check_close(Problem(1, 16500, kFloat32), {true, true, true});
}

TEST_CASE("a residual is added and stored before rows are normalised, and its gradient is joined") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    // One pack a lane, several, a block a row, rows beyond its registers; with and without packs.
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{70, 10},
                                  {5, 33},
                                  {9, 256},
                                  {3, 768},
                                  {3, 1025},
                                  {1, dtype == kFloat64 ? 8300 : 16500}}) {
      Problem p(rows, n, dtype);
      check_close(p, {true, true, true, true});
      check_close(p, {false, true, false, true});
      const Array sum = core::map<core::kernels::Add>(p.x, p.residual);
      for (const bool centered : {true, false}) {
        const Solution one = solve(p.to(kGpu), {centered, true, centered, true});
        CHECK(same_bits(one.sum, sum));
        // The bits of two operations, whose gradients the engine adds.
        Problem of_sum = p;
        of_sum.x = sum;
        const Solution two = solve(of_sum.to(kGpu), {centered, true, centered});
        CHECK(same_bits(one.out, two.out.to(kCpu)));
        CHECK(same_bits(one.g_weight, two.g_weight.to(kCpu)));
        CHECK(same_bits(one.g_x, core::map<core::kernels::Add>(two.g_x.to(kCpu), p.g_sum)));
      }
      // The sum may take the place of x.
      p = p.to(kGpu);
      RowNorm norm{&p.weight, &p.bias, 1e-5, true, &p.residual, &p.x};
      const Solution apart = solve(p, {true, true, true, true});
      const Array out = p.x.empty_like();
      core::backend(kGpu).run(core::call::NormalizeRows{norm, p.x, out, apart.mean, apart.scale});
      CHECK(same_bits(p.x, sum));
      CHECK(same_bits(out, apart.out.to(kCpu)));
    }
  }
}

TEST_CASE(
    "a norm of float32 in a half's dtype is rounded as by a cast, and so is its gradient read") {
  HERO_NEEDS_GPU();
  for (const DType half : {kBFloat16, kFloat16}) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{70, 10},
                                  {5, 33},
                                  {9, 256},
                                  {30, 768},
                                  {3, 3100},
                                  {2, 16500}}) {
      Problem p(rows, n, kFloat32);
      p.g = p.g.to(half).to(kFloat32);
      p = p.to(kGpu);
      const Solution wide = solve(p, {true, true, true, true});
      const Array out = Array::empty(p.x.shape(), half, kGpu), sum = p.x.empty_like();
      const Array mean = wide.mean.empty_like(), scale = wide.mean.empty_like();
      const RowNorm norm{&p.weight, &p.bias, 1e-5, true, &p.residual, &sum, &p.g_sum};
      core::Backend& device = core::backend(kGpu);
      device.run(core::call::NormalizeRows{norm, p.x, out, mean, scale});
      const Array g_x = p.x.empty_like(), g_weight = p.weight.empty_like();
      const Array g_bias = p.bias.empty_like();
      device.run(core::call::NormalizeRowsBack{norm, p.g.to(half), sum, mean, scale, g_x, &g_weight,
                                               &g_bias});
      INFO(name(half) << " " << rows << " x " << n);
      CHECK(same_bits(out, wide.out.to(kCpu).to(half)));
      CHECK(same_bits(g_x, wide.g_x.to(kCpu)));
      CHECK(same_bits(g_weight, wide.g_weight.to(kCpu)));
      CHECK(same_bits(g_bias, wide.g_bias.to(kCpu)));
    }
  }
}

TEST_CASE("many rows share their sums for weight and bias in a fixed order") {
  HERO_NEEDS_GPU();
  // More rows than there are warps in a backward pass: some take two.
  const Problem p(2120, 6, kFloat32), there = p.to(kGpu);
  const Options all{true, true, true};
  const Solution exact = solve(p.to(kFloat64), all), first = solve(there, all);
  CHECK(distance(first.g_x, exact.g_x) <= 2 * allowed(kFloat32));
  CHECK(distance(first.g_weight, exact.g_weight) <= 2 * allowed(kFloat32));
  CHECK(distance(first.g_bias, exact.g_bias) <= 2 * allowed(kFloat32));
  const Array again = first.g_weight.empty_like();
  const RowNorm norm{&there.weight, &there.bias, 1e-5, true};
  core::backend(kGpu).run(core::call::NormalizeRowsBack{norm, there.g, there.x, first.mean,
                                                        first.scale, first.g_x, &again, nullptr});
  CHECK(same_bits(again, first.g_weight.to(kCpu)));
}

TEST_CASE("a row with NaN spoils itself alone, and no rows give gradients of zero") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    Problem p(4, 200, dtype);
    core::backend(kCpu).run(core::call::Fill{p.x.select(0, 2).slice(0, 7, 8), std::nan("")});
    const Solution exact = solve(p.to(kFloat64), {true, true, true});
    const Solution found = solve(p.to(kGpu), {true, true, true});
    CHECK(distance(found.out, exact.out) <= allowed(dtype));
    CHECK(distance(found.g_x, exact.g_x) <= 2 * allowed(dtype));
  }
  const Solution none = solve(Problem(0, 5, kFloat32).to(kGpu), {true, true, true});
  CHECK(same_bits(none.g_weight, Array::zeros({5})));
  CHECK(same_bits(none.g_bias, Array::zeros({5})));
}

TEST_CASE("parameters anywhere in memory give the bits of those at its beginning") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
    for (const int64_t n : {int64_t{40}, int64_t{768}}) {
      Problem p = Problem(5, n, dtype).to(kGpu);
      const Solution expected = solve(p, {true, true, true, true});
      for (Array* parameter : {&p.weight, &p.bias}) {  // as a shard of many parameters lies
        const Array longer = Array::empty({n + 1}, dtype, kGpu);
        const Array moved = longer.slice(0, 1, n + 1);
        core::backend(kGpu).run(core::call::Copy{*parameter, moved});
        *parameter = moved;
      }
      const Solution found = solve(p, {true, true, true, true});
      INFO(name(dtype) << " " << n);
      CHECK(test::same(found.out.to(kCpu), expected.out.to(kCpu)));
      CHECK(test::same(found.g_x.to(kCpu), expected.g_x.to(kCpu)));
      CHECK(test::same(found.g_weight.to(kCpu), expected.g_weight.to(kCpu)));
      CHECK(test::same(found.g_bias.to(kCpu), expected.g_bias.to(kCpu)));
    }
  }
}
