#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/reduce/exact_squares.h>
#include <hero/core/functions/each_group.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/pieces.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core {

namespace {

constexpr int64_t kBlock = 512;    // elements that share a grid
constexpr int64_t kGrain = 32768;  // elements a thread takes at a time
constexpr int kParts = 3;          // pieces a term is cut into
constexpr int kPartBits = 51;      // bits of a piece

}  // namespace

// What is summed of each element; exact for a float32.
struct ExactSum::Square {
  static constexpr ReduceKind kOp = ReduceKind::sum_square;
  static double of(float x) { return static_cast<double>(x) * static_cast<double>(x); }
  static void add(ExactSum& sum, float x) { sum.add_term(of(x)); }
  static void add(ExactSum& sum, double x) { sum.add_square(x); }
};
struct ExactSum::Magnitude {
  static constexpr ReduceKind kOp = ReduceKind::sum_abs;
  static double of(float x) { return std::fabs(static_cast<double>(x)); }
  static void add(ExactSum& sum, double x) { sum.add_term(x); }
};

// value * 2^exponent, by the three digits that it reaches.
void ExactSum::add_integer(int64_t value, int exponent) {
  if (adds_ == kMostAdds) carry();
  ++adds_;
  exact::split_integer(value, exponent,
                       [&](int digit, int64_t amount) { words_.data()[digit] += amount; });
}

// |x|
void ExactSum::add_term(double x) {
  if (exact::exponent_field(x) == exact::kExponents) {
    not_finite() |= x != x ? exact::kNan : exact::kInfinite;
    return;
  }
  const auto [integer, exponent] = exact::parts_of(x);
  add_integer(integer, exponent);
}

void ExactSum::add_square(double x) {
  if (exact::exponent_field(x) == exact::kExponents) return add_term(x);
  exact::split_square(x, [&](int64_t value, int exponent) { add_integer(value, exponent); });
}

// Adds the terms of up to kBlock elements. Each term is cut on fixed grids into parts of kPartBits
// below the largest term's leading bit: adding and subtracting `offset` rounds to a multiple of the
// grid, and that multiple stands in the last bits of the sum, where integers add it up in any
// order. False, with nothing added, where bits are left below the last grid or an element is not
// finite.
template <class Term>
bool ExactSum::add_block(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu);
  }
  if (largest == 0) return true;
  if (largest >= 0x7F800000u) return false;
  int grid = std::ilogb(Term::of(std::bit_cast<float>(largest))) + 1 - kPartBits;
  std::array<double, kParts> offset;
  for (int p = 0; p < kParts; ++p) {
    offset[static_cast<size_t>(p)] = std::ldexp(1.5, 52 + grid - p * kPartBits);
  }
  const auto [offset0, offset1, offset2] = offset;
  uint64_t sum0 = 0, sum1 = 0, sum2 = 0, rest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double term = Term::of(x[i]);
    const double shifted0 = term + offset0, rest0 = term - (shifted0 - offset0);
    const double shifted1 = rest0 + offset1, rest1 = rest0 - (shifted1 - offset1);
    const double shifted2 = rest1 + offset2, rest2 = rest1 - (shifted2 - offset2);
    sum0 += std::bit_cast<uint64_t>(shifted0);
    sum1 += std::bit_cast<uint64_t>(shifted1);
    sum2 += std::bit_cast<uint64_t>(shifted2);
    rest |= std::bit_cast<uint64_t>(rest2);
  }
  if (rest << 1 != 0) return false;
  const std::array<uint64_t, kParts> sums = {sum0, sum1, sum2};
  for (size_t p = 0; p < kParts; ++p, grid -= kPartBits) {
    const uint64_t offsets = static_cast<uint64_t>(n) * std::bit_cast<uint64_t>(offset[p]);
    add_integer(static_cast<int64_t>(sums[p] - offsets), grid);
  }
  return true;
}

bool ExactSum::add_close_squares(const float* x) {
  static_assert(kBlock == cpu::kCloseSquares);
  cpu::CloseSum sum;
  if (!cpu::add_up_close_squares(x, sum)) return false;
  add_integer(sum.grids, sum.grid);
  add_integer(sum.units, sum.unit);
  return true;
}

template <class Term, class T>
void ExactSum::add_span(const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < n; ++i) Term::add(*this, x[i]);
  } else {
    std::array<float, kBlock> wide;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = std::min(kBlock, n - begin);
      const float* block = wide.data();
      if constexpr (std::is_same_v<T, float>) {
        block = x + begin;
      } else {
        for (int64_t i = 0; i < count; ++i) {
          wide[static_cast<size_t>(i)] = convert<float>(x[begin + i]);
        }
      }
      if constexpr (std::is_same_v<Term, Square>) {
        if (count == kBlock && add_close_squares(block)) continue;
      }
      if (add_block<Term>(block, count)) continue;
      for (int64_t i = 0; i < count; ++i) Term::add(*this, block[i]);
    }
  }
}

