// Products with matrices in blocks. A few rows are multiplied with numbers that are decoded in
// registers; for more rows, some rows of the matrix at a time are first decoded to float32 in a
// buffer. Both add up in the same order.
#include <algorithm>
#include <array>
#include <utility>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/quantized_units.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace quantized {
namespace {

// y [m, n] = x [m, k] w^T, all row-major without gaps.
struct QuantizedProduct {
  const gguf::BlockType& type;
  int64_t m, n, k;
  const float* x;
  const std::byte* w;
  float* y;
};

// Rows of x that share what is decoded in registers.
constexpr int kRowsAtOnce = 4;
// Rows of w that are multiplied side by side, so that the sums wait for each other less: as many as
// there are registers for.
constexpr int columns_at_once(int rows) {
#if defined(__AVX512F__) || defined(__aarch64__)
  return rows <= 4 ? 4 : 1;
#else
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
#endif
}
constexpr int64_t kWorkOfThread = 1 << 16;  // multiply-adds, at least
constexpr int64_t kPanelBytes = 1 << 18;    // of decoded rows: a part of the second-level cache
constexpr int64_t kMostPanelRows = 32;

// The sixteen sums of a number of the result become one: those that are 8, 4, 2 and 1 apart.
float total(const Sixteen& sums) {
  std::array<float, 16> x{};
  store_sixteen(x.data(), sums);
  for (size_t apart = 8; apart > 0; apart /= 2) {
    for (size_t l = 0; l < apart; ++l) x[l] += x[l + apart];
  }
  return x[0];
}

#if defined(HERO_QUANTIZED_UNITS)
// Those that are 8 and 4 apart alone.
[[gnu::always_inline]] inline __m128 four_of(const Sixteen& sums) {
#if defined(__AVX512F__)
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sums.parts[0]),
                                     _mm512_extractf32x8_ps(sums.parts[0], 1));
#else
  const __m256 eight = _mm256_add_ps(sums.parts[0], sums.parts[1]);
#endif
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
#endif

// Writes the totals of neighbouring numbers.
template <int columns>
[[gnu::always_inline]] inline void store_totals(const Sixteen (&sums)[columns], float* y) {
#if defined(HERO_QUANTIZED_UNITS)
  if constexpr (columns == 4) {
    const __m128 a = four_of(sums[0]), b = four_of(sums[1]);
    const __m128 c = four_of(sums[2]), d = four_of(sums[3]);
    const __m128 ab = _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
    const __m128 cd = _mm_add_ps(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
    _mm_storeu_ps(y, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
    return;
  }
#endif
  for (int c = 0; c < columns; ++c) y[c] = total(sums[c]);
}

[[gnu::always_inline]] inline void add_products(Sixteen& sums, const float* x, const Sixteen& w) {
  for (int p = 0; p < Sixteen::kParts; ++p) {
    sums.parts[p] = micro::multiply_add<float>(micro::load<float>(x + p * micro::kLanes<float>),
                                               w.parts[p], sums.parts[p]);
  }
}

// What a tile reads and writes: rows of x with k numbers, rows of w, and y with a row's step.
struct Place {
  int64_t k;
  const float* x;
  const std::byte* w;
  int64_t w_step;
  float* y;
  int64_t y_step;
};

template <class Code, int rows, int columns>
void multiply_tile(const Place& at) {
  Sixteen sums[rows][columns] = {};
  const std::byte* ahead = at.w + columns * at.w_step;
  for (int64_t u = 0; u < at.k / kUnit; ++u) {
    Unit w[columns];
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) w[c] = Code::unit(at.w + c * at.w_step, u);
    const float* x = at.x + u * kUnit;
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) add_products(sums[r][c], x + r * at.k, w[c].first);
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) add_products(sums[r][c], x + r * at.k + 16, w[c].second);
    }
    if constexpr (rows == 1) {
      const std::byte* line = ahead + u * (columns * at.w_step) / (at.k / kUnit);
      __builtin_prefetch(line, 0, 2);
      __builtin_prefetch(line + 64, 0, 2);
    }
  }
  for (int r = 0; r < rows; ++r) store_totals(sums[r], at.y + r * at.y_step);
}

