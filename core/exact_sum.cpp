#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include <hero/core/exact_sum.h>
#include <hero/core/thread_pool.h>

namespace hero::core {

namespace {

constexpr int64_t kBlock = 512;    // elements that share a grid
constexpr int64_t kGrain = 32768;  // elements a thread takes at a time
constexpr int kParts = 3;          // pieces a term is cut into
constexpr int kPartBits = 51;      // bits of a piece

constexpr int64_t kDigitMask = 0xFFFFFFFF;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
constexpr int kExponents = 0x7FF;  // the exponent field of what is not finite

// A finite double as integer * 2^exponent; its sign is dropped.
struct Parts {
  int64_t integer;
  int exponent;
};

int exponent_field(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52) & kExponents;
}

Parts parts_of(double x) {
  const auto fraction = static_cast<int64_t>(std::bit_cast<uint64_t>(x) & kFraction);
  const int field = exponent_field(x);
  if (field == 0) return {fraction, -1074};
  return {fraction | (int64_t{1} << 52), field - 1075};
}

}  // namespace

// What is summed of each element; exact for a float32.
struct ExactSum::Square {
  static constexpr ReduceOp kOp = ReduceOp::sum_square;
  static double of(float x) { return static_cast<double>(x) * static_cast<double>(x); }
  static void add(ExactSum& sum, float x) { sum.add_term(of(x)); }
  static void add(ExactSum& sum, double x) { sum.add_square(x); }
};
struct ExactSum::Magnitude {
  static constexpr ReduceOp kOp = ReduceOp::sum_abs;
  static double of(float x) { return std::fabs(static_cast<double>(x)); }
  static void add(ExactSum& sum, double x) { sum.add_term(x); }
};

// value * 2^exponent, by the three digits that it reaches.
void ExactSum::add_integer(int64_t value, int exponent) {
  if (adds_ == kMostAdds) carry();
  ++adds_;
  const int position = exponent - kLowest;
  const int shift = position % 32;
  int64_t* digit = words_.data() + position / 32;
  const int64_t low = (value & kDigitMask) << shift;
  const int64_t high = (value >> 32) * (int64_t{1} << shift);
  digit[0] += low & kDigitMask;
  digit[1] += (low >> 32) + (high & kDigitMask);
  digit[2] += high >> 32;
}

// |x|
void ExactSum::add_term(double x) {
  if (exponent_field(x) == kExponents) {
    not_finite() |= x != x ? kNan : kInfinite;
    return;
  }
  const auto [integer, exponent] = parts_of(x);
  add_integer(integer, exponent);
}

// (a * 2^27 + b)^2 in two integers: all 106 bits, whether or not a double could hold the square.
void ExactSum::add_square(double x) {
  if (exponent_field(x) == kExponents) return add_term(x);
  constexpr int64_t kHalf = int64_t{1} << 27;
  const auto [integer, exponent] = parts_of(x);
  const int64_t a = integer / kHalf, b = integer % kHalf, middle = 2 * a * b;
  add_integer(a * a + middle / kHalf, 2 * exponent + 54);
  add_integer(b * b + middle % kHalf * kHalf, 2 * exponent);
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
      if (add_block<Term>(block, count)) continue;
      for (int64_t i = 0; i < count; ++i) Term::add(*this, block[i]);
    }
  }
}

template <class Term>
void ExactSum::add_array(const Array& x) {
  check(is_floating(x.dtype()), "exact_sum: array is ", x.dtype(), "; it must be floating");
  if (x.device().type == DeviceType::meta || x.numel() == 0) return;
  if (x.device().type != DeviceType::cpu) {
    return backend(x.device()).exact_sum(Term::kOp, x, words_on(x.device()));
  }
  const Array values = x.contiguous();
  std::mutex merging;
  dispatch(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) {
      const T* data = values.data<T>();
      parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
        ExactSum part;
        part.add_span<Term>(data + begin, end - begin);
        const std::lock_guard lock(merging);
        add(part);
      });
    }
  });
}

