#pragma once
// Text from outside as a terminal may show it.
#include <string>
#include <string_view>

namespace hero {

/// `text` in one line without anything that a terminal obeys: newlines and tabs become spaces;
/// other control characters, bytes that are no UTF-8 and the marks that turn the direction of
/// writing become escapes, a backslash with x1b or u202e. Names in files may hold all of these, and
/// error messages show names. Done twice it is as done once.
std::string printable(std::string_view text);

/// `text` with escapes, a backslash with xff, for the bytes that are no UTF-8, and all others as
/// they are: what goes into JSON, HTML and TensorBoard's files, which consist of UTF-8.
std::string utf8_text(std::string_view text);

}  // namespace hero
