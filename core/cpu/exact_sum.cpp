#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/elementwise.h>
#include <hero/core/exact_sum.h>
#include <hero/core/limit_norm.h>
#include <hero/core/map.h>

namespace hero::core::cpu {

void CpuBackend::exact_sum(ReduceOp op, std::span<const Array> xs, const Array& words) {
  ExactSum sum;
  op == ReduceOp::sum_abs ? sum.add_magnitudes(xs) : sum.add_squares(xs);
  int64_t* word = words.data<int64_t>();
  for (const int64_t more : sum.words()) *word++ += more;
}

void CpuBackend::exact_result(SumResult result, const Array& words, const Array& out) {
  std::array<int64_t, exact::kWords> carried;
  std::copy_n(words.data<int64_t>(), carried.size(), carried.begin());
  exact::carry(carried.data());
  *out.data<double>() =
      result == SumResult::root ? exact::root(carried.data()) : exact::value(carried.data());
}

void CpuBackend::limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) {
  const double factor = limit_factor(max_norm, *norm.data<double>());
  if (factor >= 1.0) return;
  for (const Array& x : xs) map_into<kernels::Mul>(x, x, Scalar(factor));
}

}  // namespace hero::core::cpu
