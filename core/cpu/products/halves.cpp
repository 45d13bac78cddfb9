// Products of halves; bias, activation and rounding are applied to a tile of float32 sums before it
// leaves the cache.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class H>
float rounded(float x) {
  return static_cast<float>(H(x));
}

struct NoActivation {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};

// z = the sums + bias, out = F of z; both rounded, z where it is wanted.
template <class F, class H>
class IntoLinear final : public HalfSums {
 public:
  IntoLinear(const float* bias, H* out, H* z, int64_t n) : bias_(bias), out_(out), z_(z), n_(n) {}
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
        H* const z = z_ + at;
        each_column(columns, [=](int64_t j) { z[j] = H(from[j]); });
      }
      H* const out = out_ + at;
      each_column(columns, [=](int64_t j) { out[j] = H(f(from[j])); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    const int64_t at = row * n_ + column;
    if (z_ != nullptr) prefetch_part(z_ + at, n_, rows, columns);
    prefetch_part(out_ + at, n_, rows, columns);
  }

 private:
  const float* bias_;
  H *out_, *z_;
  int64_t n_;
};

// out = F of the sums, rounded as the gradient of F's output, and u; rounded again.
template <class F, class H>
class IntoGradient final : public HalfSums {
 public:
  IntoGradient(const H* u, H* out, int64_t n) : u_(u), out_(out), n_(n) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    const F f;
    for (int64_t i = 0; i < rows; ++i) {
      const float* const from = sums + i * step;
      const int64_t at = (row + i) * n_ + column;
      const H* const u = u_ + at;
      H* const out = out_ + at;
      // In steps, each of which becomes vectors; what lies beyond the columns is thrown away.
      float g[kSumsColumns] = {}, x[kSumsColumns] = {};
      each_column(columns, [&](int64_t j) { g[j] = rounded<H>(from[j]); });
      each_column(columns, [&](int64_t j) { x[j] = static_cast<float>(u[j]); });
      each_column(columns <= kSumsColumns / 2 ? kSumsColumns / 2 : kSumsColumns,
                  [&](int64_t j) { g[j] = f(g[j], x[j]); });
      each_column(columns, [&](int64_t j) { out[j] = H(g[j]); });
    }
  }
  void prefetch(int64_t row, int64_t column, int64_t rows, int64_t columns) const override {
    const int64_t at = row * n_ + column;
    prefetch_part(u_ + at, n_, rows, columns);
    prefetch_part(out_ + at, n_, rows, columns);
  }

 private:
  const H* u_;
  H* out_;
  int64_t n_;
};

template <class H>
struct Matrix {
  const H* data;
  int64_t rs, cs;
};
template <class H>
Matrix<H> matrix(const Array& x) {
  return {x.data<H>(), x.strides()[0], x.strides()[1]};
}
// The p-th of a batch.
template <class H>
Matrix<H> matrix(const Array& x, int64_t p) {
  return {x.data<H>() + p * x.strides()[0], x.strides()[1], x.strides()[2]};
}

// The sums of A [m, k] B [k, n].
template <class H>
void multiply(int64_t m, int64_t n, int64_t k, const Matrix<H>& a, const Matrix<H>& b,
              const HalfSums& to) {
  if constexpr (std::is_same_v<H, BFloat16>) {
    if (native_half_products()) {
      return gemm_bf16(m, n, k, {a.data, a.rs, a.cs}, {b.data, b.rs, b.cs}, to);
    }
  }
  gemm_halves(m, n, k, a.data, a.rs, a.cs, b.data, b.rs, b.cs, to);
}

// Calls body with what stores sums from element `at` of an array on, whose rows have n: float32, or
// H.
template <class H, class Body>
void with_target(const Array& out, int64_t at, int64_t n, const Body& body) {
  if (out.dtype() == kFloat32) {
    body(SumsIntoFloats(out.data<float>() + at, n, false));
  } else {
    body(SumsIntoHalves<H>(out.data<H>() + at, n));
  }
}

template <class F, class H>
void run_linear(const call::Linear& call) {
  const Array shift = call.bias != nullptr ? call.bias->to(kFloat32) : Array();
  const IntoLinear<F, H> to(call.bias != nullptr ? shift.data<float>() : nullptr,
                            call.out.data<H>(), call.z != nullptr ? call.z->data<H>() : nullptr,
                            call.out.size(1));
  multiply<H>(call.x.size(0), call.w.size(0), call.x.size(1), matrix<H>(call.x),
              matrix<H>(call.w.t()), to);
}

