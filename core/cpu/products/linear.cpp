#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/functions/matmul.h>

namespace hero::core::cpu {

namespace {

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

void CpuBackend::run(const call::Matmul& call) {
  if (!is_half(call.a.dtype())) return BasicKernels::run(call);
  if (call.out.numel() > 0) products_of_halves(call.a, call.b, call.out);
}

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

}  // namespace hero::core::cpu
