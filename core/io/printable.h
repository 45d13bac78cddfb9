#pragma once
// printable(): text from outside in a form that is safe to show on a terminal.
#include <string>
#include <string_view>

namespace hero {

/// `text` in one line without control characters: newlines and tabs become spaces; other control
/// characters, bytes that are not UTF-8 and marks that change the direction of writing become
/// escapes, a backslash with x1b or u202e. Names in files may contain all of these, and error
/// messages show names. Applying it twice is the same as once.
std::string printable(std::string_view text);

/// `text` with escapes, a backslash with xff, for bytes that are not UTF-8, and all others as they
/// are: for JSON, HTML and TensorBoard's files, which have to be UTF-8.
std::string utf8_text(std::string_view text);

}  // namespace hero
