// Products with matrices in blocks: the sums that core/quantized.h defines, bit for bit, for every
// type, on every level, for any number of rows and threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/kernels/half.h>
#include <hero/core/quantized.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using Catch::Matchers::ContainsSubstring;
using hero::test::noise;

constexpr const char* kBlockTypes[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0",
                                       "Q5_1", "Q4_K", "Q5_K", "Q6_K"};

// Any bytes, with scales that are finite numbers of both signs.
QuantizedMatrix any_matrix(const char* name, int64_t rows, int64_t columns, uint32_t seed = 1) {
  const gguf::BlockType& type = *gguf::block_type(name);
  const int64_t in_row = columns / type.elements;
  Array blocks = Array::empty({rows, in_row * type.bytes}, kUInt8);
  uint32_t state = seed;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return state >> 24;
  };
  for (int64_t i = 0; i < blocks.numel(); ++i) blocks.data<uint8_t>()[i] = uint8_t(next());
  const bool last = std::string(name) == "Q6_K";
  for (int64_t b = 0; b < rows * in_row; ++b) {
    for (const int64_t at : {last ? int64_t{208} : 0, last ? int64_t{208} : 2}) {
      const bool scale = at != 2 || std::string_view(name).ends_with("_1") ||
                         std::string_view(name).ends_with("_K");
      const Float16 value((static_cast<float>(next()) - 127.5f) / 512.0f);
      if (scale) std::memcpy(blocks.bytes() + b * type.bytes + at, &value, sizeof(value));
    }
  }
  return {name, blocks};
}

// The definition in core/quantized.h.
float defined_number(const float* x, const float* w, int64_t k) {
  std::array<float, 16> sums{};
  for (int64_t p = 0; p < k; ++p) {
    float& sum = sums[static_cast<size_t>(p % 16)];
#if defined(__FMA__) || defined(__aarch64__)
    sum = std::fma(x[p], w[p], sum);
#else
    sum = x[p] * w[p] + sum;
#endif
  }
  for (size_t apart = 8; apart > 0; apart /= 2) {
    for (size_t l = 0; l < apart; ++l) sums[l] += sums[l + apart];
  }
  return sums[0];
}

Array defined_product(const Array& x, const QuantizedMatrix& w) {
  const Array values = w.values();
  Array y = Array::empty({x.size(0), w.rows()});
  for (int64_t i = 0; i < y.size(0); ++i) {
    for (int64_t j = 0; j < y.size(1); ++j) {
      y.data<float>()[i * y.size(1) + j] = defined_number(
          x.data<float>() + i * w.columns(), values.data<float>() + j * w.columns(), w.columns());
    }
  }
  return y;
}

bool same_bits(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.nbytes())) == 0;
}

}  // namespace

TEST_CASE("products with matrices in blocks have the sums that are defined", "[core][quantized]") {
  for (const char* name : kBlockTypes) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 256}, {7, 512}, {70, 1280}}) {
      const QuantizedMatrix w = any_matrix(name, n, k);
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 9, 33}) {
        INFO(name << " " << m << " x [" << n << ", " << k << "]");
        const Array x = noise({m, k}, kFloat32, 3);
        const Array expected = defined_product(x, w);
        REQUIRE(same_bits(quantized_product(x, w), expected));
        for (const cpu::Level level : cpu::kLevels) {
          if (level > cpu::machine_level()) continue;
          const Array y = Array::full({m, n}, Scalar(-1.0));
          cpu::kernels_of(level).backend.run(
              call::QuantizedProduct{*gguf::block_type(name), x, w.blocks(), y});
          REQUIRE(same_bits(y, expected));
        }
      }
    }
  }
}

TEST_CASE("products with blocks do not depend on threads or on other rows", "[core][quantized]") {
  for (const char* name : kBlockTypes) {
    INFO(name);
    const QuantizedMatrix w = any_matrix(name, 333, 768);
    const Array x = noise({40, 768}, kFloat32, 5);
    const Array all = quantized_product(x, w);
    for (const int threads : {1, 3}) {
      const ThreadLimit limit(threads);
      CHECK(same_bits(quantized_product(x, w), all));
    }
    for (const int64_t row : {0, 17, 39}) {
      CHECK(same_bits(quantized_product(x.slice(0, row, row + 1), w),
                      all.slice(0, row, row + 1).contiguous()));
    }
  }
}

TEST_CASE("halves and shapes of products with blocks", "[core][quantized]") {
  const QuantizedMatrix w = any_matrix("Q4_1", 12, 64);
  const Array x = noise({2, 3, 64}, kFloat32, 7);
  const Array y = quantized_product(x, w);
  CHECK(y.shape() == Shape{2, 3, 12});
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Array half = x.to(dtype);
    CHECK(same_bits(quantized_product(half, w), quantized_product(half.to(kFloat32), w).to(dtype)));
  }
  CHECK(same_bits(quantized_product(noise({64}, kFloat32, 8), w).unsqueeze(0),
                  quantized_product(noise({1, 64}, kFloat32, 8), w)));
  const Array turned = noise({64, 5}, kFloat32, 9).t();
  CHECK(same_bits(quantized_product(turned, w), quantized_product(turned.contiguous(), w)));
  CHECK(quantized_product(Array::empty({0, 64}), w).shape() == Shape{0, 12});
  const QuantizedMatrix none("Q4_1", Array::empty({0, 40}, kUInt8));
  CHECK(quantized_product(x, none).shape() == Shape{2, 3, 0});
}

