#pragma once
// The inner kernel of gemm: a few rows of A times two vectors of columns of B, the sums held in
// registers. Only gemm*.cpp includes this.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hero::core::cpu::micro {

// kMaxRows x 2 sums, two vectors of B and one broadcast of A fill the vector registers: 32 of
// AVX-512 and of 64-bit ARM, 16 of AVX2.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kMaxRows = 14;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kMaxRows = 6;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16;
inline constexpr int kMaxRows = 14;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kMaxRows = 6;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kMaxColumns = 2 * kLanes<T>;

template <class T>
Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

template <class T>
void store(T* to, const Vector<T>& v) {
  std::memcpy(to, &v, sizeof(v));
}

// The first `count` lanes, the others zero; nothing beyond them is touched. count is in [1,
// kLanes].
template <class T>
Vector<T> load_part(const T* from, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = (1u << count) - 1u;
  if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  } else {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
  }
#else
  Vector<T> v = {};
  for (int l = 0; l < count; ++l) v[l] = from[l];
  return v;
#endif
}

template <class T>
void store_part(T* to, const Vector<T>& v, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = (1u << count) - 1u;
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), v);
  } else {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), v);
  }
#else
  for (int l = 0; l < count; ++l) to[l] = v[l];
#endif
}

// x * y + sum, rounded once where the machine can: clang on x86-64 says so by __FMA__ alone.
template <class T>
T multiply_add(T x, T y, T sum) {
#if defined(__FMA__) || defined(__aarch64__) || (defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF))
  return std::fma(x, y, sum);
#else
  return x * y + sum;
#endif
}

template <class T>
Vector<T> multiply_add(const Vector<T>& x, const Vector<T>& y, const Vector<T>& sum) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_fmadd_ps(x, y, sum);
  } else {
    return _mm512_fmadd_pd(x, y, sum);
  }
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_fmadd_ps(x, y, sum);
  } else {
    return _mm256_fmadd_pd(x, y, sum);
  }
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) {
    return vfmaq_f32(sum, x, y);
  } else {
    return vfmaq_f64(sum, x, y);
  }
#else
  Vector<T> result;
  for (int l = 0; l < kLanes<T>; ++l) result[l] = multiply_add<T>(x[l], y[l], sum[l]);
  return result;
#endif
}

// Where a tile of sums is stored. If `add`, it is added to the elements there, `factor` times.
template <class T>
struct Target {
  T* c;
  int64_t rs;
  int64_t cs;
  int64_t columns;
  bool add;
  T factor = T(1);
};

// The slow way to store, for tiles with missing columns or a target that is not row-major.
template <class T>
[[gnu::noinline]] void scatter(const T* tile, int rows, int stride, const Target<T>& to) {
  const Vector<T> factor = to.factor - Vector<T>{};
  if (to.cs == 1) {
    for (int i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < to.columns; j += kLanes<T>) {
        const int64_t count = std::min<int64_t>(kLanes<T>, to.columns - j);
        T* c = to.c + i * to.rs + j;
        Vector<T> sum = load(tile + i * stride + j);
        if (to.add) sum = multiply_add<T>(factor, sum, load_part(c, count));
        store_part<T>(c, sum, count);
      }
    }
    return;
  }
  for (int i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < to.columns; ++j) {
      T& c = to.c[i * to.rs + j * to.cs];
      const T sum = tile[i * stride + j];
      c = to.add ? multiply_add(to.factor, sum, c) : sum;
    }
  }
}

// A is read at a[i + p * a_step] if it has unit row stride, as packed panels have, else at a[i *
// a_step + p]; B at b[p * b_step + j]. Where Step is StepOffsets, p is places.a[p] and places.b[p].
enum class Layout { unit_rows, unit_steps };
struct StepOffsets {
  const int32_t *a, *b;
};

template <class T, Layout layout, class Step, int rows, int vectors>
void kernel(int64_t k, const T* a, int64_t a_step, const T* b, Step b_step, const Target<T>& to) {
  constexpr int lanes = kLanes<T>;
  Vector<T> sums[rows][vectors] = {};
  const bool whole = to.cs == 1 && to.columns == vectors * lanes;
  if (whole) {
    for (int i = 0; i < rows; ++i) __builtin_prefetch(to.c + i * to.rs, 1);
    for (int i = 0; i < rows; ++i) __builtin_prefetch(to.c + i * to.rs + vectors * lanes - 1, 1);
  }
  // Every third row has a pointer of its own: the two after it are reached by an index, so
  // registers suffice.
  const T* row[(rows + 2) / 3];
  for (int g = 0; g < (rows + 2) / 3; ++g) {
    row[g] = a + 3 * g * (layout == Layout::unit_rows ? 1 : a_step);
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector<T> columns[vectors];
    const T* from = b;
    int64_t at = p;
    if constexpr (std::is_same_v<Step, StepOffsets>) {
      at = b_step.a[p];
      from += b_step.b[p];
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) columns[v] = load(from + v * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const T x = layout == Layout::unit_rows ? a[i] : row[i / 3][(i % 3) * a_step + at];
      const Vector<T> broadcast = x - Vector<T>{};
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sums[i][v] = multiply_add<T>(broadcast, columns[v], sums[i][v]);
      }
    }
    if constexpr (layout == Layout::unit_rows) a += a_step;
    if constexpr (std::is_same_v<Step, int64_t>) b += b_step;
  }
  if (whole) {
    const Vector<T> factor = to.factor - Vector<T>{};
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        T* c = to.c + i * to.rs + v * lanes;
        store<T>(c, to.add ? multiply_add<T>(factor, sums[i][v], load(c)) : sums[i][v]);
      }
    }
  } else {
    T tile[rows * vectors * lanes];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) store<T>(tile + (i * vectors + v) * lanes, sums[i][v]);
    }
    scatter(tile, rows, vectors * lanes, to);
  }
}

template <class T, class Step>
using Kernel = void (*)(int64_t, const T*, int64_t, const T*, Step, const Target<T>&);

template <class T, Layout layout, class Step, int vectors, int... i>
constexpr std::array<Kernel<T, Step>, kMaxRows> kernels_of(std::integer_sequence<int, i...>) {
  return {kernel<T, layout, Step, i + 1, vectors>...};
}

/// The kernel for `rows` rows and `columns` columns, at most kMaxRows and kMaxColumns.
template <class T, Layout layout, class Step = int64_t>
Kernel<T, Step> kernel_for(int64_t rows, int64_t columns) {
  using Rows = std::make_integer_sequence<int, kMaxRows>;
  static constexpr auto narrow = kernels_of<T, layout, Step, 1>(Rows{});
  static constexpr auto wide = kernels_of<T, layout, Step, 2>(Rows{});
  const auto index = static_cast<size_t>(rows - 1);
  return columns <= kLanes<T> ? narrow[index] : wide[index];
}

}  // namespace hero::core::cpu::micro
