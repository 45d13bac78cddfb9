#pragma once
// The data of a BPETokenizer, in a form in which encoding is fast.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// Two neighbouring tokens and the token they become.
struct BPEMerge {
  int32_t left, right, result;
};

/// GPT-2's order of the bytes: printable ones first, then the others. Token i of a trained
/// tokenizer is byte bpe_byte_order()[i].
const std::array<uint8_t, 256>& bpe_byte_order();

/// Maps a pair of tokens to the rank of its merge: a hash table with open addressing, of a power of
/// two.
class BPEPairTable {
 public:
  static constexpr int32_t kNone = 0x7fffffff;
  struct Entry {
    uint64_t pair = ~uint64_t{0};
    int32_t rank = kNone;  // of the merge; the lowest merges first
    int32_t result = -1;
  };

  BPEPairTable() : entries_(1) {}
  /// Makes a table of these merges, whose ranks are their positions.
  explicit BPEPairTable(const std::vector<BPEMerge>& merges);
  /// The merge of two tokens; its rank is kNone if there is none.
  const Entry& find(int32_t left, int32_t right) const {
    const uint64_t pair = key(left, right);
    for (size_t at = slot(pair);; at = (at + 1) & mask_) {
      if (entries_[at].pair == pair || entries_[at].result < 0) return entries_[at];
    }
  }

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t pair) const {
    return static_cast<size_t>(pair * 0x9E3779B97F4A7C15u >> shift_) & mask_;
  }

  std::vector<Entry> entries_;  // at most half full; the empty ones end a search
  size_t mask_ = 0;
  int shift_ = 63;
};

/// Everything about a tokenizer; immutable once made.
struct BPEModel {
  std::vector<std::string> tokens;  ///< bytes by number, the special tokens' texts too
  std::vector<BPEMerge> merges;     ///< in order of rank
  std::vector<int32_t> specials;    ///< numbers, ascending
  std::array<int32_t, 256> byte_tokens{};
  BPEPairTable table;

  /// Checks and completes the data: every byte has a token, every merge makes the token it says,
  /// and special tokens have distinct texts. `label` names the source in errors.
  void finish(const std::string& label);
  /// Appends the tokens of a piece of text, merged from its bytes.
  void merge_piece(std::string_view piece, std::vector<int32_t>& out) const;
};

}  // namespace hero::nn::data
