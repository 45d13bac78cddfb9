#pragma once
// How GPT-2 cuts a text into the pieces inside which tokens are merged.
#include <cstddef>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// The end of the piece that begins at byte `at` < text.size(), by GPT-2's pattern
/// @verbatim
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// @endverbatim
/// with the classes of unicode_table.h. Bytes that are not UTF-8 count as neither a space nor a
/// letter nor a number.
size_t bpe_piece_end(std::string_view text, size_t at);

/// All pieces, which together are the text.
std::vector<std::string_view> bpe_split(std::string_view text);

}  // namespace hero::nn::data
