#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm.h>
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

}  // namespace

void BasicKernels::run(const call::Matmul& call) {
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
      if (call.a.dtype() == kFloat32) return float_products<float>(call.a, call.b, call.out);
      break;
    default:
      break;
  }
  fail_without("products of halves");
}

}  // namespace hero::core::cpu
