// Convolutions of bfloat16 and their gradients by the machine's products, bit for bit beside sums
// in scalars.
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "core/products/half_matrix.h"
#include "core/products/native_half_sum.h"
#include "core/products/tiles.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core::cpu;
using namespace hero_test;

using Halves = std::vector<BFloat16>;

struct Sizes {
  int64_t images, channels, outputs;
  int64_t size[3], kernel[3];
  int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  int64_t at_once = 100;
  int64_t groups = 1;
};

const std::vector<Sizes> kSizes = {
    {2, 3, 5, {1, 9, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {3, 8, 33, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2},
    {1, 4, 3, {1, 11, 57}, {1, 5, 3}, {1, 1, 1}, {0, 2, 0}},
    {2, 3, 40, {1, 13, 20}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}},
    {1, 3, 4, {1, 17, 23}, {1, 2, 3}, {1, 1, 3}, {0, 0, 4}, {1, 3, 2}},
    {2, 40, 7, {1, 6, 1}, {1, 3, 1}, {1, 1, 1}, {0, 1, 0}},
    {3, 20, 18, {1, 5, 6}, {1, 1, 1}},                          // one tap
    {2, 7, 9, {1, 4, 33}, {1, 1, 1}, {1, 2, 2}},                // and strided
    {1, 60, 20, {1, 4, 4}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},    // two chains
    {1, 231, 136, {1, 3, 2}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},  // short blocks, whose sums wait
    {2, 3, 4, {4, 5, 6}, {2, 3, 3}, {2, 1, 1}, {1, 1, 0}},      // volumes
    {30, 2, 3, {1, 9, 9}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 100},  // many places
    // two images of odd sizes, of which a phase has no taps
    {2, 3, 4, {1, 9, 11}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0}, {1, 1, 1}, 1},
    // groups, and groups of one channel and one output
    {2, 6, 9, {1, 9, 11}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1, 3},
    {1, 128, 6, {1, 4, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 2},
    {2, 5, 5, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 5},
    {1, 17, 17, {1, 41, 31}, {1, 5, 4}, {1, 1, 1}, {0, 2, 2}, {1, 2, 1}, 1, 17},
    {2, 18, 18, {1, 15, 15}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1, 18},
    {2, 37, 37, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 37},
    {1, 20, 20, {1, 3, 4}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 20},  // 12 places
    {1, 3, 3, {1, 30, 29}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}, {1, 1, 1}, 1, 3},   // parts of lines
    {2, 5, 5, {1, 9, 12}, {1, 1, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, 1, 5},    // no taps
    {1, 3, 3, {1, 13, 20}, {1, 3, 3}, {1, 2, 3}, {0, 1, 2}, {1, 1, 1}, 1, 3},   // by threes
    {2, 32, 40, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 2},   // many channels
    {2, 48, 10, {1, 9, 27}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {1, 1, 2}, 1, 2},
    {2, 18, 34, {1, 31, 61}, {1, 3, 1}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, 1, 2},  // and places
    {2, 28, 28, {1, 9, 17}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 7},  // of several groups
    {2, 24, 15, {1, 27, 30}, {1, 3, 1}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, 1, 3},
    {1, 2, 2, {1, 110, 103}, {1, 2, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 2},  // large planes
};

// A convolution and numbers for it; y is what weights and inputs get their gradient from.
struct Problem {
  Convolution of{};
  int64_t groups, rows, places;
  Halves x, w, y;
  std::vector<float> bias;

  Problem(const Sizes& s, std::mt19937& random) : groups(s.groups) {
    of.groups = s.groups;
    of.images = s.images;
    of.channels = s.channels;
    of.outputs = s.outputs;
    of.at_once = s.at_once;
    places = 1;
    for (int i = 0; i < 3; ++i) {
      of.size[i] = s.size[i];
      of.kernel[i] = s.kernel[i];
      of.stride[i] = s.stride[i];
      of.padding[i] = s.padding[i];
      of.dilation[i] = s.dilation[i];
      const int64_t reach = s.dilation[i] * (s.kernel[i] - 1) + 1;
      of.places[i] = (s.size[i] + 2 * s.padding[i] - reach) / s.stride[i] + 1;
      places *= of.places[i];
    }
    rows = of.channels / groups * of.taps();
    const int64_t volume = s.size[0] * s.size[1] * s.size[2];
    const auto fill = [&](Halves& to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to.push_back(uniform(random)());
    };
    fill(x, of.images * of.channels * volume);
    fill(w, of.outputs * rows);
    fill(y, of.images * of.outputs * places);
    for (int64_t o = 0; o < of.outputs; ++o) {
      bias.push_back(std::uniform_real_distribution<float>(-1.0f, 1.0f)(random));
    }
    of.x = x.data();
    int64_t step = 1;
    for (int i = 4; i >= 2; --i) {
      of.x_strides[i] = step;
      step *= s.size[i - 2];
    }
    of.x_strides[1] = volume;
    of.x_strides[0] = volume * of.channels;
  }

  int64_t group_outputs() const { return of.outputs / groups; }

  // Row `row` of the windows of an image at a place, for output o: tap of the depth, channel of the
  // group, other taps.
  BFloat16 window(int64_t image, int64_t o, int64_t row, int64_t place) const {
    const int64_t plane = of.kernel[1] * of.kernel[2];
    const int64_t tap[3] = {row / (of.channels / groups * plane), row / of.kernel[2] % of.kernel[1],
                            row % of.kernel[2]};
    const int64_t at[3] = {place / (of.places[1] * of.places[2]),
                           place / of.places[2] % of.places[1], place % of.places[2]};
    const int64_t channels = of.channels / groups;
    const int64_t channel = o / group_outputs() * channels + row / plane % channels;
    int64_t offset = image * of.x_strides[0] + channel * of.x_strides[1];
    for (int i = 0; i < 3; ++i) {
      const int64_t position = at[i] * of.stride[i] + tap[i] * of.dilation[i] - of.padding[i];
      if (position < 0 || position >= of.size[i]) return BFloat16(0.0f);
      offset += position * of.x_strides[2 + i];
    }
    return x[static_cast<size_t>(offset)];
  }
};

// A kernel, and its sums in scalars.
struct ByProcessor {
  static const bf16::TileKernel& kernel() { return bf16::native_kernel(); }
  template <class A, class B>
  static float sum(int64_t k, const A& a, const B& b) {
    return native_half_sum(k, a, b);
  }
};
struct ByTiles {
  static const bf16::TileKernel& kernel() { return bf16::amx_kernel(); }
  template <class A, class B>
  static float sum(int64_t k, const A& a, const B& b) {
    return tile_half_sum(k, a, b);
  }
};

// A sum of a convolution with so many rows of results in a group, which has few of them by the
// instruction at level amx, too.
template <class By, class A, class B>
float group_sum(const Problem& p, int64_t rows, int64_t k, const A& a, const B& b) {
  const bool is_dot = bf16::kHasGroups && p.groups > 1 && rows < 16;
  return is_dot ? dot_half_sum(k, a, b) : By::sum(k, a, b);
}

void compare(const char* what, const Problem& p, const Halves& found, const Halves& expected) {
  REQUIRE(found.size() == expected.size());
  int64_t different = 0;
  for (size_t i = 0; i < found.size(); ++i) different += found[i].bits != expected[i].bits;
  CAPTURE(what, p.of.images, p.of.channels, p.of.outputs, p.rows, p.places, num_threads());
  REQUIRE(different == 0);
}

template <class By>
Halves expected_output(const Problem& p, bool is_relu) {
  Halves expected;
  for (int64_t n = 0; n < p.of.images; ++n) {
    for (int64_t o = 0; o < p.of.outputs; ++o) {
      for (int64_t place = 0; place < p.places; ++place) {
        const float sum = group_sum<By>(
            p, p.group_outputs(), p.rows,
            [&](int64_t q) { return p.w[static_cast<size_t>(o * p.rows + q)]; },
            [&](int64_t q) { return p.window(n, o, q, place); });
        const float z = sum + p.bias[static_cast<size_t>(o)];
        expected.push_back(BFloat16(is_relu && z < 0.0f ? 0.0f : z));
      }
    }
  }
  return expected;
}

// The gradient of x of a convolution in planes.
template <class By>
Halves expected_input_gradient(const Problem& p) {
  const Convolution& of = p.of;
  Halves expected;
  const int64_t area = of.size[1] * of.size[2];
  for (int64_t at = 0; at < of.images * of.channels * area; ++at) {
    const int64_t n = at / (of.channels * area), c = at / area % of.channels;
    const int64_t i = at / of.size[2] % of.size[1], j = at % of.size[2];
    // where a window's tap lies there, times the stride
    const auto down = [&](int64_t tap) {
      return i + of.padding[1] - tap / of.kernel[2] * of.dilation[1];
    };
    const auto right = [&](int64_t tap) {
      return j + of.padding[2] - tap % of.kernel[2] * of.dilation[2];
    };
    std::vector<int64_t> taps;
    for (int64_t tap = 0; tap < of.taps(); ++tap) {
      if (down(tap) % of.stride[1] == 0 && right(tap) % of.stride[2] == 0) taps.push_back(tap);
    }
    const int64_t outputs = p.group_outputs(), group = c / (of.channels / p.groups);
    const auto output = [&](int64_t q) { return group * outputs + q % outputs; };
    const auto weight = [&](int64_t q) {
      const int64_t tap = taps[static_cast<size_t>(q / outputs)];
      const int64_t own = c % (of.channels / p.groups);
      return p.w[static_cast<size_t>(output(q) * p.rows + own * of.taps() + tap)];
    };
    const auto gradient = [&](int64_t q) {
      const int64_t tap = taps[static_cast<size_t>(q / outputs)];
      const int64_t a = down(tap) / of.stride[1], b = right(tap) / of.stride[2];
      if (down(tap) < 0 || right(tap) < 0 || a >= of.places[1] || b >= of.places[2]) {
        return BFloat16(0.0f);
      }
      const int64_t from = (n * of.outputs + output(q)) * p.places + a * of.places[2] + b;
      return p.y[static_cast<size_t>(from)];
    };
    const auto k = static_cast<int64_t>(taps.size()) * outputs;
    expected.push_back(
        BFloat16(k == 0 ? 0.0f : group_sum<By>(p, of.channels / p.groups, k, weight, gradient)));
  }
  return expected;
}

// What convolve_back_bf16() gets.
Convolution back_of(const Problem& p) {
  Convolution back = p.of;
  back.channels = p.of.outputs;
  back.outputs = p.of.channels;
  back.x = p.y.data();
  for (int i = 0; i < 3; ++i) {
    back.size[i] = p.of.places[i];
    back.places[i] = p.of.size[i];
  }
  back.x_strides[4] = 1;
  back.x_strides[3] = p.of.places[2];
  back.x_strides[2] = back.x_strides[1] = p.places;
  back.x_strides[0] = p.of.outputs * p.places;
  return back;
}

// Products of at_once images each, an odd number of places beside a zero, added up in order.
template <class By>
Halves expected_weights(const Problem& p) {
  const int64_t even = (p.places + 1) / 2 * 2;
  Halves expected;
  for (int64_t at = 0; at < p.of.outputs * p.rows; ++at) {
    const int64_t o = at / p.rows, row = at % p.rows;
    float total = 0.0f;
    for (int64_t first = 0; first < p.of.images; first += p.of.at_once) {
      const int64_t count = std::min(p.of.at_once, p.of.images - first);
      const auto gradient = [&](int64_t q) {
        const int64_t n = first + q / even, place = q % even;
        if (place == p.places) return BFloat16(0.0f);
        return p.y[static_cast<size_t>((n * p.of.outputs + o) * p.places + place)];
      };
      const auto window = [&](int64_t q) {
        if (q % even == p.places) return BFloat16(0.0f);
        return p.window(first + q / even, o, row, q % even);
      };
      const float sum = group_sum<By>(p, 1, count * even, gradient, window);
      total = first == 0 ? sum : total + sum;
    }
    expected.push_back(BFloat16(total));
  }
  return expected;
}

// Those of planes, where groups have kernels.
bool has_group_weights(const Problem& p) { return bf16::kHasGroups && p.of.size[0] == 1; }

template <class By>
void check_all(const Sizes& sizes, std::mt19937& random, float scale = 1.0f) {
  Problem p(sizes, random);
  for (Halves* const list : {&p.x, &p.w, &p.y}) {
    for (BFloat16& value : *list) value = BFloat16(static_cast<float>(value) * scale);
  }
  const Halves output = expected_output<By>(p, false), relu = expected_output<By>(p, true);
  const Halves weights = expected_weights<By>(p);
  const bool has_back = sizes.size[0] == 1;  // in planes
  const bool has_weights = p.groups == 1 || has_group_weights(p);
  const Halves input = has_back ? expected_input_gradient<By>(p) : Halves();
  for (const int threads : {1, 2, 3}) {
    const ThreadLimit limit(threads);
    Halves y(p.y.size()), w(p.w.size()), x(p.x.size());
    kernels().convolve_bf16(By::kernel(), p.of, p.w.data(), {p.bias.data(), false}, y.data());
    compare("output", p, y, output);
    kernels().convolve_bf16(By::kernel(), p.of, p.w.data(), {p.bias.data(), true}, y.data());
    compare("relu", p, y, relu);
    if (has_weights) {
      kernels().weights_bf16(By::kernel(), p.of, p.y.data(), w.data());
      compare("weights", p, w, weights);
    }
    if (!has_back) continue;
    REQUIRE(kernels().convolve_back_bf16(By::kernel(), back_of(p), p.w.data(), {}, x.data()));
    compare("input", p, x, input);
  }
}

TEST_CASE("a native convolution and its gradients have the bits of their definitions",
          "[core][gemm][half][threads]") {
  if (!native_half_products()) {
    SUCCEED("skipped: this processor has no products of bfloat16, or HERO_CPU leaves them out");
    return;
  }
  std::mt19937 random(1);
  for (const Sizes& sizes : kSizes) check_all<ByProcessor>(sizes, random);
  // sums of subnormal products, which groups compute without the instruction
  for (const Sizes& sizes : kSizes) {
    if (sizes.groups > 1) check_all<ByProcessor>(sizes, random, 0x1p-62f);
  }
}

#if defined(__x86_64__) && defined(__linux__)
TEST_CASE("a convolution by AMX and its gradients have the bits of their definitions",
          "[core][gemm][half]") {
  const Tiles tiles;
  if (!tiles) return;
  std::mt19937 random(2);
  for (const size_t i : {0, 1, 3, 8, 12, 13, 23}) check_all<ByTiles>(kSizes[i], random);
  // sums of subnormal products
  for (const size_t i : {0, 13, 14, 15}) check_all<ByTiles>(kSizes[i], random, 0x1p-62f);
  REQUIRE(tiles.were_used());
}
#endif

TEST_CASE("a native gradient of a convolution's input refuses weights that are not finite",
          "[core][gemm][half]") {
  if (!native_half_products()) return;
  std::mt19937 random(3);
  Problem p(kSizes[0], random);
  Halves x(p.x.size());
  for (const float bad : {HUGE_VALF, -HUGE_VALF, NAN}) {
    p.w[17] = BFloat16(bad);
    REQUIRE_FALSE(
        kernels().convolve_back_bf16(bf16::native_kernel(), back_of(p), p.w.data(), {}, x.data()));
  }
}

}  // namespace
