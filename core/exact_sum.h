#pragma once
// ExactSum: sums of squares and magnitudes whose bits depend on nothing but the numbers: not on
// their order, not on how an array is cut into shards, not on threads or processors.
#include <array>
#include <span>
#include <vector>

#include <hero/core/backend.h>

namespace hero::core {

/// An exact sum of numbers that are 0 or more: an integer in units of 2^-2176, wide enough for 2^64
/// squares of any float64, so that nothing is rounded before the end. Infinities and NaN are
/// remembered beside it. Kulisch, "Computer Arithmetic and Validity", 2013; the idea of words with
/// room for carries: R. M. Neal, arXiv 1505.05571.
class ExactSum {
 public:
  /// The words' layout, which backends know too: digits of 32 bits, the lowest first and of weight
  /// 2^kLowest, and then what is not finite: kInfinite or kNan for each such find.
  static constexpr int kLowest = -2176;  // a multiple of 32
  static constexpr size_t kDigits = 134;
  static constexpr size_t kWords = kDigits + 1;
  // Counted separately in one word: the two must not meet when words of many sums are added up.
  static constexpr int64_t kInfinite = 1;
  static constexpr int64_t kNan = int64_t{1} << 32;

  /// Adds x >= 0, which may be infinite or NaN; an Error for a negative number.
  void add(double x);
  void add(const ExactSum& other);
  /// Adds the square, or the magnitude, of every element of an array of floating dtype; nothing on
  /// meta, where there are no values. On a GPU it is added there, and fetched when the sum is asked
  /// for: the host waits once for any number of arrays.
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
  // Each add() moves a digit by less than 2^33, so so many of them cannot overflow an int64.
  static constexpr int kMostAdds = 1 << 29;
  // The sum is mantissa * 2^exponent, the mantissa rounded to 53 bits; 0 for 0.
  struct Rounded {
    double mantissa;
    int exponent;
    int64_t special;  // the word of what is not finite
  };
  struct Square;
  struct Magnitude;

  void add_integer(int64_t value, int exponent);
  void add_term(double x);
  void add_square(double x);
  void carry();
  void carry_digits();
  const Array& words_on(Device device);
  void fetch();
  Rounded rounded() const;
  template <class Term>
  void add_array(const Array& x);
  template <class Term, class T>
  void add_span(const T* x, int64_t n);
  template <class Term>
  bool add_block(const float* x, int64_t n);
  int64_t& not_finite() { return words_[kDigits]; }

  std::vector<Array> elsewhere_;  // words of other devices
  // Not yet carried while adds_ > 0.
  std::array<int64_t, kWords> words_{};
  int adds_ = 0;
};

}  // namespace hero::core
