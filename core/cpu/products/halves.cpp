// Products of bfloat16 by the machine's instruction; bias, activation and rounding are applied to a
// tile of float32 sums before it leaves the first-level cache.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

float rounded(float x) { return static_cast<float>(BFloat16(x)); }

struct NoActivation {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};

// z = the sums + bias, out = F of z; both rounded, z where it is wanted.
template <class F>
class IntoLinear final : public HalfSums {
 public:
  IntoLinear(const float* bias, BFloat16* out, BFloat16* z, int64_t n)
      : bias_(bias), out_(out), z_(z), n_(n) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    const F f;
    for (int64_t i = 0; i < rows; ++i) {
      float* const from = sums + i * step;
      const int64_t at = (row + i) * n_ + column;
      if (bias_ != nullptr) {
        const float* const bias = bias_ + column;
        each_column(columns, [=](int64_t j) { from[j] += bias[j]; });
      }
      if (z_ != nullptr) {
        BFloat16* const z = z_ + at;
        each_column(columns, [=](int64_t j) { z[j] = BFloat16(from[j]); });
      }
      BFloat16* const out = out_ + at;
      each_column(columns, [=](int64_t j) { out[j] = BFloat16(f(from[j])); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    const int64_t at = row * n_ + column;
    if (z_ != nullptr) prefetch_part(z_ + at, n_, rows, columns);
    prefetch_part(out_ + at, n_, rows, columns);
  }

 private:
  const float* bias_;
  BFloat16 *out_, *z_;
  int64_t n_;
};

// out = F of the sums, rounded as the gradient of F's output, and u; rounded again.
template <class F>
class IntoGradient final : public HalfSums {
 public:
  IntoGradient(const BFloat16* u, BFloat16* out, int64_t n) : u_(u), out_(out), n_(n) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    const F f;
    for (int64_t i = 0; i < rows; ++i) {
      const float* const from = sums + i * step;
      const int64_t at = (row + i) * n_ + column;
      const BFloat16* const u = u_ + at;
      BFloat16* const out = out_ + at;
      // In steps, each of which becomes vectors; what lies beyond the columns is thrown away.
      float g[kSumsColumns] = {}, x[kSumsColumns] = {};
      each_column(columns, [&](int64_t j) { g[j] = rounded(from[j]); });
      each_column(columns, [&](int64_t j) { x[j] = static_cast<float>(u[j]); });
      for (int64_t j = 0; j < kSumsColumns; ++j) g[j] = f(g[j], x[j]);
      each_column(columns, [&](int64_t j) { out[j] = BFloat16(g[j]); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    const int64_t at = row * n_ + column;
    prefetch_part(u_ + at, n_, rows, columns);
    prefetch_part(out_ + at, n_, rows, columns);
  }

 private:
  const BFloat16* u_;
  BFloat16* out_;
  int64_t n_;
};

Bf16Matrix matrix(const Array& x) { return {x.data<BFloat16>(), x.strides()[0], x.strides()[1]}; }

template <class F>
void run_linear(const Array& x, const Array& w, const Array* bias, const Array& out,
                const Array* z) {
  const Array shift = bias != nullptr ? bias->to(kFloat32) : Array();
  const IntoLinear<F> to(bias != nullptr ? shift.data<float>() : nullptr, out.data<BFloat16>(),
                         z != nullptr ? z->data<BFloat16>() : nullptr, out.size(1));
  gemm_bf16(x.size(0), w.size(0), x.size(1), matrix(x), matrix(w.t()), to);
}

template <class F>
void run_gradient(const call::LinearBack& back) {
  const IntoGradient<F> to(back.u.data<BFloat16>(), back.g_x.data<BFloat16>(), back.g_x.size(1));
  gemm_bf16(back.g.size(0), back.w.size(1), back.g.size(1), matrix(back.g), matrix(back.w), to);
}

}  // namespace

void bf16_products(const Array& a, const Array& b, const Array& out) {
  const int64_t batch = out.size(0), m = out.size(1), n = out.size(2), k = a.size(2);
  const bool tall = b.strides()[0] == 0 && a.strides()[0] == m * a.strides()[1];
  const auto run_some = [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const Bf16Matrix left{a.data<BFloat16>() + p * a.strides()[0], a.strides()[1],
                            a.strides()[2]};
      const Bf16Matrix right{b.data<BFloat16>() + p * b.strides()[0], b.strides()[1],
                             b.strides()[2]};
      const int64_t rows = tall ? batch * m : m, at = p * m * n;
      if (out.dtype() == kFloat32) {
        gemm_bf16(rows, n, k, left, right, out.data<float>() + at, n, false);
      } else {
        gemm_bf16(rows, n, k, left, right, out.data<BFloat16>() + at, n);
      }
    }
  };
  if (tall) return run_some(0, 1);
  constexpr int64_t kThreadSteps = 1 << 19;  // multiply-adds that are worth a thread
  const int64_t work = std::max<int64_t>(m * n * k, 1);
  // With few products the threads share each one, if it is large enough for that.
  if (batch < 4 * num_threads() && work >= 2 * kThreadSteps) return run_some(0, batch);
  parallel_for(batch, std::max<int64_t>(1, kThreadSteps / 4 / work), run_some);
}

PackedMatrix bf16_packed(const Array& b) {
  const int64_t rows = b.size(0), columns = b.size(1);
  const Array panels = Array::empty({2 * packed_bf16_words(columns, rows)}, kBFloat16);
  pack_bf16(columns, rows, matrix(b), reinterpret_cast<uint32_t*>(panels.data<BFloat16>()));
  return {rows, columns, panels};
}

void bf16_packed_product(const Array& a, const PackedMatrix& b, const Array& out) {
  const auto* const panels = reinterpret_cast<const uint32_t*>(b.panels.data<BFloat16>());
  const auto run = [&](auto* to) {
    gemm_bf16_packed(a.size(0), b.columns, b.rows, matrix(a), panels, to);
  };
  out.dtype() == kFloat32 ? run(out.data<float>()) : run(out.data<BFloat16>());
}

void bf16_linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                 const Array& out, const Array* z) {
  switch (activation) {
    case Activation::none:
      return run_linear<NoActivation>(x, w, bias, out, z);
    case Activation::relu:
      return run_linear<kernels::Relu>(x, w, bias, out, z);
    case Activation::gelu:
      return run_linear<kernels::Gelu>(x, w, bias, out, z);
    case Activation::gelu_tanh:
      return run_linear<kernels::GeluTanh>(x, w, bias, out, z);
  }
}

void bf16_input_backward(const call::LinearBack& back) {
  if (!back.g_x.defined() || back.g_x.numel() == 0) return;
  switch (back.activation) {
    case Activation::gelu:
      return run_gradient<kernels::GeluBackward>(back);
    case Activation::gelu_tanh:
      return run_gradient<kernels::GeluTanhBackward>(back);
    default:
      return plain_input_backward(back);
  }
}

}  // namespace hero::core::cpu
