#include <algorithm>
#include <array>
#include <cstdint>

#include <hero/nn/data/bpe_split.h>
#include <hero/nn/data/unicode.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

using Class = CharacterClass;

std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> classes;
  for (uint32_t i = 0; i < classes.size(); ++i) classes[i] = character_class(i);
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
  return {character_class(one.value), one.length};
}

bool is_line_end(char byte) { return byte == '\n' || byte == '\r'; }

// The end of the run of characters of `kind` from `at` on, of at most `most` characters.
size_t run_end(std::string_view text, size_t at, Class kind, size_t most = SIZE_MAX) {
  for (; at < text.size() && most > 0; --most) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

size_t line_ends(std::string_view text, size_t at) {
  while (at < text.size() && is_line_end(text[at])) ++at;
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd at `at`, where an apostrophe lies; 0 for none.
size_t contraction(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (std::string_view("stmd").find(rest[0]) != rest.npos) return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

// The same in any case; the long s (U+017F) is one more case of s.
size_t contraction_of_any_case(std::string_view text, size_t at) {
  if (text.substr(at + 1, 2) == "\u017f") return 3;
  char lower[3] = {'\'', 0, 0};
  size_t length = 1;
  for (; length < 3 && at + length < text.size(); ++length) {
    const char one = text[at + length];
    lower[length] = one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one;
  }
  return contraction(std::string_view(lower, length), 0);
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

// \s*[\r\n]+ : up to the last end of line in a run of white space; `at` for none.
size_t last_line_end(std::string_view text, size_t at) {
  size_t end = run_end(text, at, Class::space);
  while (end > at && !is_line_end(text[end - 1])) --end;
  return end;
}

size_t gpt2_end(std::string_view text, size_t at) {
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

// Llama 3's pattern, with at most so many numbers in a piece.
size_t llama3_end(std::string_view text, size_t at, size_t numbers) {
  if (text[at] == '\'') {
    if (const size_t length = contraction_of_any_case(text, at); length > 0) return at + length;
  }
  const Character first = character_at(text, at);
  const size_t second = at + first.length;
  if (first.kind == Class::letter) return run_end(text, second, Class::letter);
  if (first.kind == Class::number) return run_end(text, at, Class::number, numbers);
  const Class next = second < text.size() ? character_at(text, second).kind : Class::space;
  if (next == Class::letter && !is_line_end(text[at])) return run_end(text, second, Class::letter);
  if (first.kind == Class::other || (text[at] == ' ' && next == Class::other)) {
    return line_ends(text, run_end(text, second, Class::other));
  }
  if (const size_t end = last_line_end(text, at); end > at) return end;
  return space_end(text, at);
}

size_t digits_end(std::string_view text, size_t at, size_t numbers) {
  if (const size_t end = run_end(text, at, Class::number, numbers); end > at) return end;
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind == Class::number) break;
    at += next.length;
  }
  return at;
}

}  // namespace

size_t bpe_piece_end(std::string_view text, size_t at, BPEPattern pattern) {
  switch (pattern) {
    case BPEPattern::gpt2:
      return gpt2_end(text, at);
    case BPEPattern::llama3:
      return llama3_end(text, at, 3);
    case BPEPattern::qwen2:
      return llama3_end(text, at, 1);
    case BPEPattern::digits:
      return digits_end(text, at, SIZE_MAX);
    case BPEPattern::single_digits:
      return digits_end(text, at, 1);
    case BPEPattern::whole:
      break;
  }
  return text.size();
}

std::vector<std::string_view> bpe_split(std::string_view text, BPEPattern pattern) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = bpe_piece_end(text, at, pattern);
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

}  // namespace hero::nn::data
