#include <algorithm>
#include <bit>
#include <cstring>

#include <hero/core/error.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bpe_split.h>

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

void encode_plain(std::string_view text, PieceCache& cache, std::vector<int64_t>& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = bpe_piece_end(text, at);
    cache.append(text.substr(at, end - at), out);
    at = end;
  }
}

// Where a special token stands in a text.
struct Found {
  size_t at;
  int32_t token;  // -1: none
};

// The first special token from `from` on, the longest of those that begin there. `next` remembers
// for each where it occurs next, so that no text is searched twice.
Found find_special(const BPEModel& model, std::string_view text, size_t from,
                   std::vector<size_t>& next) {
  Found best{text.size(), -1};
  size_t longest = 0;
  for (size_t i = 0; i < model.specials.size(); ++i) {
    const std::string& special = model.tokens[static_cast<size_t>(model.specials[i])];
    if (next[i] < from) next[i] = text.find(special, from);
    if (next[i] == text.npos) continue;
    if (next[i] < best.at || (next[i] == best.at && special.size() > longest)) {
      best = {next[i], model.specials[i]};
      longest = special.size();
    }
  }
  return best;
}

}  // namespace

std::vector<int64_t> BPETokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int64_t> out;
  out.reserve(text.size() / 3);
  PieceCache cache(*model_, text.size());
  if (special == SpecialTokens::ignore || model_->specials.empty()) {
    encode_plain(text, cache, out);
    return out;
  }
  std::vector<size_t> next;
  for (const int32_t token : model_->specials) {
    next.push_back(text.find(model_->tokens[static_cast<size_t>(token)]));
  }
  for (size_t at = 0; at < text.size();) {
    const Found found = find_special(*model_, text, at, next);
    if (found.token >= 0 && special == SpecialTokens::refuse) {
      fail("encode: the text has the special token '", bytes(found.token), "' at byte ", found.at,
           "; choose SpecialTokens::encode or SpecialTokens::ignore");
    }
    encode_plain(text.substr(at, found.at - at), cache, out);
    at = found.at;
    if (found.token < 0) continue;
    out.push_back(found.token);
    at += bytes(found.token).size();
  }
  return out;
}

std::string BPETokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size() * 4);
  for (const int64_t token : tokens) text += bytes(token);
  return text;
}

int64_t BPETokenizer::vocab_size() const { return static_cast<int64_t>(model_->tokens.size()); }

const std::string& BPETokenizer::bytes(int64_t token) const {
  check(token >= 0 && token < vocab_size(), "decode: there is no token ", token,
        ", the vocabulary has ", vocab_size());
  return model_->tokens[static_cast<size_t>(token)];
}

int64_t BPETokenizer::special_token(std::string_view text) const {
  for (const int32_t token : model_->specials) {
    if (bytes(token) == text) return token;
  }
  fail("bpe: there is no special token '", text, "'");
}

std::vector<std::string> BPETokenizer::special_tokens() const {
  std::vector<std::string> texts;
  for (const int32_t token : model_->specials) texts.push_back(bytes(token));
  return texts;
}

}  // namespace hero::nn::data
