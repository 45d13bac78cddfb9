#include <array>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/exact_sum.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/kernels/limit_norm.h>

namespace hero::core::cpu {

namespace {

// True for words of one sum, which need not be carried again.
bool is_carried(const int64_t* words) {
  uint64_t above = 0;
  for (int i = 0; i + 1 < exact::kDigits; ++i) above |= static_cast<uint64_t>(words[i]) >> 32;
  return above == 0 && words[exact::kDigits] == 0;
}

double result_of(SumResult result, const int64_t* words) {
  return result == SumResult::root ? exact::root(words) : exact::value(words);
}

}  // namespace

void add_exact_sum(ReduceKind op, std::span<const Array> xs, int64_t* words) {
  ExactSum sum;
  sum.add_on_level(op, xs);
  for (const int64_t more : sum.words()) *words++ += more;
}

void CpuBackend::exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) {
  std::vector<Array> dense;
  dense.reserve(xs.size());
  for (const Array& x : xs) dense.push_back(x.contiguous());
  const std::span<const Array> all = dense;
  auto* const first = words.data<int64_t>();
  if (words.ndim() == 1) return add_exact_sum(op, all, first);
  for (size_t i = 0; i < all.size(); ++i) {
    add_exact_sum(op, all.subspan(i, 1), first + i * exact::kWords);
  }
}

void CpuBackend::exact_result(SumResult result, const Array& words, const Array& out) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t* const found = words.data<int64_t>() + i * exact::kWords;
    double& value = out.data<double>()[i];
    if (is_carried(found)) {
      value = result_of(result, found);
      continue;
    }
    std::array<int64_t, exact::kWords> carried;
    std::copy_n(found, carried.size(), carried.begin());
    exact::carry(carried.data());
    value = result_of(result, carried.data());
  }
}

void CpuBackend::limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) {
  const double factor = limit_factor(max_norm, *norm.data<double>());
  if (factor >= 1.0) return;
  for (const Array& x : xs) map_into<kernels::Mul>(x, x, Scalar(factor));
}

}  // namespace hero::core::cpu
