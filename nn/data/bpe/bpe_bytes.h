#pragma once
// Bytes as text, as files of byte-level vocabularies write them.
#include <string>
#include <string_view>

namespace hero::nn::data {

/// The text that stands for bytes: each byte is a character that prints.
std::string bpe_text(std::string_view bytes);

/// Puts the bytes that a text stands for into `bytes`; false when it has a character that stands
/// for none.
bool bpe_bytes(std::string_view text, std::string& bytes);

}  // namespace hero::nn::data
