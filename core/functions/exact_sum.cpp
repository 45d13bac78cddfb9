#include <algorithm>
#include <utility>
#include <vector>

#include <hero/core/functions/each_group.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/profile/kernel_cost.h>

namespace hero::core {

void ExactSum::add_arrays(ReduceKind op, std::span<const Array> xs) {
  bool all_here = true;
  for (const Array& x : xs) {
    check(is_floating(x.dtype()), "exact_sum: array is ", x.dtype(), "; it must be floating");
    all_here = all_here && x.device().type == DeviceType::cpu;
  }
  if (all_here) return add_here(op, xs);
  std::vector<Array> here, others;
  for (const Array& x : xs) {
    if (x.device().type == DeviceType::meta || x.numel() == 0) continue;
    (x.device().type == DeviceType::cpu ? here : others).push_back(x);
  }
  add_here(op, here);
  each_group(std::move(others), &Array::device, [&](Device device, std::span<const Array> there) {
    backend(device).run(call::ExactSum{op, there, words_there(device)});
  });
}

void ExactSum::add_here(ReduceKind op, std::span<const Array> xs) {
  if (xs.empty()) return;
  const CostScope uncounted(nullptr);  // as for arrays on meta, which have nothing to add up
  const Array words = Array::empty({exact::kWords}, kInt64);
  std::fill_n(words.data<int64_t>(), exact::kWords, 0);
  backend(kCpu).run(call::ExactSum{op, xs, words});
  add_words(words);
}

void ExactSum::add(double x) {
  check(!(x < 0.0), "exact_sum: a number is negative: ", x);
  here_.add_magnitude(x);
}

void ExactSum::add(const ExactSum& other) {
  if (!other.elsewhere_.empty()) {
    ExactSum fetched = other;
    fetched.fetch();
    return add(fetched);
  }
  here_.add(other.here_);
}

void ExactSum::add_squares(std::span<const Array> xs) { add_arrays(ReduceKind::sum_square, xs); }
void ExactSum::add_magnitudes(std::span<const Array> xs) { add_arrays(ReduceKind::sum_abs, xs); }

const Array& ExactSum::words_there(Device device) {
  for (const Array& words : elsewhere_) {
    if (words.device() == device) return words;
  }
  return elsewhere_.emplace_back(Array::zeros({exact::kWords}, kInt64, device));
}

// Digits of devices are carried per block there, so that they have room for 2^30 blocks.
void ExactSum::fetch() {
  for (const Array& there : std::exchange(elsewhere_, {})) {
    here_.add(ExactAccumulator(there.to_vector<int64_t>()));
  }
}

std::span<const int64_t> ExactSum::words() {
  fetch();
  return here_.words();
}

bool ExactSum::finite() const { return ExactSum(*this).words().back() == 0; }
double ExactSum::value() const { return exact::value(ExactSum(*this).words().data()); }
double ExactSum::root() const { return exact::root(ExactSum(*this).words().data()); }

Array ExactSum::words_on(Device device) const {
  if (device.type == DeviceType::meta) return Array::zeros({exact::kWords}, kInt64, device);
  if (here_.is_zero()) {
    if (elsewhere_.empty()) return Array::zeros({exact::kWords}, kInt64, device);
    if (elsewhere_.size() == 1 && elsewhere_[0].device() == device) return elsewhere_[0].clone();
  }
  return Array::from(ExactSum(*this).words(), {exact::kWords}).to(device);
}

void ExactSum::add_words(const Array& words) {
  check(words.dtype() == kInt64 && words.shape() == Shape{exact::kWords},
        "exact_sum: words are int64 [", exact::kWords, "], not ", words.dtype(), " ",
        words.shape());
  if (words.device().type == DeviceType::meta) return;
  if (words.device().type != DeviceType::cpu) {
    const Array& there = words_there(words.device());
    return map_into<kernels::Add>(there, there, words);
  }
  here_.add(ExactAccumulator({words.data<int64_t>(), exact::kWords}));
}

Array ExactSum::result_on(Device device, SumResult result) const {
  if (here_.is_zero() && elsewhere_.size() == 1 && elsewhere_[0].device() == device) {
    const Array out = Array::empty({}, kFloat64, device);
    backend(device).run(call::ExactResult{result, elsewhere_[0], out});
    return out;
  }
  return Array::full({}, result == SumResult::root ? root() : value(), kFloat64, device);
}

Array words_of_squares(std::span<const Array> xs) {
  const Device device = xs.empty() ? kCpu : xs[0].device();
  const auto n = static_cast<int64_t>(xs.size());
  const Array words = Array::zeros({n, exact::kWords}, kInt64, device);
  for (const Array& x : xs) {
    check(is_floating(x.dtype()), "exact_sum: array is ", x.dtype(), "; it must be floating");
    check_same_device("exact_sum", x, words);
  }
  if (n > 0) backend(device).run(call::ExactSum{ReduceKind::sum_square, xs, words});
  return words;
}

Array roots_of_words(const Array& words) {
  check(words.dtype() == kInt64 && words.ndim() == 2 && words.size(1) == exact::kWords &&
            words.is_contiguous(),
        "exact_sum: words are contiguous int64 [n, ", exact::kWords, "], not ", words.dtype(), " ",
        words.shape());
  const Array roots = Array::empty({words.size(0)}, kFloat64, words.device());
  if (words.size(0) > 0)
    backend(words.device()).run(call::ExactResult{SumResult::root, words, roots});
  return roots;
}

}  // namespace hero::core
