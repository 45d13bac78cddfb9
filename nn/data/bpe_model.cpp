#include <algorithm>
#include <queue>
#include <unordered_set>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/nn/data/bpe/bpe_bytes.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/unicode.h>
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

// The first byte of the white space character that ends before byte `at`; `at` if there is none.
size_t space_before(std::string_view text, size_t at) {
  const uint32_t code = code_point_before(text, at);
  if (character_class(code) != CharacterClass::space) return at;
  return at - (code < 0x80 ? 1 : code < 0x800 ? 2 : 3);
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

void BPEAddedTokens::insert(const BPEAddedToken* token) {
  auto& place = by_first_byte_[static_cast<unsigned char>(token->found[0])];
  const auto shorter = [&](const BPEAddedToken* one) {
    return one->found.size() < token->found.size();
  };
  place.insert(std::find_if(place.begin(), place.end(), shorter), token);
  ++count_;
}

const BPEAddedToken* BPEAddedTokens::longest_at(std::string_view text, size_t at) const {
  for (const BPEAddedToken* one : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    if (text.substr(at).starts_with(one->found)) return one;
  }
  return nullptr;
}

std::vector<BPESpan> BPEAddedTokens::split(std::string_view text, bool ignore_special) const {
  std::vector<BPESpan> spans;
  size_t done = 0;  // up to here the text lies in spans
  for (size_t at = 0; count_ > 0 && at < text.size();) {
    const BPEAddedToken* one = longest_at(text, at);
    if (one == nullptr) {
      ++at;
      continue;
    }
    // What is found here hides what else might begin within it, also where it does not count.
    size_t begin = at, end = at + one->found.size();
    at = end;
    if (one->special && ignore_special) continue;
    if (one->single_word) {
      const bool inside = (begin > 0 && is_word_character(code_point_before(text, begin))) ||
                          (end < text.size() && is_word_character(code_point_at(text, end).value));
      if (inside) continue;
    }
    while (one->lstrip && begin > done) {
      const size_t before = space_before(text, begin);
      if (before == begin) break;
      begin = before;
    }
    while (one->rstrip && end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (character_class(next.value) != CharacterClass::space) break;
      end += next.length;
    }
    begin = one->lstrip ? std::max(begin, done) : begin;
    if (done < begin) spans.push_back({done, begin, nullptr});
    spans.push_back({begin, end, one});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), nullptr});
  return spans;
}

void BPEModel::finish(const std::string& label) {
  const auto count = static_cast<int32_t>(tokens.size());
  std::vector<const BPEAddedToken*> added_at(tokens.size());
  std::unordered_set<std::string_view> texts;
  for (BPEAddedToken& one : added) {
    const std::string& text = one.text;
    check(!text.empty(), "bpe: ", label, " has an empty special token");
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      check(point.value != kInvalidCodePoint, "bpe: ", label,
            " has a special token that is not UTF-8");
      at += point.length;
    }
    check(texts.insert(text).second, "bpe: ", label, " has the special token '",
          core::cut_text(text), "' twice");
    added_at[static_cast<size_t>(one.token)] = &one;
    one.found = one.normalized && nfc ? normalized_nfc(text) : text;
    (one.normalized ? added_normalized : added_raw).insert(&one);
  }
  // The bytes that merges make a token from; none for added tokens that the model does not know.
  const auto bytes_of = [&](int32_t token, std::string& bytes) {
    const auto at = static_cast<size_t>(token);
    if (!has(token)) return false;
    if (added_at[at] != nullptr)
      return added_at[at]->in_vocabulary && bpe_bytes(added_at[at]->text, bytes);
    bytes = tokens[at];
    return true;
  };
  byte_tokens.fill(-1);
  std::string bytes;
  for (int32_t token = 0; token < count; ++token) {
    if (!bytes_of(token, bytes)) continue;
    if (ignore_merges) whole.emplace(bytes, token);
    if (bytes.size() != 1) continue;
    int32_t& place = byte_tokens[static_cast<unsigned char>(bytes[0])];
    check(place < 0, "bpe: ", label, " has two tokens for one byte: ", place, " and ", token);
    place = token;
  }
  std::string left, right;
  for (size_t i = 0; i < merges.size(); ++i) {
    const BPEMerge& merge = merges[i];
    const bool known =
        bytes_of(merge.left, left) && bytes_of(merge.right, right) && bytes_of(merge.result, bytes);
    check(!known || bytes == left + right, "bpe: ", label, ": merge ", i,
          " does not make its token");
  }
  table = BPEPairTable(merges);
}

// The tokens of the bytes of a piece, for which `out` has room; returns how many they are.
size_t BPEModel::byte_numbers(std::string_view piece, int32_t* out) const {
  size_t count = 0;
  bool fuse = false;
  for (const char byte : piece) {
    int32_t token = byte_tokens[static_cast<unsigned char>(byte)];
    if (token >= 0) [[likely]] {
      fuse = false;
    } else {
      check(unknown >= 0, "encode: the vocabulary has no token for byte ",
            static_cast<int>(static_cast<unsigned char>(byte)), " and no unknown token");
      if (fuse) continue;
      token = unknown;
      fuse = fuse_unknown;
    }
    out[count++] = token;
  }
  return count;
}

void BPEModel::merge_piece(std::string_view piece, std::vector<int32_t>& out) const {
  if (ignore_merges) {
    if (const auto found = whole.find(std::string(piece)); found != whole.end()) {
      out.push_back(found->second);
      return;
    }
  }
  if (piece.size() > kShortPiece) {
    std::vector<int32_t> bytes(piece.size());
    bytes.resize(byte_numbers(piece, bytes.data()));
    LongPiece(table, std::move(bytes)).merge_into(out);
    return;
  }
  int32_t parts[kShortPiece];
  size_t count = byte_numbers(piece, parts);
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
