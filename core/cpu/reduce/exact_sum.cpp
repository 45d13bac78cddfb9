#include <array>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/exact_sum.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/clip_norm.h>
#include <hero/core/kernels/elementwise.h>

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

void CpuBackend::run(const call::ExactSum& call) {
  std::vector<Array> dense;
  dense.reserve(call.xs.size());
  for (const Array& x : call.xs) dense.push_back(x.contiguous());
  const std::span<const Array> all = dense;
  auto* const first = call.words.data<int64_t>();
  if (call.words.ndim() == 1) return add_exact_sum(call.op, all, first);
  for (size_t i = 0; i < all.size(); ++i) {
    add_exact_sum(call.op, all.subspan(i, 1), first + i * exact::kWords);
  }
}

void CpuBackend::run(const call::ExactResult& call) {
  for (int64_t i = 0; i < call.out.numel(); ++i) {
    const int64_t* const found = call.words.data<int64_t>() + i * exact::kWords;
    double& value = call.out.data<double>()[i];
    if (is_carried(found)) {
      value = result_of(call.result, found);
      continue;
    }
    std::array<int64_t, exact::kWords> carried;
    std::copy_n(found, carried.size(), carried.begin());
    exact::carry(carried.data());
    value = result_of(call.result, carried.data());
  }
}

void CpuBackend::run(const call::ClipNorm& call) {
  const double factor = clip_factor(call.max_norm, *call.norm.data<double>());
  if (factor >= 1.0) return;
  for (const Array& x : call.xs) map_into<kernels::Mul>(x, x, Scalar(factor));
}

}  // namespace hero::core::cpu