TEST_CASE("numbers that are quantised come back as the nearest that a block has",
          "[core][quantized]") {
  // Worked out by hand: of 127, 1, -0.4 the scale is 1; of -8, 7, 0.6 it is 1; of 0 to 15 it is 1.
  const auto row = [](std::vector<float> first) {
    first.resize(32);
    return Array::from(first, {1, 32});
  };
  const auto back = [](const Array& x, const char* type) {
    return QuantizedMatrix::from(x, type).values().to_vector<float>();
  };
  std::vector<float> y = back(row({127.0f, 1.0f, -0.4f, -2.5f, -126.6f}), "Q8_0");
  y.resize(6);
  CHECK(y == std::vector<float>{127.0f, 1.0f, 0.0f, -2.0f, -127.0f, 0.0f});
  y = back(row({-8.0f, 7.9f, 0.6f, -3.4f}), "Q4_0");
  y.resize(5);
  CHECK(y == std::vector<float>{-8.0f, 7.0f, 1.0f, -3.0f, 0.0f});
  y = back(row({8.0f, 7.4f, -7.9f, 1.0f}), "Q4_0");  // the largest has -8, so the scale is -1
  y.resize(5);
  CHECK(y == std::vector<float>{8.0f, 7.0f, -7.0f, 1.0f, 0.0f});
  y = back(row({15.0f, 0.4f, 7.6f, 14.5f}), "Q4_1");
  y.resize(5);
  CHECK(y == std::vector<float>{15.0f, 0.0f, 8.0f, 14.0f, 0.0f});

  for (const char* type : {"Q8_0", "Q4_0", "Q4_1"}) {
    INFO(type);
    CHECK(back(row({}), type) == std::vector<float>(32, 0.0f));
    const Array x = noise({9, 96}, kFloat32, 11);
    const QuantizedMatrix w = QuantizedMatrix::from(x, type);
    CHECK(w.rows() == 9);
    CHECK(w.columns() == 96);
    const Array values = w.values();
    for (int64_t b = 0; b < 27; ++b) {
      const float* from = x.data<float>() + b * 32;
      const auto [low, high] = std::minmax_element(from, from + 32);
      const float most = std::max(std::fabs(*low), std::fabs(*high));
      const bool four = std::string(type) == "Q4_1", eight = std::string(type) == "Q8_0";
      const float step = eight ? most / 127.0f : four ? (*high - *low) / 15.0f : most / 8.0f;
      for (int64_t i = 0; i < 32; ++i) {
        const float off = std::fabs(values.data<float>()[b * 32 + i] - from[i]);
        // half a step; the number that is opposite to Q4_0's largest, a whole one
        CHECK(off <= step * (std::string(type) == "Q4_0" ? 1.01f : 0.51f) + 2e-3f * most);
      }
    }
    const std::vector<int64_t> some = {8, 0, 8};
    const Array picked = w.values_of(some);
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(same_bits(picked.select(0, i).contiguous(),
                      values.select(0, some[static_cast<size_t>(i)]).contiguous()));
    }
    CHECK(same_bits(w.values(kBFloat16), values.to(kBFloat16)));
  }
}

TEST_CASE("what is no matrix in blocks is refused", "[core][quantized]") {
  const auto message = [](const char* text) { return ContainsSubstring(text); };
  const Array x = noise({2, 64}, kFloat32, 1);
  CHECK_THROWS_WITH(QuantizedMatrix::from(x, "Q3"), message("'Q3' is no type of blocks"));
  CHECK_THROWS_WITH(QuantizedMatrix::from(x, "F16"), message("'F16' is no type of blocks"));
  CHECK_THROWS_WITH(QuantizedMatrix::from(x, "Q4_K"), message("blocks of Q4_K come from files"));
  CHECK_THROWS_WITH(QuantizedMatrix::from(noise({2, 40}, kFloat32, 1), "Q8_0"),
                    message("rows of 40 numbers are no whole blocks of 32"));
  CHECK_THROWS_WITH(QuantizedMatrix::from(noise({64}, kFloat32, 1), "Q8_0"),
                    message("a floating matrix"));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e30f}) {
    const Array y = x.clone();
    y.data<float>()[70] = bad;
    for (const char* type : {"Q8_0", "Q4_0", "Q4_1"}) {
      CHECK_THROWS_WITH(QuantizedMatrix::from(y, type), message("numbers too large"));
    }
  }
  CHECK_THROWS_WITH(QuantizedMatrix("Q8_0", Array::empty({2, 33}, kUInt8)),
                    message("a multiple of 34"));
  CHECK_THROWS_WITH(QuantizedMatrix("Q8_0", Array::empty({2, 34})), message("not float32"));
  const QuantizedMatrix w = QuantizedMatrix::from(x, "Q8_0");
  CHECK_THROWS_WITH(quantized_product(noise({2, 32}, kFloat32, 1), w),
                    message("expected [.., 64]"));
  CHECK_THROWS_WITH(quantized_product(x.to(kFloat64), w), message("x is float64"));
  CHECK_THROWS_WITH(quantized_product(x.to(kMeta), w), message("on the cpu alone"));
  CHECK_THROWS_WITH(w.values_of(std::vector<int64_t>{2}), message("row 2 is outside [0, 2)"));
  CHECK_THROWS_WITH(w.values(kInt64), message("floating, not int64"));
}
