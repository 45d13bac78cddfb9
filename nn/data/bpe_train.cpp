#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include <hero/core/error.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bpe_split.h>

namespace hero::nn::data {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key =
        uint64_t{static_cast<uint32_t>(pair.first)} << 32 | static_cast<uint32_t>(pair.second);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 16);
  }
};

// [note: counting pairs]
// A text is trained on as its distinct pieces with their counts. For each pair of neighbours the
// trainer keeps how often it occurs and in which pieces; a merge visits only those pieces, and
// changes the counts of the neighbouring pairs only. The candidates lie in a heap whose
// entries may be out of date: one that comes up with a larger count than the pair has now is put
// back with the right one.
class Trainer {
 public:
  Trainer(std::string_view text, BPEModel& model) : model_(model) {
    for (const uint8_t byte : bpe_byte_order()) {
      const auto token = static_cast<int32_t>(model_.tokens.size());
      byte_token_[byte] = token;
      add_token({static_cast<char>(byte)});
    }
    count_pieces(text);
    for (size_t piece = 0; piece < pieces_.size(); ++piece) {
      const std::vector<int32_t>& tokens = pieces_[piece].tokens;
      for (size_t i = 1; i < tokens.size(); ++i) add_pair({tokens[i - 1], tokens[i]}, piece);
    }
    risen_.clear();
    for (const auto& [pair, seen] : pairs_) heap_.push({seen.count, pair});
  }

  void run(size_t vocab_size, int64_t min_frequency) {
    while (model_.tokens.size() < vocab_size && !heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const auto found = pairs_.find(best.pair);
      const int64_t now = found == pairs_.end() ? 0 : found->second.count;
      // One that has risen since is in the heap a second time.
      if (now < best.count && now > 0) heap_.push({now, best.pair});
      if (now != best.count) continue;
      if (now < std::max<int64_t>(min_frequency, 1)) break;
      merge(best.pair);
    }
  }

 private:
  struct Piece {
    std::vector<int32_t> tokens;
    int64_t count;
  };
  struct Seen {
    int64_t count = 0;
    std::vector<size_t> pieces;  // where it occurs or occurred; some more than once
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    // The heap gives the largest count, of equal ones the smallest pair.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  int32_t add_token(const std::string& bytes) {
    const auto next = static_cast<int32_t>(model_.tokens.size());
    const auto [place, fresh] = number_.emplace(bytes, next);
    if (fresh) model_.tokens.push_back(bytes);
    return place->second;
  }

  void count_pieces(std::string_view text) {
    std::unordered_map<std::string_view, size_t> known;
    for (size_t at = 0; at < text.size();) {
      const size_t end = bpe_piece_end(text, at);
      const std::string_view piece = text.substr(at, end - at);
      at = end;
      const auto [place, fresh] = known.emplace(piece, pieces_.size());
      if (fresh) {
        std::vector<int32_t> tokens;
        for (const char byte : piece)
          tokens.push_back(byte_token_[static_cast<unsigned char>(byte)]);
        pieces_.push_back({std::move(tokens), 0});
      }
      ++pieces_[place->second].count;
    }
  }

  void merge(Pair pair) {
    const std::string bytes = model_.tokens[static_cast<size_t>(pair.first)] +
                              model_.tokens[static_cast<size_t>(pair.second)];
    const int32_t result = add_token(bytes);
    model_.merges.push_back({pair.first, pair.second, result});
    const std::vector<size_t> places = std::move(pairs_[pair].pieces);
    for (const size_t piece : places) merge_in(piece, pair, result);
    pairs_.erase(pair);
    std::sort(risen_.begin(), risen_.end());
    risen_.erase(std::unique(risen_.begin(), risen_.end()), risen_.end());
    for (const Pair& one : risen_) heap_.push({pairs_[one].count, one});
    risen_.clear();
  }

  // Merges from left to right in one piece, with the counts of the pairs on both sides of each
  // merge; those of the merged pair itself are given up as a whole.
  void merge_in(size_t piece, Pair pair, int32_t result) {
    std::vector<int32_t>& tokens = pieces_[piece].tokens;
    const int64_t count = pieces_[piece].count;
    size_t to = 0;
    for (size_t from = 0; from < tokens.size(); ++to) {
      const bool here =
          from + 1 < tokens.size() && tokens[from] == pair.first && tokens[from + 1] == pair.second;
      if (!here) {
        tokens[to] = tokens[from++];
        continue;
      }
      if (to > 0) {
        pairs_[{tokens[to - 1], pair.first}].count -= count;
        add_pair({tokens[to - 1], result}, piece);
      }
      tokens[to] = result;
      from += 2;
      if (from < tokens.size()) {
        pairs_[{pair.second, tokens[from]}].count -= count;
        add_pair({result, tokens[from]}, piece);
      }
    }
    tokens.resize(to);
  }

  // One more occurrence of a pair in a piece, which may make it a candidate.
  void add_pair(Pair pair, size_t piece) {
    Seen& seen = pairs_[pair];
    seen.count += pieces_[piece].count;
    if (seen.pieces.empty() || seen.pieces.back() != piece) seen.pieces.push_back(piece);
    risen_.push_back(pair);
  }

  BPEModel& model_;
  std::unordered_map<std::string, int32_t> number_;  // of a token's bytes
  std::array<int32_t, 256> byte_token_{};
  std::vector<Piece> pieces_;
  std::unordered_map<Pair, Seen, PairHash> pairs_;
  std::vector<Pair> risen_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

BPETokenizer BPETokenizer::train(std::string_view text, const BPETrainOptions& options) {
  const auto specials = static_cast<int64_t>(options.special_tokens.size());
  check(options.vocab_size >= 256 + specials, "bpe: vocab_size ", options.vocab_size,
        " is too small for 256 bytes and ", specials, " special tokens");
  check(options.vocab_size < (int64_t{1} << 31), "bpe: vocab_size ", options.vocab_size,
        " is too large");
  auto model = std::make_shared<BPEModel>();
  Trainer(text, *model)
      .run(static_cast<size_t>(options.vocab_size - specials), options.min_frequency);
  for (const std::string& special : options.special_tokens) {
    const auto ordinary = model->tokens.end() - static_cast<std::ptrdiff_t>(model->added.size());
    check(std::find(model->tokens.begin(), ordinary, special) == ordinary,
          "bpe: the special token '", special, "' is an ordinary token too; choose another text");
    const auto number = static_cast<int32_t>(model->tokens.size());
    model->added.push_back({.token = number, .text = special});
    model->tokens.push_back(special);
  }
  model->finish("the training options");
  return BPETokenizer(std::move(model));
}

}  // namespace hero::nn::data
