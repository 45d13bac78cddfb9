#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include <hero/nn/data/bpe_split.h>
#include <hero/nn/data/unicode_table.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

enum class Class : uint8_t { other, letter, number, space };

Class class_of(uint32_t code_point) {
  // The first change above the code point; the one before it tells.
  const auto above = std::upper_bound(std::begin(kUnicodeClasses), std::end(kUnicodeClasses),
                                      code_point << 2 | 3u);
  return above == std::begin(kUnicodeClasses) ? Class::other
                                              : static_cast<Class>(*std::prev(above) & 3u);
}

std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> classes;
  for (uint32_t i = 0; i < classes.size(); ++i) classes[i] = class_of(i);
  return classes;
}
const std::array<Class, 128> kAscii = ascii_classes();

struct Character {
  Class kind;
  size_t length;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < kAscii.size()) [[likely]]
    return {kAscii[byte], 1};
  const CodePoint one = code_point_at(text, at);
  return {one.value == kInvalidCodePoint ? Class::other : class_of(one.value), one.length};
}

// The end of the run of `kind` from `at` on.
size_t run_end(std::string_view text, size_t at, Class kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd at `at`, where an apostrophe lies; 0 for none.
size_t contraction(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (std::string_view("stmd").find(rest[0]) != rest.npos) return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

// \s+(?!\S)|\s+ : all of the white space at the end of the text, else all but its last character,
// but at least one.
size_t space_end(std::string_view text, size_t at) {
  size_t end = at, last = at;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (next.kind != Class::space) return last > at ? last : end;
    last = end;
    end += next.length;
  }
  return end;
}

}  // namespace

size_t bpe_piece_end(std::string_view text, size_t at) {
  const Character first = character_at(text, at);
  if (text[at] == '\'') {
    if (const size_t length = contraction(text, at); length > 0) return at + length;
  }
  if (first.kind != Class::space) return run_end(text, at + first.length, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Character next = character_at(text, at + 1);
    if (next.kind != Class::space) return run_end(text, at + 1 + next.length, next.kind);
  }
  return space_end(text, at);
}

std::vector<std::string_view> bpe_split(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = bpe_piece_end(text, at);
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

}  // namespace hero::nn::data
