#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/exact_sum.h>

namespace hero::core::cpu {

void CpuBackend::exact_sum(ReduceOp op, const Array& x, const Array& words) {
  ExactSum sum;
  op == ReduceOp::sum_abs ? sum.add_magnitudes(x) : sum.add_squares(x);
  int64_t* word = words.data<int64_t>();
  for (const int64_t more : sum.words()) *word++ += more;
}

}  // namespace hero::core::cpu
