// The tensor cores' instructions as tests/cusim plays them, against plain loops: the kernels'
// results are as good as these.
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#if defined(HERO_CUSIM)
#include "cuda/gpu.h"

#include <hero/cuda/nn/mma.cuh>

using namespace hero;
using namespace hero::cuda;

namespace {

// Small integers that every half holds, so that sums are exact.
template <class T>
std::vector<T> numbers(int n, int seed) {
  std::vector<T> result;
  for (int i = 0; i < n; ++i) result.emplace_back(static_cast<float>((i * 37 + seed) % 23 - 11));
  return result;
}

template <class T>
uint32_t pair_of(T low, T high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

// c += a b, with fragments made by PTX's formulas: a [16, 16], b [16, 8], c [16, 8].
template <class T>
void product_kernel(const T* a, const T* b, float* c) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  uint32_t of_a[4], of_b[2];
  for (int i = 0; i < 4; ++i) {
    const T* row = a + 16 * (g + 8 * (i % 2)) + 2 * t + 8 * (i / 2);
    of_a[i] = pair_of(row[0], row[1]);
  }
  for (int i = 0; i < 2; ++i) {
    const T* at = b + 8 * (2 * t + 8 * i) + g;
    of_b[i] = pair_of(at[0], at[8]);
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = c[8 * (g + 8 * (i / 2)) + 2 * t + i % 2];
  mma_16x8x16<T>(sums, of_a, of_b[0], of_b[1]);
  for (int i = 0; i < 4; ++i) c[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sums[i];
}

template <class T>
void check_product() {
  const std::vector<T> a = numbers<T>(256, 5), b = numbers<T>(128, 3);
  std::vector<float> c(128);
  for (int i = 0; i < 128; ++i) c[static_cast<size_t>(i)] = static_cast<float>(i);
  std::vector<float> expected = c;
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      for (size_t k = 0; k < 16; ++k) {
        expected[8 * i + j] += static_cast<float>(a[16 * i + k]) * static_cast<float>(b[8 * k + j]);
      }
    }
  }
  launch("mma", product_kernel<T>, dim3(1), dim3(32), 0, a.data(), b.data(), c.data());
  cudaDeviceSynchronize();
  CHECK(c == expected);
}

// Lane's registers of four 8 x 8 matrices, which lie in shared memory one after the other.
void matrices_kernel(bool turned, uint32_t* to) {
  auto* shared = dynamic_shared<uint16_t>();
  for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = static_cast<uint16_t>(i);
  __syncthreads();
  uint32_t registers[4];
  if (turned) {
    load_matrices_turned(registers, shared, 16 * threadIdx.x);
  } else {
    load_matrices(registers, shared, 16 * threadIdx.x);
  }
  for (unsigned i = 0; i < 4; ++i) to[4 * threadIdx.x + i] = registers[i];
}

// What is at `to` before and after a wait for the first of two groups, and after that for all.
void copies_kernel(const uint32_t* from, uint32_t* seen) {
  auto* shared = dynamic_shared<uint32_t>();
  shared[0] = shared[4] = 7;
  copy_async<4>(shared, from, false);
  commit_copies();
  copy_async<16>(shared + 4, from, true);
  commit_copies();
  seen[0] = shared[0];
  wait_copies<1>();
  seen[1] = shared[0];
  seen[2] = shared[4];
  wait_copies<0>();
  seen[3] = shared[4];
}

}  // namespace

TEST_CASE("a warp's product of fragments is the product of the matrices they are of") {
  check_product<BFloat16>();
  check_product<Float16>();
}

TEST_CASE("a warp loads matrices as fragments, as they are and transposed") {
  for (const bool turned : {false, true}) {
    std::vector<uint32_t> got(128), expected;
    launch("matrices", matrices_kernel, dim3(1), dim3(32), 512, turned, got.data());
    cudaDeviceSynchronize();
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t first = 64 * i + (turned ? 8 * (2 * t) + g : 8 * g + 2 * t);
        expected.push_back(first | (first + (turned ? 8 : 1)) << 16);
      }
    }
    CHECK(got == expected);
  }
}

TEST_CASE("copies in the background are there once waited for, and on tests not before") {
  const uint32_t from = 5;
  std::vector<uint32_t> seen(4);
  launch("copies", copies_kernel, dim3(1), dim3(1), 64, &from, seen.data());
  cudaDeviceSynchronize();
  CHECK(seen == std::vector<uint32_t>{7, 5, 7, 0});
}

#endif
