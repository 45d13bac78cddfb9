#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

void reduce_floats(core::ReduceKind op, DType dtype, const Reduction& r, const Array* center,
                   const Array& results) {
  if (dtype == kFloat64) return reduce_real<double, double>(op, r, center, results);
  reduce_real<float, float>(op, r, center, results);
}

}  // namespace hero::cuda
