#pragma once
// Text from a model, one token after another: the keys and values of what it has read are kept, so
// that each step computes the new tokens alone. B rows, T tokens, V vocabulary.
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <hero/autograd/nn_ops.h>
#include <hero/core/random.h>
#include <hero/nn/chain.h>

namespace hero::nn {

struct GenerateOptions {
  int64_t max_new_tokens = 100;
  double temperature = 1.0;           ///< scores are divided by it; 0: always the likeliest token
  std::optional<int64_t> top_k = {};  ///< only the k likeliest tokens (and their equals) are drawn
  /// Only the fewest likeliest tokens (and their equals) whose probabilities add up to at least
  /// this are drawn, after top_k; in (0, 1]. Holtzman et al., arXiv 1904.09751.
  std::optional<double> top_p = {};
  /// Scores of tokens that are in the row already are divided by it where they are positive and
  /// multiplied where not, also where temperature is 0. Keskar et al., arXiv 1909.05858.
  double repetition_penalty = 1.0;
  /// A row ends with the first of these that it draws; the text ends when all rows have.
  std::vector<int64_t> stop_tokens = {};
  /// Fills a row that has ended, up to the longest; the token that ended it when absent.
  std::optional<int64_t> pad_token = {};
  std::optional<uint64_t> seed = {};  ///< absent: the thread's generator draws
};

/// The tokens of each row.
using TokenRows = std::vector<std::vector<int64_t>>;

/// One token a row, drawn from scores [B, V] of the tokens after those of `rows`: int64 [B, 1].
Tensor next_tokens(const Tensor& scores, const TokenRows& rows, const GenerateOptions& options,
                   Generator& generator);

/// Keys and values of every position that a model's layers have read, in memory for the longest
/// sequence. Rows may have read different numbers of positions.
class KeyValueCache {
 public:
  /// For sequences of at most `capacity` positions.
  explicit KeyValueCache(int64_t capacity);

  /// What comes next are tokens [B, T], T at most the capacity that is left. The first counts[b] of
  /// row b follow what it has read; those behind them are padding, which nothing sees.
  void begin(int64_t T, std::vector<int64_t> counts);
  /// All layers have read what begin() told of.
  void end();
  /// Nothing has been read.
  void clear();

  /// The position of the first new token: one number where it is the same in all rows, else one a
  /// row. RotaryEmbedding takes them so.
  std::span<const int64_t> first() const;
  /// The positions of the new tokens, int64: [T], or [B, T] where rows differ.
  Tensor positions(Device device) const;
  /// Appends the new keys and values, k and v [B, G, T, D], to those of `layer`, and gives the
  /// attention of the new queries q [B, H, T, D] to all those before them and themselves, with the
  /// bits that each row has by itself. Takes scale and enable_gqa. Unrecorded.
  Tensor attend(size_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options = {});
  /// Of x [B, T, C] each row's features at its last new token that is no padding: [B, C].
  Tensor last(const Tensor& x) const;

 private:
  struct Layer {
    Tensor k, v;  // [B, G, capacity, D]
  };
  int64_t capacity_;
  int64_t T_ = 0;
  std::vector<int64_t> read_;    // of each row; of one where all are alike
  std::vector<int64_t> counts_;  // of each row
  std::vector<Layer> layers_;
};

/// A model that tells the next token. What a model of your own needs for generate(): attention by
/// KeyValueCache::attend(), positions from its first().
/// \snippet test_examples_models.cpp Decoder
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The longest sequence that it reads.
  virtual int64_t context_length() const = 0;
  /// The scores of the token after the new ones of each row, [B, V], of tokens [B, T]; the cache
  /// was told of them by begin().
  virtual Tensor next_scores(const Tensor& tokens, KeyValueCache& cache) = 0;

  /// tokens [B, T] or [T], T >= 1, with at most max_new_tokens more at the end, each drawn from
  /// softmax(scores / temperature) given the context_length() tokens before it. Runs as in eval(),
  /// unrecorded.
  Tensor generate(const Tensor& tokens, const GenerateOptions& options = {});
  /// The same of prompts [T] of different lengths at once: each with its new tokens, the stop token
  /// that ended it among them. With temperature 0 each has the tokens that it has by itself, on the
  /// CPU with the same bits of scores while none outgrows the context; drawn at random, a row's
  /// numbers depend on its place.
  std::vector<Tensor> generate(const std::vector<Tensor>& prompts,
                               const GenerateOptions& options = {});
};

/// A Decoder that can be cut into stages.
class DecoderChain : public Chain, public Decoder {
 public:
  /// As run_links() of new tokens or what links before made of them. The last link gives the scores
  /// of the next tokens, [B, V].
  virtual Tensor run_links_after(KeyValueCache& cache, size_t begin, size_t end,
                                 const Tensor& x) = 0;
};

/// Decoder::generate() by one who says what comes next: `next` gets the new tokens [B, T], the
/// cache, which was told of them, each row's tokens so far, and the generator that draws; it gives
/// the next token of each row, [B, 1].
using NextTokens = std::function<Tensor(const Tensor& tokens, KeyValueCache& cache,
                                        const TokenRows& rows, Generator& generator)>;
Tensor generate(const Tensor& tokens, int64_t context_length, const GenerateOptions& options,
                const NextTokens& next);
std::vector<Tensor> generate(const std::vector<Tensor>& prompts, int64_t context_length,
                             const GenerateOptions& options, const NextTokens& next);

}  // namespace hero::nn
