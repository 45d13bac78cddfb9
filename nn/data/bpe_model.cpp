#include <algorithm>
#include <queue>
#include <unordered_set>

#include <hero/core/error.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

constexpr size_t kShortPiece = 48;  // up to here a scan for the lowest rank beats a heap

constexpr std::array<uint8_t, 256> make_byte_order() {
  const auto prints = [](int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
  };
  std::array<uint8_t, 256> order{};
  size_t at = 0;
  for (const bool printing : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (prints(byte) == printing) order[at++] = static_cast<uint8_t>(byte);
    }
  }
  return order;
}

// Merges in a long piece: the tokens are a linked list over positions, the candidates a heap.
class LongPiece {
 public:
  LongPiece(const BPEPairTable& table, std::vector<int32_t> tokens)
      : table_(table), tokens_(std::move(tokens)), next_(tokens_.size()), former_(tokens_.size()) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      next_[i] = i + 1;
      former_[i] = i - 1;  // wraps for the first
    }
    for (size_t i = 0; i < tokens_.size(); ++i) push(i);
  }

  void merge_into(std::vector<int32_t>& out) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      if (!stands(best)) continue;
      const size_t right = next_[best.at];
      tokens_[best.at] = best.result;
      tokens_[right] = -1;
      next_[best.at] = next_[right];
      if (next_[right] < tokens_.size()) former_[next_[right]] = best.at;
      push(best.at);
      if (best.at > 0) push(former_[best.at]);
    }
    for (const int32_t token : tokens_) {
      if (token >= 0) out.push_back(token);
    }
  }

 private:
  struct Candidate {
    int32_t rank;
    size_t at;
    int32_t left, right, result;
    // The heap gives the lowest rank, of equal ones the leftmost.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  void push(size_t at) {
    if (next_[at] >= tokens_.size()) return;
    const int32_t left = tokens_[at], right = tokens_[next_[at]];
    const BPEPairTable::Entry& found = table_.find(left, right);
    if (found.rank != BPEPairTable::kNone) heap_.push({found.rank, at, left, right, found.result});
  }
  bool stands(const Candidate& one) const {
    return tokens_[one.at] == one.left && next_[one.at] < tokens_.size() &&
           tokens_[next_[one.at]] == one.right;
  }

  const BPEPairTable& table_;
  std::vector<int32_t> tokens_;  // -1: merged into one before
  std::vector<size_t> next_, former_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

const std::array<uint8_t, 256>& bpe_byte_order() {
  static constexpr std::array<uint8_t, 256> order = make_byte_order();
  return order;
}

BPEPairTable::BPEPairTable(const std::vector<BPEMerge>& merges) {
  size_t size = 2;
  for (shift_ = 63; size < 2 * merges.size() + 2; size *= 2) --shift_;
  entries_.resize(size);
  mask_ = size - 1;
  int32_t rank = 0;
  for (const BPEMerge& merge : merges) {
    auto& entry = const_cast<Entry&>(find(merge.left, merge.right));
    // A pair that is listed twice keeps its first rank.
    if (entry.result < 0) entry = {key(merge.left, merge.right), rank, merge.result};
    ++rank;
  }
}

void BPEModel::finish(const std::string& label) {
  const auto count = static_cast<int32_t>(tokens.size());
  std::vector<bool> special(tokens.size());
  std::unordered_set<std::string_view> texts;
  for (const int32_t token : specials) {
    special[static_cast<size_t>(token)] = true;
    const std::string& text = tokens[static_cast<size_t>(token)];
    check(!text.empty(), "bpe: ", label, " has an empty special token");
    for (size_t at = 0; at < text.size();) {
      const CodePoint one = code_point_at(text, at);
      check(one.value != kInvalidCodePoint, "bpe: ", label,
            " has a special token that is not UTF-8");
      at += one.length;
    }
    check(texts.insert(text).second, "bpe: ", label, " has the special token '", text, "' twice");
  }
  byte_tokens.fill(-1);
  for (int32_t token = 0; token < count; ++token) {
    const std::string& bytes = tokens[static_cast<size_t>(token)];
    if (bytes.size() != 1 || special[static_cast<size_t>(token)]) continue;
    int32_t& place = byte_tokens[static_cast<unsigned char>(bytes[0])];
    check(place < 0, "bpe: ", label, " has two tokens for one byte: ", place, " and ", token);
    place = token;
  }
  for (int byte = 0; byte < 256; ++byte) {
    check(byte_tokens[static_cast<size_t>(byte)] >= 0, "bpe: ", label, " has no token for byte ",
          byte, "; it is not a byte-level vocabulary");
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    const BPEMerge& merge = merges[i];
    const auto text = [&](int32_t token) -> const std::string& {
      return tokens[static_cast<size_t>(token)];
    };
    check(text(merge.result).size() == text(merge.left).size() + text(merge.right).size() &&
              text(merge.result).starts_with(text(merge.left)) &&
              text(merge.result).ends_with(text(merge.right)),
          "bpe: ", label, ": merge ", i, " does not make its token");
  }
  table = BPEPairTable(merges);
}

void BPEModel::merge_piece(std::string_view piece, std::vector<int32_t>& out) const {
  const auto token_of = [&](char byte) { return byte_tokens[static_cast<unsigned char>(byte)]; };
  if (piece.size() > kShortPiece) {
    std::vector<int32_t> bytes;
    for (const char byte : piece) bytes.push_back(token_of(byte));
    LongPiece(table, std::move(bytes)).merge_into(out);
    return;
  }
  int32_t parts[kShortPiece];
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) parts[i] = token_of(piece[i]);
  while (count > 1) {
    const BPEPairTable::Entry* best = &table.find(parts[0], parts[1]);
    size_t place = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      const BPEPairTable::Entry& one = table.find(parts[i], parts[i + 1]);
      if (one.rank < best->rank) {
        best = &one;
        place = i;
      }
    }
    if (best->rank == BPEPairTable::kNone) break;
    parts[place] = best->result;
    std::copy(parts + place + 2, parts + count, parts + place + 1);
    --count;
  }
  out.insert(out.end(), parts, parts + count);
}

}  // namespace hero::nn::data
