#pragma once
// ExactSum: sums of squares and magnitudes whose bits depend on nothing but the numbers: not on
// their order, not on how an array is cut into shards, not on threads or processors.
#include <array>
#include <span>

#include <hero/autograd/partition.h>

namespace hero::optim {

/// An exact sum of numbers that are 0 or more: an integer in units of 2^-2176, wide enough for 2^64
/// squares of any float64, so that nothing is rounded before the end. Infinities and NaN are
/// remembered beside it. Kulisch, "Computer Arithmetic and Validity", 2013; the idea of words with
/// room for carries: R. M. Neal, arXiv 1505.05571.
class ExactSum {
 public:
  /// Adds x >= 0, which may be infinite or NaN; an Error for a negative number.
  void add(double x);
  void add(const ExactSum& other);
  /// Adds the square, or the magnitude, of every element of an array of floating dtype; nothing on
  /// meta, where there are no values.
  void add_squares(const Array& x);
  void add_magnitudes(const Array& x);

  /// The sum as words, the same ones for the same sum. Added up word by word, the words of up to
  /// 2^30 sums are those of their sum.
  std::span<int64_t> words();
  /// The sum, rounded once to the nearest double (twice where it is below 2^-1022).
  double value() const;
  /// Its square root, which overflows only where the root itself does.
  double root() const;

 private:
  static constexpr int kLowest = -2176;  // exponent of the lowest bit, a multiple of 32
  static constexpr size_t kDigits = 134;
  // Each add() moves a digit by less than 2^33, so so many of them cannot overflow an int64.
  static constexpr int kMostAdds = 1 << 29;
  // The sum is mantissa * 2^exponent, the mantissa rounded to 53 bits; 0 for 0.
  struct Rounded {
    double mantissa;
    int exponent;
  };
  struct Square;
  struct Magnitude;

  void add_integer(int64_t value, int exponent);
  void add_term(double x);
  void add_square(double x);
  void carry();
  Rounded rounded() const;
  template <class Term>
  void add_array(const Array& x);
  template <class Term, class T>
  void add_span(const T* x, int64_t n);
  template <class Term>
  bool add_block(const float* x, int64_t n);
  int64_t& not_finite() { return words_[kDigits]; }

  // Digits of 32 bits, the lowest first, not yet carried while adds_ > 0; then what is not finite.
  std::array<int64_t, kDigits + 1> words_{};
  int adds_ = 0;
};

/// Each sum becomes that of all owners' sums; one collective call.
void add_up(Owners& owners, std::span<ExactSum> sums);

}  // namespace hero::optim
