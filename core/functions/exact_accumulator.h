#pragma once
// The words of an exact sum while the host adds to them.
#include <algorithm>
#include <array>
#include <span>

#include <hero/core/kernels/exact_digits.h>

namespace hero::core {

/// Kulisch's accumulator: an exact sum of numbers, each added as an integer times a power of two.
/// Digits have room for many additions before what is too large for them is carried on.
class ExactAccumulator {
 public:
  ExactAccumulator() = default;
  /// The sum that these words hold, exact::kWords of them.
  explicit ExactAccumulator(std::span<const int64_t> words) {
    std::copy_n(words.data(), words_.size(), words_.begin());
    carry();
  }

  /// value * 2^exponent, by the three digits that it reaches.
  void add_integer(int64_t value, int exponent) {
    if (adds_ == kMostAdds) carry();
    ++adds_;
    exact::split_integer(value, exponent,
                         [&](int digit, int64_t amount) { words_.data()[digit] += amount; });
  }
  /// |x|, which may be infinite or NaN.
  void add_magnitude(double x) {
    if (exact::exponent_field(x) == exact::kExponents) {
      words_[exact::kDigits] |= x != x ? exact::kNan : exact::kInfinite;
      return;
    }
    const auto [integer, exponent] = exact::parts_of(x);
    add_integer(integer, exponent);
  }
  void add_square(double x) {
    if (exact::exponent_field(x) == exact::kExponents) return add_magnitude(x);
    exact::split_square(x, [&](int64_t value, int exponent) { add_integer(value, exponent); });
  }
  void add(const ExactAccumulator& other) {
    const int adds = std::max(other.adds_, 1);
    if (adds > kMostAdds / 2) return add(ExactAccumulator(other.words_));
    if (adds_ > kMostAdds - adds) carry();
    adds_ += adds;
    for (size_t i = 0; i < exact::kDigits; ++i) words_[i] += other.words_[i];
    words_[exact::kDigits] |= other.words_[exact::kDigits];
  }

  /// Carried: the same words for the same sum.
  const std::array<int64_t, exact::kWords>& words() {
    carry();
    return words_;
  }
  /// Whether nothing but zeros was added.
  bool is_zero() const {
    return std::all_of(words_.begin(), words_.end(), [](int64_t word) { return word == 0; });
  }

 private:
  // Each addition moves a digit by less than 2^33, so so many of them cannot overflow an int64.
  static constexpr int kMostAdds = 1 << 29;

  void carry() {
    exact::carry(words_.data());
    adds_ = 0;
  }

  std::array<int64_t, exact::kWords> words_{};  // not yet carried while adds_ > 0
  int adds_ = 0;
};

}  // namespace hero::core
