#pragma once
// The table of a level's kernels, by which the rest of the library calls them. Most of core/cpu is
// compiled once for each level (cmake/HeroLevels.cmake). Of the higher levels only the table is
// visible to the linker, so that no function compiled for them is ever linked in place of one that
// every machine can run.
#include <type_traits>

#include <hero/core/cpu/elementwise/philox_words.h>
#include <hero/core/cpu/level.h>
#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/device/backend.h>

namespace hero::core::cpu {

/// What works on plain matrices of T, float or double: the functions of gemm.h.
template <class T>
struct MatrixKernels {
  std::add_pointer_t<decltype(cpu::gemm<T>)> gemm = nullptr;
  std::add_pointer_t<decltype(cpu::gemm_batched<T>)> gemm_batched = nullptr;
  std::add_pointer_t<decltype(cpu::packed_size<T>)> packed_size = nullptr;
  std::add_pointer_t<decltype(cpu::gemm_pack<T>)> gemm_pack = nullptr;
  std::add_pointer_t<decltype(cpu::gemm_packed<T>)> gemm_packed = nullptr;
};

struct Kernels {
  Backend& backend;
  /// What the numbers of random.h are made of.
  decltype(&cpu::philox_words) philox_words;

  /// \name What is called by itself: products and convolutions, by tests and benchmarks. Null in
  /// basic_kernels().
  /// \{
  decltype(&cpu::convolve_bf16) convolve_bf16 = nullptr;
  decltype(&cpu::convolve_back_bf16) convolve_back_bf16 = nullptr;
  decltype(&cpu::weights_bf16) weights_bf16 = nullptr;
  MatrixKernels<float> of_float = {};
  MatrixKernels<double> of_double = {};
  void (*gemm_bf16)(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
                    float* c, int64_t c_rs, bool add) = nullptr;
  void (*gemm_bf16_rounded)(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
                            const Bf16Matrix& b, BFloat16* c, int64_t c_rs) = nullptr;
  template <class T>
  const MatrixKernels<T>& matrices() const {
    if constexpr (std::is_same_v<T, float>) {  // NOLINT(bugprone-branch-clone)
      return of_float;
    } else {
      return of_double;
    }
  }
  /// \}
};

/// The kernels of a level, which the processor must have. A library that was built for one kind of
/// processor (HERO_ARCH) has the same kernels for all levels.
const Kernels& kernels_of(Level level);

/// The table of a program that is linked with BasicKernels alone: other calls throw an Error.
const Kernels& basic_kernels();

/// The kernels of level(), or the basic ones of a program that has no others.
const Kernels& kernels();

}  // namespace hero::core::cpu
