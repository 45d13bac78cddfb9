#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Integers: exact, modulo 2^64; a plain loop, since nothing time-critical multiplies them.
template <class T>
void integer_products(const Array& a, const Array& b, const Array& out) {
  const int64_t rows = out.shape()[1], cols = out.shape()[2], depth = a.shape()[2];
  parallel_for(out.shape()[0] * rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t batch = row / rows, i = row % rows;
      const T* x = a.data<T>() + batch * a.strides()[0] + i * a.strides()[1];
      const T* y = b.data<T>() + batch * b.strides()[0];
      T* z = out.data<T>() + row * cols;
      for (int64_t j = 0; j < cols; ++j) {
        uint64_t total = 0;
        for (int64_t k = 0; k < depth; ++k) {
          total += static_cast<uint64_t>(x[k * a.strides()[2]]) *
                   static_cast<uint64_t>(y[k * b.strides()[1] + j * b.strides()[2]]);
        }
        z[j] = static_cast<T>(total);
      }
    }
  });
}

template <class T>
void float_products(const Array& a, const Array& b, const Array& out) {
  gemm_batched<T>(out.size(0), a.size(1), b.size(2), a.size(2), a.data<T>(), a.strides()[0],
                  a.strides()[1], a.strides()[2], b.data<T>(), b.strides()[0], b.strides()[1],
                  b.strides()[2], out.data<T>(), out.strides()[0], out.strides()[1]);
}

template <class T>
PackedMatrix packed(const Array& b) {
  const int64_t rows = b.size(0), columns = b.size(1);
  const Array panels = Array::empty({packed_size<T>(rows, columns)}, b.dtype());
  gemm_pack<T>(rows, columns, b.data<T>(), b.strides()[0], b.strides()[1], panels.data<T>());
  return {rows, columns, panels};
}

template <class T>
void packed_product(const Array& a, const PackedMatrix& b, const Array& out) {
  gemm_packed<T>(a.size(0), b.columns, b.rows, a.data<T>(), a.strides()[0], a.strides()[1],
                 b.panels.data<T>(), out.data<T>(), out.strides()[0]);
}

}  // namespace

PackedMatrix CpuBackend::run(const call::PackMatrix& call) {
  if (call.b.dtype() == kFloat64) return packed<double>(call.b);
  return is_half(call.b.dtype()) ? half_packed(call.b) : packed<float>(call.b);
}

void CpuBackend::run(const call::MatmulPacked& call) {
  if (call.out.numel() == 0) return;
  if (call.a.dtype() == kFloat64) return packed_product<double>(call.a, call.b, call.out);
  if (call.a.dtype() == kFloat32) return packed_product<float>(call.a, call.b, call.out);
  half_packed_product(call.a, call.b, call.out);
}

void CpuBackend::run(const call::Linear& call) {
  if (call.out.numel() == 0) return;
  if (is_half(call.out.dtype())) return half_linear(call);
  const Array& sums = call.z ? *call.z : call.out;
  run(call::Matmul{call.x.unsqueeze(0), call.w.t().unsqueeze(0), sums.unsqueeze(0)});
  if (call.bias || call.activation != Activation::none || call.z)
    run(call::BiasActivation{call.activation, call.bias, sums, call.out});
}

void CpuBackend::run(const call::LinearBack& back) {
  is_half(back.g.dtype()) ? half_input_backward(back) : plain_input_backward(back);
  plain_weight_backward(back);
}

void CpuBackend::run(const call::Matmul& call) {
  if (call.out.numel() == 0) return;
  switch (call.out.dtype()) {
    case DType::float64:
      return float_products<double>(call.a, call.b, call.out);
    case DType::int64:
      return integer_products<int64_t>(call.a, call.b, call.out);
    case DType::int32:
      return integer_products<int32_t>(call.a, call.b, call.out);
    case DType::uint8:
      return integer_products<uint8_t>(call.a, call.b, call.out);
    case DType::boolean:
      fail("matmul: bool matrices have no product; convert with to()");
    case DType::float32:
      return call.a.dtype() == kFloat32 ? float_products<float>(call.a, call.b, call.out)
                                        : products_of_halves(call.a, call.b, call.out);
    default:
      return products_of_halves(call.a, call.b, call.out);
  }
}

}  // namespace hero::core::cpu
