#pragma once
// The readers of nn/data, fed as formats.h says.
#include <string>
#include <string_view>

#include "formats.h"

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/csv.h>
#include <hero/nn/data/idx.h>

namespace hero_fuzz {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline bool feed_idx(std::span<const std::byte> bytes) {
  try {
    return touch(hero::nn::data::parse_idx(bytes)) != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

inline bool feed_gzip(std::span<const std::byte> bytes) {
  try {
    return hero::nn::data::gunzip(bytes, "bytes").size() != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

inline bool feed_csv(std::span<const std::byte> bytes) {
  try {
    return touch(hero::nn::data::parse_csv(text_of(bytes), "bytes", {.missing = 0.0}).values) != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

/// A tokenizer.json; one that loads must give any bytes back.
inline bool feed_bpe(std::span<const std::byte> bytes) {
  try {
    const auto tokenizer = hero::nn::data::BPETokenizer::parse(text_of(bytes), "bytes");
    const std::string_view text = text_of(bytes).substr(0, 4096);
    if (tokenizer.decode(tokenizer.encode(text, hero::nn::data::SpecialTokens::encode)) != text) {
      __builtin_trap();
    }
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

}  // namespace hero_fuzz
