#pragma once
// Copies of panels of the operands in the order in which the kernel of gemm reads them. Only
// gemm*.cpp includes this.
#include <algorithm>
#include <cstdint>
#include <utility>

#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/kernels/half.h>

namespace hero::core::cpu::micro {

typedef uint16_t HalfLanes __attribute__((vector_size(kVectorBytes / 2)));
typedef uint32_t WordLanes __attribute__((vector_size(kVectorBytes)));

// As the conversions of half.h, of the bits of a half in each word.
template <class H>
[[gnu::always_inline]] inline Vector<float> widened(const WordLanes& bits) {
  if constexpr (std::is_same_v<H, BFloat16>) {
    return (Vector<float>)(bits << 16);
  } else {
    const WordLanes magnitude = bits & 0x7FFFu;
    const auto scaled = (WordLanes)((Vector<float>)(magnitude << 13) * 0x1p112f);
    const auto is_special = (WordLanes)(magnitude >= 0x7C00u);
    const WordLanes special = 0x7F800000u | (magnitude << 13);
    return (Vector<float>)((bits & 0x8000u) << 16 | (special & is_special) |
                           (scaled & ~is_special));
  }
}

template <class H>
[[gnu::always_inline]] inline Vector<float> widened(const HalfLanes& halves) {
  return widened<H>(__builtin_convertvector(halves, WordLanes));
}

// load() and load_part() of elements that become T: halves are widened.
template <class T, class S>
[[gnu::always_inline]] inline Vector<T> load_as(const S* from) {
  if constexpr (kIsHalf<S>) {
    HalfLanes halves;
    std::memcpy(&halves, from, sizeof(halves));
    return widened<S>(halves);
  } else {
    return load(from);
  }
}
template <class T, class S>
[[gnu::always_inline]] inline Vector<T> load_part_as(const S* from, int64_t count) {
  if constexpr (kIsHalf<S>) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const auto mask = static_cast<__mmask16>((1u << count) - 1u);
    return widened<S>((HalfLanes)_mm256_maskz_loadu_epi16(mask, from));
#else
    HalfLanes halves = {};
    for (int l = 0; l < count; ++l) halves[l] = from[l].bits;
    return widened<S>(halves);
#endif
  } else {
    return load_part(from, count);
  }
}

// One step of a transposition: exchanges the off-diagonal blocks of size d in all pairs of blocks.
template <class T, int d, int... lane>
void exchange(Vector<T>& x, Vector<T>& y, std::integer_sequence<int, lane...>) {
  constexpr int lanes = kLanes<T>;
  const Vector<T> low =
      __builtin_shufflevector(x, y, ((lane & d) == 0 ? lane : lane - d + lanes)...);
  const Vector<T> high =
      __builtin_shufflevector(x, y, ((lane & d) == 0 ? lane + d : lane + lanes)...);
  x = low;
  y = high;
}

// A call would send all rows through memory.
template <class T, int d>
[[gnu::always_inline]] inline void exchange_all(Vector<T> (&rows)[kLanes<T>]) {
  if constexpr (d > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
      if ((i & d) == 0) {
        exchange<T, d>(rows[i], rows[i + d], std::make_integer_sequence<int, kLanes<T>>{});
      }
    }
    exchange_all<T, d / 2>(rows);
  }
}

