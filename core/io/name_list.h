#pragma once
// Lists and texts from outside in errors: as much of them as leaves the error one line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::core {

/// True of a byte of UTF-8 (10xxxxxx) that goes on with a character, of at most four bytes, which
/// began before it: texts are not cut in front of it.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// A text as an error quotes it: whole if it has at most `most` bytes, at least 4, else so many
/// bytes of its start, cut between two characters of UTF-8, with "..." behind them.
std::string cut_text(std::string_view text, size_t most = 80);

/// The first names of a list, each cut to 200 bytes, and how many more there are: "a, b, c .. and
/// 12 more". The state of a model has thousands of names, of which an error that lists them all
/// would hide what it says.
class NameList {
 public:
  /// So many names are shown.
  static constexpr int64_t kShown = 8;

  /// An empty list, which will be written with this between two names, each cut to so many bytes.
  explicit NameList(std::string_view separator = ", ", size_t longest = 200)
      : separator_(separator), longest_(longest) {}

  /// Adds a name to the end.
  void add(std::string_view name);
  bool empty() const { return count_ == 0; }
  /// The list as text; "" of nothing.
  std::string text() const;

 private:
  std::string_view separator_;
  size_t longest_;
  std::string shown_;
  int64_t count_ = 0;
};

}  // namespace hero::core
