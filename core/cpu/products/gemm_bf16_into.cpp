// Storing the sums of products of bfloat16: in arrays of float32, or rounded in arrays of bfloat16.
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>

namespace hero::core::cpu {

namespace {

class IntoFloats final : public Bf16Sums {
 public:
  IntoFloats(float* c, int64_t c_rs, bool add) : c_(c), c_rs_(c_rs), add_(add) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      float* const to = c_ + (row + i) * c_rs_ + column;
      const float* const from = sums + i * step;
      if (add_) {
        each_column(columns, [=](int64_t j) { to[j] += from[j]; });
      } else {
        each_column(columns, [=](int64_t j) { to[j] = from[j]; });
      }
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    prefetch_part(c_ + row * c_rs_ + column, c_rs_, rows, columns);
  }

 private:
  float* c_;
  int64_t c_rs_;
  bool add_;
};

class IntoHalves final : public Bf16Sums {
 public:
  IntoHalves(BFloat16* c, int64_t c_rs) : c_(c), c_rs_(c_rs) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      BFloat16* const to = c_ + (row + i) * c_rs_ + column;
      const float* const from = sums + i * step;
      each_column(columns, [=](int64_t j) { to[j] = BFloat16(from[j]); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    prefetch_part(c_ + row * c_rs_ + column, c_rs_, rows, columns);
  }

 private:
  BFloat16* c_;
  int64_t c_rs_;
};

}  // namespace

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b, float* c,
               int64_t c_rs, bool add) {
  gemm_bf16(m, n, k, a, b, IntoFloats(c, c_rs, add));
}

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               BFloat16* c, int64_t c_rs) {
  gemm_bf16(m, n, k, a, b, IntoHalves(c, c_rs));
}

void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      float* c) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, IntoFloats(c, n, false));
}

void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      BFloat16* c) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, IntoHalves(c, n));
}

}  // namespace hero::core::cpu