// to[p * to_step + i] = from[i * from_step + p] for i in [0, kLanes), p in [0, k). Rows from
// `count` on do not exist: the last one stands in for them. It is large, so there is one of it.
template <class T, class S>
[[gnu::noinline, gnu::noclone]] void transpose_lanes(int64_t count, int64_t k, const S* from,
                                                     int64_t from_step, T* to, int64_t to_step) {
  constexpr int lanes = kLanes<T>;
  const S* lines[lanes];
  for (int i = 0; i < lanes; ++i) lines[i] = from + std::min<int64_t>(i, count - 1) * from_step;
  int64_t p = 0;
  if constexpr (kIsHalf<S>) {
    // Two halves of a line move as one word, which takes half as many exchanges.
    for (; p + 2 * lanes <= k; p += 2 * lanes) {
      Vector<T> rows[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) std::memcpy(&rows[i], lines[i] + p, sizeof(rows[i]));
      exchange_all<T, lanes / 2>(rows);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const auto pairs = (WordLanes)rows[i];
        T* const at = to + (p + 2 * i) * to_step;
        store<T>(at, widened<S>(pairs & 0xFFFFu));
        store<T>(at + to_step, widened<S>(pairs >> 16));
      }
    }
  }
  for (; p + lanes <= k; p += lanes) {
    Vector<T> rows[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) rows[i] = load_as<T>(lines[i] + p);
    exchange_all<T, lanes / 2>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store<T>(to + (p + i) * to_step, rows[i]);
  }
  const int left = static_cast<int>(k - p);
  for (int q = 0; q < left; ++q) {
    for (int i = 0; i < lanes; ++i) to[(p + q) * to_step + i] = static_cast<T>(lines[i][p + q]);
  }
}

// c[i * c_step + row] = what it is, or zero if `fresh`, and sums[row * step + i], for `rows` rows
// and `columns` columns.
template <class T>
void add_transposed(int64_t rows, int64_t columns, const T* sums, int64_t step, bool fresh, T* c,
                    int64_t c_step) {
  constexpr int64_t lanes = kLanes<T>;
  for (int64_t column = 0; column < columns; column += lanes) {
    const int64_t width = std::min(lanes, columns - column);
    for (int64_t row = 0; row < rows; row += lanes) {
      const int64_t here = std::min(lanes, rows - row);
      T block[lanes * lanes];
      transpose_lanes(here, width, sums + row * step + column, step, block, lanes);
      for (int64_t i = 0; i < width; ++i) {
        T* const to = c + (column + i) * c_step + row;
        const Vector<T> former = fresh ? Vector<T>{} : load_part(to, here);
        store_part<T>(to, former + load(block + i * lanes), here);
      }
    }
  }
}

// Packs `width` lines (rows of A or columns of B) of length k as to[p * width + i]: element p of
// line i lies at from[i * line + p * step]. There are `count` lines; places of lines that do not
// exist hold anything, and what the kernel makes of them is thrown away. Whole vectors are stored,
// the last ones of a step over the beginning of the next step, which is written later; so `to`
// needs room for one vector more than width * k. Halves become floats.
template <class T, int width, class S>
void pack(int64_t count, int64_t k, const S* from, int64_t line, int64_t step, T* to) {
  constexpr int lanes = kLanes<T>;
  constexpr int rounded = (width + lanes - 1) / lanes * lanes;
  if (step != 1 && line == 1 && count >= rounded) {
    for (int64_t p = 0; p < k; ++p) {
#pragma GCC unroll 4
      for (int i = 0; i < rounded; i += lanes) {
        store<T>(to + p * width + i, load_as<T>(from + p * step + i));
      }
    }
    return;
  }
  for (int64_t i = rounded - lanes; i >= 0; i -= lanes) {
    const int64_t here = std::min<int64_t>(lanes, count - i);
    const S* lines = from + i * line;
    if (here <= 0) continue;
    if (step == 1) {
      transpose_lanes(here, k, lines, line, to + i, width);
    } else if (line == 1) {
      for (int64_t p = 0; p < k; ++p) {
        store<T>(to + p * width + i, load_part_as<T>(lines + p * step, here));
      }
    } else {
      for (int64_t p = 0; p < k; ++p) {
        T* at = to + p * width + i;
        for (int64_t l = 0; l < lanes; ++l)
          at[l] = static_cast<T>(lines[std::min(l, here - 1) * line + p * step]);
      }
    }
  }
}

}  // namespace hero::core::cpu::micro
