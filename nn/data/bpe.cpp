#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bpe_split.h>
#include <hero/nn/data/unicode.h>

namespace hero::nn::data {
namespace {

// [note: the cache of pieces]
// A text repeats its words: merging a piece is done once, and found again by the piece's bytes. The
// cache lives for one call of encode(), so threads share nothing; its table is small enough for the
// processor's cache, and a piece that finds its places taken is merged again instead of stored.
class PieceCache {
 public:
  PieceCache(const BPEModel& model, size_t text_bytes)
      : model_(model), slots_(std::bit_ceil(std::clamp(text_bytes / 8, kMinSlots, kMaxSlots))) {}

  // Appends the tokens of a piece of a text that outlives the cache.
  void append(std::string_view piece, std::vector<int64_t>& out) {
    const uint64_t hash = hash_of(piece);
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    for (int probe = 0; probe < kProbes; ++probe, at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.piece.data() == nullptr) {
        slot = {piece, static_cast<uint32_t>(tokens_.size()), 0};
        model_.merge_piece(piece, tokens_);
        slot.count = static_cast<uint32_t>(tokens_.size()) - slot.begin;
        return copy(slot, out);
      }
      if (slot.piece == piece) return copy(slot, out);
    }
    scratch_.clear();
    model_.merge_piece(piece, scratch_);
    out.insert(out.end(), scratch_.begin(), scratch_.end());
  }

 private:
  static constexpr size_t kMinSlots = 16, kMaxSlots = size_t{1} << 16;
  static constexpr int kProbes = 8;
  struct Slot {
    std::string_view piece;
    uint32_t begin = 0, count = 0;
  };

  static uint64_t hash_of(std::string_view piece) {
    uint64_t hash = piece.size() * 0x9E3779B97F4A7C15u;
    const char* from = piece.data();
    size_t left = piece.size();
    for (; left >= 8; from += 8, left -= 8) {
      uint64_t word = 0;
      std::memcpy(&word, from, 8);
      hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
      hash ^= hash >> 32;
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < left; ++i) {
      tail = tail << 8 | static_cast<unsigned char>(from[i]);
    }
    hash = (hash ^ tail) * 0xBF58476D1CE4E5B9u;
    return hash ^ hash >> 32;
  }
  void copy(const Slot& slot, std::vector<int64_t>& out) const {
    for (uint32_t i = 0; i < slot.count; ++i) out.push_back(tokens_[slot.begin + i]);
  }

  const BPEModel& model_;
  std::vector<Slot> slots_;
  std::vector<int32_t> tokens_, scratch_;
};

// One call of encode().
class Encoder {
 public:
  Encoder(const BPEModel& model, std::string_view text, SpecialTokens special)
      : model_(model), text_(text), special_(special), cache_(model, text.size()) {
    out_.reserve(text.size() / 3);
  }

  std::vector<int64_t> tokens(bool around) {
    if (around) out_ = model_.before;
    for (const BPESpan& span : model_.added_raw.split(text_, ignores())) {
      if (span.added != nullptr) {
        add(*span.added, span.begin, true);
      } else {
        normalize(span);
      }
    }
    if (around) out_.insert(out_.end(), model_.after.begin(), model_.after.end());
    return std::move(out_);
  }

 private:
  bool ignores() const { return special_ == SpecialTokens::ignore; }

  void add(const BPEAddedToken& one, size_t at, bool exact) {
    if (one.special && special_ == SpecialTokens::refuse) {
      fail("encode: the text has the special token '", core::cut_text(one.text), "'",
           exact ? " at byte " + std::to_string(at) : "",
           "; choose SpecialTokens::encode or SpecialTokens::ignore");
    }
    out_.push_back(one.token);
  }

  void normalize(const BPESpan& span) {
    std::string_view text = text_.substr(span.begin, span.end - span.begin);
    const bool same = !model_.nfc || is_plain_nfc(text);
    if (!same) text = kept_.emplace_back(normalized_nfc(text));
    for (const BPESpan& part : model_.added_normalized.split(text, ignores())) {
      if (part.added != nullptr) {
        add(*part.added, span.begin + part.begin, same);
      } else {
        cut(text.substr(part.begin, part.end - part.begin), 0);
      }
    }
  }

  // The pieces that all steps from this one on make of a text.
  void cut(std::string_view text, size_t step) {
    if (step == model_.steps.size()) return cache_.append(text, out_);
    const BPEStep& how = model_.steps[step];
    if (how.prefix_space && !text.starts_with(' ')) {
      text = kept_.emplace_back(' ' + std::string(text));
    }
    for (size_t at = 0; at < text.size();) {
      const size_t end = bpe_piece_end(text, at, how.pattern);
      cut(text.substr(at, end - at), step + 1);
      at = end;
    }
  }

  const BPEModel& model_;
  std::string_view text_;
  SpecialTokens special_;
  std::deque<std::string> kept_;  // texts that the cache's pieces lie in
  PieceCache cache_;
  std::vector<int64_t> out_;
};

}  // namespace

std::vector<int64_t> BPETokenizer::encode(std::string_view text, SpecialTokens special,
                                          bool add_special_tokens) const {
  return Encoder(*model_, text, special).tokens(add_special_tokens);
}

std::string BPETokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size() * 4);
  for (const int64_t token : tokens) text += bytes(token);
  return text;
}

int64_t BPETokenizer::vocab_size() const { return static_cast<int64_t>(model_->tokens.size()); }

const std::string& BPETokenizer::bytes(int64_t token) const {
  check(model_->has(token), "decode: there is no token ", token, ", the vocabulary has ",
        vocab_size(),
        token >= 0 && token < vocab_size() ? " numbers, of which some are unused" : "");
  return model_->tokens[static_cast<size_t>(token)];
}

int64_t BPETokenizer::special_token(std::string_view text) const {
  for (const BPEAddedToken& one : model_->added) {
    if (one.text == text) return one.token;
  }
  fail("bpe: there is no special token '", core::cut_text(text), "'");
}

std::vector<std::string> BPETokenizer::special_tokens() const {
  std::vector<std::string> texts;
  for (const BPEAddedToken& one : model_->added) {
    if (one.special) texts.push_back(one.text);
  }
  return texts;
}

}  // namespace hero::nn::data
