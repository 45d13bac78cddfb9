#pragma once
// How tokenizers cut a text into the pieces inside which tokens are merged.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// The ways to cut a text that are known. Bytes that are not UTF-8 count as neither a space nor a
/// letter nor a number.
enum class BPEPattern : uint8_t {
  whole,         ///< the text is one piece
  gpt2,          ///< kGPT2Pattern
  llama3,        ///< kLlama3Pattern
  qwen2,         ///< kQwen2Pattern
  digits,        ///< runs of numbers (category N), and what is between them
  single_digits  ///< each number (category N), and what is between them
};

/// \name Patterns as files write them
/// \{
inline constexpr std::string_view kGPT2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// \}

/// The end of the piece that begins at byte `at` < text.size().
size_t bpe_piece_end(std::string_view text, size_t at, BPEPattern pattern = BPEPattern::gpt2);

/// All pieces, which together are the text.
std::vector<std::string_view> bpe_split(std::string_view text,
                                        BPEPattern pattern = BPEPattern::gpt2);

}  // namespace hero::nn::data
