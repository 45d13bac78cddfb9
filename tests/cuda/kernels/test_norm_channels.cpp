// Norms of channels on the GPU beside the CPU's in float64.
#include "cuda/close.h"

#include <hero/core/device/backend.h>

using namespace hero;
using namespace hero_test;
using core::ChannelNorm;
using test::noise;

namespace {

struct Solution {
  Array out, mean, variance, g_x, g_weight, g_bias;
};

Solution solve(const Array& x, const Array& g, const Array& weight, const Array& bias,
               const ChannelNorm& options) {
  ChannelNorm norm = options;
  norm.weight = &weight;
  norm.bias = &bias;
  norm.eps = 1e-5;
  Solution s{x.empty_like(), weight.empty_like(), weight.empty_like(),
             x.empty_like(), weight.empty_like(), weight.empty_like()};
  core::Backend& device = core::backend(x.device());
  if (norm.fixed) {
    device.run(core::call::Copy{bias, s.mean});
    device.run(core::call::Fill{s.variance, 2.0});
  }
  device.run(core::call::NormalizeChannels{norm, x, s.out, s.mean, s.variance});
  device.run(core::call::NormalizeChannelsBack{norm, g, x, s.mean, s.variance, &s.g_x, &s.g_weight,
                                               &s.g_bias});
  return s;
}

const Shape kShapes[] = {{5, 3, 1},    {900, 70, 1}, {40, 130, 5},  {3, 2, 31},   {3, 2, 32},
                         {4, 600, 49}, {6, 3, 196},  {2, 17, 1030}, {1, 1, 2100}, {130, 1, 90}};

}  // namespace

TEST_CASE("norms of channels and their gradients are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat64, kFloat32}) {
    for (const Shape& shape : kShapes) {
      for (const bool fixed : {false, true}) {
        INFO(name(dtype) << " " << to_string(shape) << (fixed ? " fixed" : ""));
        const Array x = noise(shape, dtype), g = noise(shape, dtype, 2);
        const Array weight = noise({shape[1]}, dtype, 3), bias = noise({shape[1]}, dtype, 4);
        const auto wide = [](const Array& a) { return a.to(kFloat64); };
        const Solution exact = solve(wide(x), wide(g), wide(weight), wide(bias), {.fixed = fixed});
        const Solution found =
            solve(x.to(kGpu), g.to(kGpu), weight.to(kGpu), bias.to(kGpu), {.fixed = fixed});
        // A mean of numbers of both signs, and the sums of a gradient's, lose some bits.
        const double sums = 64 * allowed(dtype);
        CHECK(distance(found.mean, exact.mean) <= sums);
        CHECK(distance(found.variance, exact.variance) <= allowed(dtype));
        CHECK(distance(found.out, exact.out) <= allowed(dtype));
        CHECK(distance(found.g_x, exact.g_x) <= 2 * allowed(dtype));
        CHECK(distance(found.g_weight, exact.g_weight) <= sums);
        CHECK(distance(found.g_bias, exact.g_bias) <= sums);
      }
    }
  }
}

TEST_CASE("gradients of channels that nobody wants are not made, and no samples give zeros") {
  HERO_NEEDS_GPU();
  const Shape shape{6, 5, 40};
  const Array x = noise(shape).to(kGpu), g = noise(shape, kFloat32, 2).to(kGpu);
  const Array weight = noise({5}, kFloat32, 3).to(kGpu), bias = noise({5}, kFloat32, 4).to(kGpu);
  core::Backend& device = core::backend(kGpu);
  for (const bool fixed : {false, true}) {
    const Solution all = solve(x, g, weight, bias, {.fixed = fixed});
    const ChannelNorm norm{.weight = &weight, .bias = &bias, .eps = 1e-5, .fixed = fixed};
    const Array g_x = x.empty_like(), g_bias = bias.empty_like();
    device.run(core::call::NormalizeChannelsBack{norm, g, x, all.mean, all.variance, &g_x, nullptr,
                                                 nullptr});
    device.run(core::call::NormalizeChannelsBack{norm, g, x, all.mean, all.variance, nullptr,
                                                 nullptr, &g_bias});
    CHECK(test::same(g_x.to(kCpu), all.g_x.to(kCpu)));
    CHECK(test::same(g_bias.to(kCpu), all.g_bias.to(kCpu)));
  }
  const Array none = Array::empty({0, 5, 40}, kFloat32, kGpu);
  const Solution zeros = solve(none, none, weight, bias, {});
  CHECK(same_bits(zeros.g_weight, Array::zeros({5})));
  CHECK(same_bits(zeros.g_bias, Array::zeros({5})));
}