template <class H>
void linear(const call::Linear& call) {
  switch (call.activation) {
    case Activation::none:
      return run_linear<NoActivation, H>(call);
    case Activation::relu:
      return run_linear<kernels::Relu, H>(call);
    case Activation::gelu:
      return run_linear<kernels::Gelu, H>(call);
    case Activation::gelu_tanh:
      return run_linear<kernels::GeluTanh, H>(call);
  }
}

template <class F, class H>
void run_gradient(const call::LinearBack& back) {
  const IntoGradient<F, H> to(back.u.data<H>(), back.g_x.data<H>(), back.g_x.size(1));
  multiply<H>(back.g.size(0), back.w.size(1), back.g.size(1), matrix<H>(back.g), matrix<H>(back.w),
              to);
}

template <class H>
void input_backward(const call::LinearBack& back) {
  switch (back.activation) {
    case Activation::gelu:
      return run_gradient<kernels::GeluBackward, H>(back);
    case Activation::gelu_tanh:
      return run_gradient<kernels::GeluTanhBackward, H>(back);
    default:
      return plain_input_backward(back);
  }
}

// Calls body with a number of the half's type.
template <class Body>
void with_half(DType dtype, const Body& body) {
  dtype == kBFloat16 ? body(BFloat16()) : body(Float16());
}

}  // namespace

void products_of_halves(const Array& a, const Array& b, const Array& out) {
  const int64_t batch = out.size(0), m = out.size(1), n = out.size(2), k = a.size(2);
  const bool tall = b.strides()[0] == 0 && a.strides()[0] == m * a.strides()[1];
  const auto run_some = [&](int64_t begin, int64_t end) {
    with_half(a.dtype(), [&]<class H>(H) {
      for (int64_t p = begin; p < end; ++p) {
        with_target<H>(out, p * m * n, n, [&](const HalfSums& to) {
          multiply(tall ? batch * m : m, n, k, matrix<H>(a, p), matrix<H>(b, p), to);
        });
      }
    });
  };
  if (tall) return run_some(0, 1);
  constexpr int64_t kThreadSteps = 1 << 19;  // multiply-adds that are worth a thread
  const int64_t work = std::max<int64_t>(m * n * k, 1);
  // With few products the threads share each one, if it is large enough for that.
  if (batch < 4 * num_threads() && work >= 2 * kThreadSteps) return run_some(0, batch);
  parallel_for(batch, std::max<int64_t>(1, kThreadSteps / 4 / work), run_some);
}

PackedMatrix half_packed(const Array& b) {
  const int64_t rows = b.size(0), columns = b.size(1);
  if (b.dtype() == kBFloat16 && native_half_products()) {
    const Array panels = Array::empty({2 * packed_bf16_words(columns, rows)}, kBFloat16);
    pack_bf16(columns, rows, {b.data<BFloat16>(), b.strides()[0], b.strides()[1]},
              reinterpret_cast<uint32_t*>(panels.data<BFloat16>()));
    return {rows, columns, panels};
  }
  const Array panels = Array::empty({packed_size<float>(rows, columns)});
  with_half(b.dtype(), [&]<class H>(H) {
    gemm_pack_halves(rows, columns, b.data<H>(), b.strides()[0], b.strides()[1],
                     panels.data<float>());
  });
  return {rows, columns, panels};
}

void half_packed_product(const Array& a, const PackedMatrix& b, const Array& out) {
  const int64_t m = a.size(0), n = b.columns, k = b.rows;
  with_half(a.dtype(), [&]<class H>(H) {
    const auto x = matrix<H>(a);
    with_target<H>(out, 0, n, [&](const HalfSums& to) {
      if constexpr (std::is_same_v<H, BFloat16>) {
        if (b.panels.dtype() == kBFloat16) {
          const auto* const words = reinterpret_cast<const uint32_t*>(b.panels.data<BFloat16>());
          return gemm_bf16_packed(m, n, k, {x.data, x.rs, x.cs}, words, to);
        }
      }
      gemm_packed_halves(m, n, k, x.data, x.rs, x.cs, b.panels.data<float>(), to);
    });
  });
}

void half_linear(const call::Linear& call) {
  with_half(call.out.dtype(), [&]<class H>(H) { linear<H>(call); });
}

void half_input_backward(const call::LinearBack& back) {
  if (!back.g_x.defined() || back.g_x.numel() == 0) return;
  with_half(back.g.dtype(), [&]<class H>(H) { input_backward<H>(back); });
}

}  // namespace hero::core::cpu
