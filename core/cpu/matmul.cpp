#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/gemm.h>

namespace hero::core::cpu {

void CpuBackend::matmul(const Array& a, const Array& b, const Array& out) {
  if (out.numel() == 0) return;
  // Halves are multiplied in float; integers in double would lose bits, so they go one by one.
  const auto run = [&]<class T>(TypeTag<T>) {
    gemm_batched<T>(out.size(0), a.size(1), b.size(2), a.size(2), a.data<T>(), a.strides()[0],
                    a.strides()[1], a.strides()[2], b.data<T>(), b.strides()[0], b.strides()[1],
                    b.strides()[2], out.data<T>(), out.strides()[0], out.strides()[1]);
  };
  if (out.dtype() == kFloat64) return run(TypeTag<double>{});
  run(TypeTag<float>{});
}

}  // namespace hero::core::cpu
