#pragma once
// Grading an answer to an exercise: checks that run one after the other, and what they say.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/support/answer.h"

#include <hero/core/array.h>
#include <hero/core/error.h>

namespace exercise {

/// What an answer gets wrong, in whole sentences.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws Wrong, with the parts of its text one behind the other, unless `right`.
template <class... Parts>
void require(bool right, const Parts&... parts) {
  if (right) return;
  std::string text;
  (hero::detail::append(text, parts), ...);
  throw Wrong(text);
}

/// One part of a grade.
struct Check {
  std::string name;  ///< the first column of its lines
  /// Says in a sentence what is right, or throws Wrong. Lines that follow the sentence, after a
  /// line's end, are printed as they are.
  std::function<std::string()> run;
  /// Why it may not have ended in time.
  std::string if_it_hangs = "Look for a loop that never ends.";
};

/// The body of main(): runs the checks, each in a process of its own, until one is not right, and
/// prints what each says. An answer that throws, crashes or does not end is a wrong answer. The
/// exit status: 0 all is right, 1 something is wrong, 3 something is still to be written.
int grade(const std::string& title, const std::vector<Check>& checks);

/// \name Numbers as grades show them
/// \{
/// As few digits as tell the number from all others of its dtype.
std::string number(double value, hero::DType dtype = hero::kFloat64);
/// "1,234,567".
std::string grouped(int64_t value);
/// "[3, 17]" of an element that is counted through all rows; "" of a scalar's.
std::string index_text(const hero::Shape& shape, int64_t element);
/// True where the two differ by no more than a few roundings of float64.
bool near(double a, double b, double tolerance = 1e-12);
/// \}

/// An array with a name.
struct Named {
  std::string name;
  hero::Array values;
};

/// The first element in which two lists of the same names differ by a bit.
struct Difference {
  bool found = false;
  size_t which = 0;       ///< the array's place in the list
  int64_t element = 0;    ///< of the array, counted through all its rows
  std::string text = {};  ///< "fc1.weight[3, 17] is 0.25 and should be 0.5"
};
Difference first_difference(const std::vector<Named>& got, const std::vector<Named>& right);

}  // namespace exercise
