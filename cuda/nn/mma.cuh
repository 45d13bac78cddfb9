#pragma once
// Tensor-core products, and the copies that load their operands: one function for each PTX
// instruction (PTX ISA, "Warp-level matrix instructions" and "cp.async"). Over tests/cusim the same
// functions are written out for a lane of a warp, by the documented layout of fragments.
//
// Layouts, with g = lane / 4 and t = lane % 4: lane holds of A [16, 16] in register 0 the elements
// (g, 2t) and (g, 2t + 1), in 1 those of row g + 8, in 2 and 3 the same rows at columns + 8; of
// B [16, 8] in register 0 (2t, g) and (2t + 1, g), in 1 those of rows + 8; of C [16, 8]
// (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
#include <bit>
#include <cmath>

#include <hero/core/kernels/half.h>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

#if defined(HERO_CUSIM)
namespace sim {

// Element 0 or 1 of a register that holds two halves.
template <class T>
float half_of(uint64_t word, int i) {
  return static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(word >> (16 * i))));
}
// The two halves at 4 * t of the row of 8 to which lane `from` points.
inline uint32_t pair_at(const uint64_t* rows, int from, int t) {
  uint32_t pair;
  std::memcpy(&pair, reinterpret_cast<const std::byte*>(rows[from]) + 4 * t, 4);
  return pair;
}
inline uint64_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

}  // namespace sim
#else
__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
#endif

/// c += a b for one warp, half-precision numbers of type T with float sums.
template <class T>
__device__ inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
#if defined(HERO_CUSIM)
  const int lane = cusim::lane(), g = lane / 4, t = lane % 4;
  float rows[2][16], columns[2][16];
  for (int half = 0; half < 2; ++half) {
    const uint64_t* all =
        cusim::gather(kAllLanes, a[2 * half] | static_cast<uint64_t>(a[2 * half + 1]) << 32);
    for (int i = 0; i < 8; ++i) {
      rows[0][8 * half + i] = sim::half_of<T>(all[4 * g + i / 2], i % 2);
      rows[1][8 * half + i] = sim::half_of<T>(all[4 * g + i / 2] >> 32, i % 2);
    }
  }
  const uint64_t* all = cusim::gather(kAllLanes, b0 | static_cast<uint64_t>(b1) << 32);
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 16; ++i) {
      columns[n][i] = sim::half_of<T>(all[4 * (2 * t + n) + i % 8 / 2] >> (i < 8 ? 0 : 32), i % 2);
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 16; ++k) c[i] += rows[i / 2][k] * columns[i % 2][k];
  }
#else
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#endif
}

/// Four 8 x 8 matrices of halves from shared memory: lane 8 * i + r points to row r of matrix i (16
/// bytes, aligned, `place` bytes from `tile`), and gets of each matrix the elements (g, 2t) and (g,
/// 2t + 1).
__device__ inline void load_matrices(uint32_t (&to)[4], const void* tile, uint32_t place) {
#if defined(HERO_CUSIM)
  const int lane = cusim::lane();
  const uint64_t* rows = cusim::gather(kAllLanes, sim::address(tile) + place);
  for (int i = 0; i < 4; ++i) to[i] = sim::pair_at(rows, 8 * i + lane / 4, lane % 4);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(tile) + place)
               : "memory");
#endif
}

/// The same, and each matrix transposed: a lane gets the elements (2t, g) and (2t + 1, g).
__device__ inline void load_matrices_turned(uint32_t (&to)[4], const void* tile, uint32_t place) {
#if defined(HERO_CUSIM)
  const int lane = cusim::lane(), g = lane / 4, t = lane % 4;
  const uint64_t* rows = cusim::gather(kAllLanes, sim::address(tile) + place);
  for (int i = 0; i < 4; ++i) {
    const int shift = 16 * (g % 2);
    const uint32_t low = sim::pair_at(rows, 8 * i + 2 * t, g / 2) >> shift & 0xFFFFu;
    const uint32_t high = sim::pair_at(rows, 8 * i + 2 * t + 1, g / 2) >> shift & 0xFFFFu;
    to[i] = low | high << 16;
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(tile) + place)
               : "memory");
#endif
}

/// Begins to copy kBytes (4, 8 or 16, and so aligned) from global to shared memory, or writes zeros
/// there and reads nothing.
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global, bool zeros) {
#if defined(HERO_CUSIM)
  cusim::copy_async(shared, zeros ? nullptr : global, kBytes);
#else
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "r"(zeros ? 0 : 16)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "n"(kBytes), "r"(zeros ? 0 : kBytes)
                 : "memory");
  }
#endif
}

/// Ends this thread's group of copies; a group may be empty.
__device__ inline void commit_copies() {
#if defined(HERO_CUSIM)
  cusim::commit_copies();
#else
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/// Waits until at most kLeft of this thread's groups are under way; others see its copies after a
/// barrier.
template <int kLeft>
__device__ inline void wait_copies() {
#if defined(HERO_CUSIM)
  cusim::wait_copies(kLeft);
#else
  asm volatile("cp.async.wait_group %0;" : : "n"(kLeft) : "memory");
#endif
}

/// 2^x with an error of at most 2 units in the last place; 0 for -inf, NaN for NaN.
__device__ inline float power_of_two(float x) {
#if defined(HERO_CUSIM)
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// Two halves in a register, rounded to nearest even; `low` has the lower address.
template <class T>
__device__ inline uint32_t pack_halves(float low, float high) {
#if defined(HERO_CUSIM)
  return T(low).bits | static_cast<uint32_t>(T(high).bits) << 16;
#else
  uint32_t both;
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
#endif
}

}  // namespace hero::cuda
