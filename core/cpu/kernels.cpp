#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/kernels.h>

// The name of the table of the level that this file is compiled for.
#ifndef HERO_CPU_KERNELS
#define HERO_CPU_KERNELS kernels_v3
#endif

namespace hero::core::cpu {

namespace {

template <class T>
constexpr MatrixKernels<T> kMatrixKernels = {cpu::gemm<T>, cpu::gemm_batched<T>,
                                             cpu::packed_size<T>, cpu::gemm_pack<T>,
                                             cpu::gemm_packed<T>};

}  // namespace

const Kernels& HERO_CPU_KERNELS();

const Kernels& HERO_CPU_KERNELS() {
  // leaked: destructors of statics may compute
  static const auto* const table =
      new Kernels{*new CpuBackend,         cpu::philox_words, cpu::convolve_bf16,
                  cpu::convolve_back_bf16, cpu::weights_bf16, kMatrixKernels<float>,
                  kMatrixKernels<double>,  cpu::gemm_bf16,    cpu::gemm_bf16};
  return *table;
}

}  // namespace hero::core::cpu
