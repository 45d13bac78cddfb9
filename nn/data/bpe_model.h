#pragma once
// The data of a BPETokenizer, in a form in which encoding is fast.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <hero/nn/data/bpe_split.h>

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
    int32_t rank = kNone;  // rank of the merge; the merge of the lowest rank comes first
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

/// A token that is found in a text as a whole, before the text is cut into pieces.
struct BPEAddedToken {
  int32_t token = -1;
  std::string text = {};     ///< its text in the file
  std::string found = {};    ///< the text that is searched for: `text`, normalized if `normalized`
  bool single_word = false;  ///< not found if a word character is next to it
  bool lstrip = false;       ///< the token includes white space before it
  bool rstrip = false;       ///< the token includes white space after it
  bool normalized = false;   ///< it is searched for in the normalized text, after all others
  bool special = true;       ///< SpecialTokens decides about it; others are always encoded
  bool in_vocabulary = false;  ///< it is in the model's vocabulary; merges may make it, too
};

/// A part of a text: an added token, or what is between those.
struct BPESpan {
  size_t begin, end;
  const BPEAddedToken* added;  ///< nullptr: none
};

/// Added tokens by their first byte, the longest first.
class BPEAddedTokens {
 public:
  /// Adds a token, which the caller keeps.
  void insert(const BPEAddedToken* token);
  /// Cuts a text at the tokens in it, from left to right, the longest of those that begin at one
  /// place. Special ones stay text if `ignore_special`.
  std::vector<BPESpan> split(std::string_view text, bool ignore_special) const;

 private:
  const BPEAddedToken* longest_at(std::string_view text, size_t at) const;
  std::array<std::vector<const BPEAddedToken*>, 256> by_first_byte_;
  size_t count_ = 0;
};

/// One way to cut text; with `prefix_space`, a text that does not begin with a space gets one.
struct BPEStep {
  BPEPattern pattern = BPEPattern::gpt2;
  bool prefix_space = false;
};

/// Everything about a tokenizer; immutable once made.
struct BPEModel {
  BPEModel() = default;
  BPEModel(const BPEModel&) = delete;  // its tables point into it
  BPEModel& operator=(const BPEModel&) = delete;
  static constexpr const char* kByteLevel =
      R"({"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":true})";

  std::vector<std::string> tokens;   ///< bytes of each token, by number; of added tokens the text
  std::vector<bool> missing;         ///< numbers that no token has; empty: none
  std::vector<BPEMerge> merges;      ///< in order of rank
  std::vector<BPEAddedToken> added;  ///< in the order of their numbers
  int32_t unknown = -1;              ///< the token for bytes that have none; -1: an Error
  bool fuse_unknown = false;         ///< neighbouring unknown bytes are one token
  bool ignore_merges = false;        ///< a piece that is a token needs no merges
  bool nfc = false;                  ///< true: texts are normalized (NFC)
  std::vector<BPEStep> steps = {{}};
  std::vector<int64_t> before, after;  ///< what the file's post-processor puts around a text
  /// \name Sections of tokenizer.json, as they are saved
  /// \{
  std::string normalizer = "null", pre_tokenizer = kByteLevel, post_processor = "null";
  std::string decoder = kByteLevel, unk_token = "null";
  /// \}

  std::array<int32_t, 256> byte_tokens{};  ///< -1: the vocabulary has none
  BPEPairTable table;
  BPEAddedTokens added_raw, added_normalized;
  std::unordered_map<std::string, int32_t> whole;  ///< tokens by their bytes, if ignore_merges

  /// Checks and completes the data: no two tokens are one byte, every merge makes the token it
  /// says, and added tokens have distinct texts. `label` names the source in errors.
  void finish(const std::string& label);
  /// Whether a number is that of a token.
  bool has(int64_t token) const {
    return token >= 0 && token < static_cast<int64_t>(tokens.size()) &&
           (missing.empty() || !missing[static_cast<size_t>(token)]);
  }
  /// Appends the tokens of a piece of text, merged from its bytes.
  void merge_piece(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  size_t byte_numbers(std::string_view piece, int32_t* out) const;
};

}  // namespace hero::nn::data
