#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

void reduce_halves(core::ReduceKind op, DType dtype, const Reduction& r, const Array* center,
                   const Array& results) {
  if (dtype == kFloat16) return reduce_real<Float16, float>(op, r, center, results);
  reduce_real<BFloat16, float>(op, r, center, results);
}

}  // namespace hero::cuda