// `columns` rows of w.
template <class Code, int rows>
void multiply_rows(Place at, int64_t columns) {
  constexpr int kColumns = columns_at_once(rows);
  for (; columns >= kColumns; columns -= kColumns) {
    multiply_tile<Code, rows, kColumns>(at);
    at.w += kColumns * at.w_step;
    at.y += kColumns;
  }
  for (; columns > 0; --columns, at.w += at.w_step, ++at.y) multiply_tile<Code, rows, 1>(at);
}

template <class Code>
void multiply_any_rows(Place at, int64_t rows, int64_t columns) {
  using Multiply = void (*)(Place, int64_t);
  constexpr Multiply kMultiply[kRowsAtOnce] = {multiply_rows<Code, 1>, multiply_rows<Code, 2>,
                                               multiply_rows<Code, 3>, multiply_rows<Code, 4>};
  for (; rows > 0; rows -= kRowsAtOnce) {
    kMultiply[std::min<int64_t>(rows, kRowsAtOnce) - 1](at, columns);
    at.x += kRowsAtOnce * at.k;
    at.y += kRowsAtOnce * at.y_step;
  }
}

// Rows of w from `first` on, decoded by `decode(row, out)`, times all rows of x.
template <class Decode>
void multiply_panels(const QuantizedProduct& p, int64_t row_bytes, const Decode& decode) {
  const int64_t fit = kPanelBytes / (4 * p.k) / 4 * 4;
  const int64_t most = std::clamp<int64_t>(fit, 4, kMostPanelRows);
  const int64_t panels = (p.n + most - 1) / most;
  const int64_t grain = std::max<int64_t>(1, kWorkOfThread / (most * p.k * p.m));
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    const Workspace<float> panel(most * p.k);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * most, count = std::min(most, p.n - first);
      for (int64_t j = 0; j < count; ++j) {
        decode(p.w + (first + j) * row_bytes, panel.data() + j * p.k);
      }
      const auto* rows = reinterpret_cast<const std::byte*>(panel.data());
      multiply_any_rows<Plain>({p.k, p.x, rows, 4 * p.k, p.y + first, p.n}, p.m, count);
    }
  });
}

#if defined(HERO_QUANTIZED_UNITS)
template <class Code>
void multiply(const QuantizedProduct& p) {
  const int64_t row_bytes = Code::row_bytes(p.k);
  if (p.m > kRowsAtOnce) {
    multiply_panels(p, row_bytes, [&](const std::byte* row, float* out) {
      for (int64_t u = 0; u < p.k / kUnit; ++u, out += kUnit) {
        const Unit unit = Code::unit(row, u);
        store_sixteen(out, unit.first);
        store_sixteen(out + 16, unit.second);
      }
    });
    return;
  }
  constexpr int64_t kGroup = 4;  // a multiple of what is multiplied side by side
  const int64_t groups = (p.n + kGroup - 1) / kGroup;
  const int64_t grain = std::max<int64_t>(1, kWorkOfThread / (kGroup * p.k * p.m));
  parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kGroup, last = std::min(end * kGroup, p.n);
    multiply_any_rows<Code>({p.k, p.x, p.w + first * row_bytes, row_bytes, p.y + first, p.n}, p.m,
                            last - first);
  });
}
#endif

}  // namespace
}  // namespace quantized

void CpuBackend::run(const call::QuantizedProduct& call) {
  using namespace quantized;
  const int64_t k = call.x.size(-1), n = call.w.size(0);
  const quantized::QuantizedProduct p{
      call.type,      call.y.numel() / n,  n, k, call.x.data<float>(),
      call.w.bytes(), call.y.data<float>()};
#if defined(HERO_QUANTIZED_UNITS)
  switch (p.type.number) {  // as files write it
    case 2:
      return multiply<Q4_0>(p);
    case 3:
      return multiply<Q4_1>(p);
    case 8:
      return multiply<Q8_0>(p);
    case 12:
      return multiply<Q4_K>(p);
    case 14:
      return multiply<Q6_K>(p);
    default:
      break;
  }
#endif
  const int64_t blocks = p.k / p.type.elements;
  multiply_panels(p, blocks * p.type.bytes,
                  [&](const std::byte* row, float* out) { p.type.decode(row, blocks, out); });
}

}  // namespace hero::core::cpu
