#pragma once
// ExactSum: sums of squares and magnitudes whose bits depend on nothing but the numbers: not on
// their order, not on how an array is cut into shards, not on threads or processors.
#include <span>
#include <vector>

#include <hero/core/device/backend.h>
#include <hero/core/functions/exact_accumulator.h>

namespace hero::core {

/// An exact sum of numbers that are 0 or more: an integer in units of 2^-2176, wide enough for 2^64
/// squares of any float64, so that nothing is rounded before the end. Infinities and NaN are
/// remembered beside it. Kulisch, "Computer Arithmetic and Validity", 2013; the idea of words with
/// room for carries: R. M. Neal, arXiv 1505.05571.
class ExactSum {
 public:
  /// Adds x >= 0, which may be infinite or NaN; an Error for a negative number.
  void add(double x);
  void add(const ExactSum& other);
  /// Adds the square, or the magnitude, of every element of arrays of floating dtype; nothing on
  /// meta, where there are no values. On a GPU they are added there, many arrays at once, and
  /// fetched when the host asks for the sum.
  void add_squares(std::span<const Array> xs);
  void add_squares(const Array& x) { add_squares({&x, 1}); }
  void add_magnitudes(std::span<const Array> xs);
  void add_magnitudes(const Array& x) { add_magnitudes({&x, 1}); }

  /// The sum as words (core/kernels/exact_digits.h), the same ones for the same sum. Added up word
  /// by word, the words of up to 2^30 sums are those of their sum.
  std::span<const int64_t> words();
  /// Whether no infinity or NaN was added.
  bool finite() const;
  /// The sum, rounded once to the nearest double (twice where it is below 2^-1022).
  double value() const;
  /// The square root of the sum, which overflows only if the root itself does.
  double root() const;
  /// \name Words as arrays, int64 [exact::kWords]: those of the sum, on `device`, and some to be
  /// added to it. Where all terms lie on that device the host does not wait. They need not be the
  /// same for the same sum, but up to 2^10 of them may be added up word by word.
  /// \{
  Array words_on(Device device) const;
  void add_words(const Array& words);
  /// \}
  /// \name The same numbers as a float64 array of shape [] on `device`.
  /// Where all terms lie on that device it computes them, and the host does not wait.
  /// \{
  Array value_on(Device device) const { return result_on(device, SumResult::value); }
  Array root_on(Device device) const { return result_on(device, SumResult::root); }
  /// \}

 private:
  void add_arrays(ReduceKind op, std::span<const Array> xs);
  void add_here(ReduceKind op, std::span<const Array> xs);
  const Array& words_there(Device device);
  void fetch();
  Array result_on(Device device, SumResult result) const;

  std::vector<Array> elsewhere_;  // words of other devices
  ExactAccumulator here_;
};

/// The words of the sum of squares of each of the arrays, which have floating dtypes and are on one
/// device: int64 [xs.size(), exact::kWords] on that device.
Array words_of_squares(std::span<const Array> xs);
/// The square roots of n sums, float64 [n], given their words, int64 [n, exact::kWords].
Array roots_of_words(const Array& words);

}  // namespace hero::core
