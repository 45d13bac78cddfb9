#pragma once
// Grading an answer to an exercise: checks that run one after the other, and what they say.
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exercises/support/answer.h"

namespace exercise {

/// What an answer gets wrong, in whole sentences.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A part of a sentence: a text, a letter, a whole number, or what has a to_string() beside its
/// type. number() makes a text of other numbers.
template <class Part>
std::string text_of(const Part& part) {
  static_assert(!std::is_floating_point_v<Part>, "number() says how many digits are shown");
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    return std::string(std::string_view(part));
  } else if constexpr (std::is_same_v<Part, char>) {
    return std::string(1, part);
  } else {
    using std::to_string;
    return to_string(part);
  }
}

/// Throws Wrong, with the parts of its text one behind the other, unless `right`.
template <class... Parts>
void require(bool right, const Parts&... parts) {
  if (right) return;
  throw Wrong((std::string() + ... + text_of(parts)));
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

/// A row of a drawing of time: each character of `row` is as long, and says what is done then; a
/// point: nothing. A lower-case letter is a backward.
struct Lane {
  std::string label, row;
  const char* colour;
};

/// The lanes, all as long, as lines of text that may follow a sentence. They are also drawn, under
/// that title, into the SVG file that tutorials/exercise names after its exercise and `name`.
std::string draw(const std::string& name, const std::string& title, const std::vector<Lane>& lanes);

/// \name Numbers as grades show them
/// \{
/// As few digits as tell a float64 from all others.
std::string number(double value);
/// "1,234,567".
std::string grouped(int64_t value);
/// True where the two differ by no more than a few roundings of float64.
bool near(double a, double b, double tolerance = 1e-12);
/// \}

}  // namespace exercise
