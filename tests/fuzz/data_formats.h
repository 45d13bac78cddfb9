#pragma once
// The readers of nn/data, fed as formats.h says.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "formats.h"

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/csv.h>
#include <hero/nn/data/idx.h>
#include <hero/nn/data/tokenizer.h>
#include <hero/nn/data/tokens.h>
#include <hero/nn/training/event_file.h>
#include <hero/nn/training/metrics_lines.h>

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

/// An encoder.json, a zero byte and a vocab.bpe, which must give any bytes back too.
inline bool feed_bpe_gpt2(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  const size_t cut = std::min(text.find('\0'), text.size());
  try {
    const auto tokenizer = hero::nn::data::BPETokenizer::parse_gpt2(
        text.substr(0, cut), text.substr(std::min(cut + 1, text.size())), "bytes");
    return tokenizer.vocab_size() >= 256;
  } catch (const hero::Error&) {
    return false;
  }
}

/// What CharTokenizer::save() wrote; what loads is written and loaded again as it was.
inline bool feed_characters(std::span<const std::byte> bytes) {
  using hero::nn::data::CharTokenizer;
  try {
    const CharTokenizer tokenizer = CharTokenizer::parse(text_of(bytes), "bytes");
    std::vector<int64_t> all(static_cast<size_t>(tokenizer.vocab_size()));
    std::iota(all.begin(), all.end(), 0);
    // Only single bytes that are no characters of their own may run together.
    return tokenizer.encode(tokenizer.decode(all)).size() <= all.size();
  } catch (const hero::Error&) {
    return false;
  }
}

/// A file of tokens, read in pieces and whole.
inline bool feed_tokens(std::span<const std::byte> bytes) {
  using hero::nn::data::Tokens;
  const InMemory file(bytes);
  try {
    const Tokens tokens = Tokens::open(file.path(), {.bytes = bytes.size() % 8 == 4 ? 4 : 2});
    std::vector<int64_t> all(static_cast<size_t>(tokens.size()));
    tokens.read(0, all);
    for (const int64_t token : all) {
      if (token < 0 || token > 0xffffffff) __builtin_trap();
    }
    if (!all.empty() && tokens[tokens.size() - 1] != all.back()) __builtin_trap();
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

/// The lines of metrics.jsonl; what is kept is kept whole the next time.
inline bool feed_metrics(std::span<const std::byte> bytes) {
  try {
    const hero::nn::KeptLines kept = hero::nn::kept_lines(text_of(bytes), 1000, "bytes");
    const hero::nn::KeptLines again = hero::nn::kept_lines(kept.text, 1000, "bytes");
    if (again.text != kept.text || again.torn_bytes != 0) __builtin_trap();
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

/// TensorBoard's events; records are parts of the bytes.
inline bool feed_events(std::span<const std::byte> bytes) {
  size_t whole = 0;
  const std::string text(text_of(bytes));
  for (const auto& record : hero::nn::read_event_records(text)) whole += record.bytes.size();
  if (whole > text.size()) __builtin_trap();
  return whole > 0;
}

}  // namespace hero_fuzz
