// Storing the sums of products of bfloat16: in arrays of float32, or rounded in arrays of bfloat16.
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>

namespace hero::core::cpu {

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b, float* c,
               int64_t c_rs, bool add) {
  gemm_bf16(m, n, k, a, b, SumsIntoFloats(c, c_rs, add));
}

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               BFloat16* c, int64_t c_rs) {
  gemm_bf16(m, n, k, a, b, SumsIntoHalves(c, c_rs));
}

void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      float* c) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, SumsIntoFloats(c, n, false));
}

void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      BFloat16* c) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, SumsIntoHalves(c, n));
}

}  // namespace hero::core::cpu
