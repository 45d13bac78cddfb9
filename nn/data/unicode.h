#pragma once
// Properties and normalization of Unicode characters, for tokenizers; the tables are of Unicode 14.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::nn::data {

/// Kinds of characters that patterns of tokenizers tell apart.
enum class CharacterClass : uint8_t {
  other,   ///< none of the others
  letter,  ///< category L
  number,  ///< category N
  space,   ///< White_Space
};

/// The class of a code point; `other` for kInvalidCodePoint.
CharacterClass character_class(uint32_t code_point);

/// Whether the code point is a word character in the sense of regular expressions.
bool is_word_character(uint32_t code_point);

/// The code point that ends before byte `at` > 0 of a text.
uint32_t code_point_before(std::string_view text, size_t at);

/// A text in normalization form C: canonically decomposed, then composed. Bytes that are not UTF-8
/// stay as they are, and nothing combines with them.
std::string normalized_nfc(std::string_view text);

/// Whether normalized_nfc() surely changes nothing, as all characters are below U+0300.
bool is_plain_nfc(std::string_view text);

}  // namespace hero::nn::data
