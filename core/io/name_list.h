#pragma once
// Names and texts from outside in errors, shortened so that an error stays one line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::core {

/// True for a continuation byte of UTF-8 (10xxxxxx), before which texts must not be cut. A
/// character has at most four bytes.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// A text as an error quotes it: whole if it has at most `most` bytes (at least 4), else at most
/// that many bytes of its start, cut between two characters of UTF-8 and followed by "...".
std::string cut_text(std::string_view text, size_t most = 80);

/// The first names of a list, each cut to 200 bytes, and how many more there are: "a, b, c .. and
/// 12 more". The state of a model has thousands of names, and an error that lists them all would be
/// unreadable.
class NameList {
 public:
  /// The number of names that are shown.
  static constexpr int64_t kShown = 8;

  /// Makes an empty list; text() writes `separator` between names, each of which is cut to
  /// `longest` bytes.
  explicit NameList(std::string_view separator = ", ", size_t longest = 200)
      : separator_(separator), longest_(longest) {}

  /// Adds a name to the end.
  void add(std::string_view name);
  bool empty() const { return count_ == 0; }
  /// The list as text; "" if it is empty.
  std::string text() const;

 private:
  std::string_view separator_;
  size_t longest_;
  std::string shown_;
  int64_t count_ = 0;
};

}  // namespace hero::core