void ExactSum::add(double x) {
  check(!(x < 0.0), "exact_sum: a number is negative: ", x);
  add_term(x);
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  if (adds_ == kMostAdds) carry();
  ++adds_;
  for (size_t i = 0; i < kDigits; ++i) words_[i] += carried.words_[i];
  not_finite() |= carried.not_finite();
}

void ExactSum::add_squares(const Array& x) { add_array<Square>(x); }
void ExactSum::add_magnitudes(const Array& x) { add_array<Magnitude>(x); }

const Array& ExactSum::words_on(Device device) {
  for (const Array& words : elsewhere_) {
    if (words.device() == device) return words;
  }
  return elsewhere_.emplace_back(Array::zeros({kWords}, kInt64, device));
}

// Digits of devices are carried per block there, so that they have room for 2^30 blocks.
void ExactSum::fetch() {
  for (const Array& there : std::exchange(elsewhere_, {})) {
    const std::vector<int64_t> found = there.to_vector<int64_t>();
    for (size_t i = 0; i < kDigits; ++i) words_[i] += found[i];
    const int64_t special = found[kDigits];
    not_finite() |= (special >= kNan ? kNan : 0) | (special % kNan != 0 ? kInfinite : 0);
    carry_digits();
  }
}

// Every digit but the highest into [0, 2^32), and what is not finite to one of a kind.
void ExactSum::carry() {
  carry_digits();
  if (!elsewhere_.empty()) fetch();
}

void ExactSum::carry_digits() {
  int64_t carried = 0;
  for (size_t i = 0; i < kDigits; ++i) {
    const int64_t digit = words_[i] + carried;
    const bool highest = i + 1 == kDigits;
    carried = highest ? 0 : digit >> 32;
    words_[i] = highest ? digit : digit & kDigitMask;
  }
  const int64_t special = not_finite();
  not_finite() = (special >= kNan ? kNan : 0) | (special % kNan != 0 ? kInfinite : 0);
  adds_ = 0;
}

std::span<int64_t> ExactSum::words() {
  carry();
  adds_ = kMostAdds;  // somebody may add to them: the next add() carries first
  return words_;
}

// The 64 bits from the highest one on, the last of them also 1 where a lower one is: rounded to 53
// bits they give what the whole sum would give.
ExactSum::Rounded ExactSum::rounded() const {
  ExactSum carried = *this;
  carried.carry();
  size_t top = kDigits - 1;
  while (top > 2 && carried.words_[top] == 0) --top;
  const auto first = static_cast<uint64_t>(carried.words_[top]);
  const auto second = static_cast<uint64_t>(carried.words_[top - 1]);
  const auto third = static_cast<uint64_t>(carried.words_[top - 2]);
  const int shift = std::min(std::countl_zero(first) - 32, 31);
  uint64_t bits = ((first << 32 | second) << shift) | (third >> (32 - shift));
  bool below = third << (32 + shift) != 0;
  for (size_t i = 0; i + 2 < top; ++i) below = below || carried.words_[i] != 0;
  if (below) bits |= 1;
  return {static_cast<double>(bits), kLowest + 32 * (static_cast<int>(top) - 1) - shift,
          carried.words_[kDigits]};
}

double ExactSum::value() const {
  const auto [mantissa, exponent, special] = rounded();
  if (special != 0) return special >= kNan ? kNotANumber : kInfinity;
  return std::ldexp(mantissa, exponent);
}

double ExactSum::root() const {
  const auto [mantissa, exponent, special] = rounded();
  if (special != 0) return special >= kNan ? kNotANumber : kInfinity;
  const bool odd = exponent % 2 != 0;
  return std::ldexp(std::sqrt(odd ? 2.0 * mantissa : mantissa), (exponent - (odd ? 1 : 0)) / 2);
}

}  // namespace hero::core