template <class Term>
void ExactSum::add_arrays(std::span<const Array> xs) {
  bool dense_here = true;
  for (const Array& x : xs) {
    check(is_floating(x.dtype()), "exact_sum: array is ", x.dtype(), "; it must be floating");
    dense_here = dense_here && x.device().type == DeviceType::cpu && x.is_contiguous();
  }
  if (dense_here) return add_by_kernels(Term::kOp, xs);
  std::vector<Array> here, others;
  for (const Array& x : xs) {
    if (x.device().type == DeviceType::meta || x.numel() == 0) continue;
    x.device().type == DeviceType::cpu ? here.push_back(x.contiguous()) : others.push_back(x);
  }
  add_by_kernels(Term::kOp, here);
  each_group(std::move(others), &Array::device, [&](Device device, std::span<const Array> there) {
    backend(device).run(call::ExactSum{Term::kOp, there, words_there(device)});
  });
}

void ExactSum::add_by_kernels(ReduceKind op, std::span<const Array> xs) {
  if (xs.empty()) return;
  std::array<int64_t, exact::kWords> found{};
  cpu::kernels().exact_sum(op, xs, found.data());
  add_words_of(found);
}

void ExactSum::add_on_level(ReduceKind op, std::span<const Array> xs) {
  op == ReduceKind::sum_abs ? add_host_arrays<Magnitude>(xs) : add_host_arrays<Square>(xs);
}

template <class Term>
void ExactSum::add_host_arrays(std::span<const Array> xs) {
  Pieces pieces;
  for (const Array& x : xs) pieces.append(x.numel());
  if (pieces.length() == 0) return;
  const auto add_pieces = [&](ExactSum& sum, int64_t begin, int64_t end) {
    pieces.each(begin, end, [&](size_t i, int64_t from, int64_t to) {
      dispatch(xs[i].dtype(), [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) sum.add_span<Term>(xs[i].data<T>() + from, to - from);
      });
    });
  };
  if (pieces.length() <= kGrain) return add_pieces(*this, 0, pieces.length());
  std::mutex merging;
  parallel_for(pieces.length(), kGrain, [&](int64_t begin, int64_t end) {
    ExactSum part;
    add_pieces(part, begin, end);
    const std::lock_guard lock(merging);
    add(part);
  });
}

void ExactSum::add(double x) {
  check(!(x < 0.0), "exact_sum: a number is negative: ", x);
  add_term(x);
}

void ExactSum::add(const ExactSum& other) {
  const int adds = std::max(other.adds_, 1);
  if (adds > kMostAdds / 2 || !other.elsewhere_.empty()) {
    ExactSum carried = other;
    carried.carry();
    return add(carried);
  }
  if (adds_ > kMostAdds - adds) carry();
  adds_ += adds;
  for (size_t i = 0; i < exact::kDigits; ++i) words_[i] += other.words_[i];
  not_finite() |= other.words_[exact::kDigits];
}

void ExactSum::add_squares(std::span<const Array> xs) { add_arrays<Square>(xs); }
void ExactSum::add_squares(const float* x, int64_t n) { add_span<Square>(x, n); }
void ExactSum::add_magnitudes(std::span<const Array> xs) { add_arrays<Magnitude>(xs); }

const Array& ExactSum::words_there(Device device) {
  for (const Array& words : elsewhere_) {
    if (words.device() == device) return words;
  }
  return elsewhere_.emplace_back(Array::zeros({exact::kWords}, kInt64, device));
}

// Digits of devices are carried per block there, so that they have room for 2^30 blocks.
void ExactSum::fetch() {
  for (const Array& there : std::exchange(elsewhere_, {})) {
    std::vector<int64_t> found = there.to_vector<int64_t>();
    exact::carry(found.data());
    for (size_t i = 0; i < exact::kDigits; ++i) words_[i] += found[i];
    not_finite() |= found[exact::kDigits];
    exact::carry(words_.data());
  }
}

void ExactSum::carry() {
  exact::carry(words_.data());
  adds_ = 0;
  if (!elsewhere_.empty()) fetch();
}

std::span<int64_t> ExactSum::words() {
  carry();
  adds_ = kMostAdds;  // somebody may add to them: the next add() carries first
  return words_;
}

bool ExactSum::finite() const {
  ExactSum carried = *this;
  carried.carry();
  return carried.not_finite() == 0;
}

double ExactSum::value() const { return exact::value(ExactSum(*this).words().data()); }
double ExactSum::root() const { return exact::root(ExactSum(*this).words().data()); }

bool ExactSum::none_here() const {
  return std::all_of(words_.begin(), words_.end(), [](int64_t word) { return word == 0; });
}

Array ExactSum::words_on(Device device) const {
  if (device.type == DeviceType::meta) return Array::zeros({exact::kWords}, kInt64, device);
  if (none_here()) {
    if (elsewhere_.empty()) return Array::zeros({exact::kWords}, kInt64, device);
    if (elsewhere_.size() == 1 && elsewhere_[0].device() == device) return elsewhere_[0].clone();
  }
  ExactSum carried = *this;
  carried.carry();
  return Array::from(std::span<const int64_t>(carried.words_), {exact::kWords}).to(device);
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
  add_words_of({words.data<int64_t>(), exact::kWords});
}

void ExactSum::add_words_of(std::span<const int64_t> words) {
  ExactSum other;
  std::copy_n(words.data(), other.words_.size(), other.words_.begin());
  other.carry();
  add(other);
}

Array ExactSum::result_on(Device device, SumResult result) const {
  if (none_here() && elsewhere_.size() == 1 && elsewhere_[0].device() == device) {
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
