#pragma once
// Generating text, one token after another. The keys and values of all earlier positions are kept,
// so that each step computes only the new tokens. B rows, T tokens, V vocabulary.
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <hero/autograd/ops/nn/nn.h>
#include <hero/core/random.h>
#include <hero/nn/pipeline_model.h>

namespace hero::nn {

/// Options of Decoder::generate().
struct GenerateOptions {
  int64_t max_new_tokens = 100;  ///< tokens that are generated at most, in each row
  double temperature = 1.0;      ///< logits are divided by it; 0: always take the likeliest token
  /// Only the k likeliest tokens (and those of equal logit) can be drawn.
  std::optional<int64_t> top_k = {};
  /// Only the likeliest tokens can be drawn, as few as have probabilities that add up to at least
  /// this (and those of equal logit); applied after top_k; in (0, 1]. Holtzman et al., arXiv
  /// 1904.09751.
  std::optional<double> top_p = {};
  /// The logits of tokens that are in the row already are divided by it if they are positive and
  /// multiplied by it if not; also if temperature is 0. Keskar et al., arXiv 1909.05858.
  double repetition_penalty = 1.0;
  /// A row ends with the first of these tokens that it draws; generation ends when all rows have
  /// ended. One that is outside of the vocabulary is an Error.
  std::vector<int64_t> stop_tokens = {};
  /// Fills a row that has ended up to the length of the longest; when absent, the token that ended
  /// the row does.
  std::optional<int64_t> pad_token = {};
  std::optional<uint64_t> seed = {};  ///< seed of the draws; absent: the thread's generator draws
  /// For a model that is sharded over ranks, each with prompts of its own: their rows end at
  /// different steps, but all ranks have to compute each step together. The function, which
  /// dist::any_unfinished() makes, is called before each step with whether a row of this rank is
  /// unfinished, and returns whether a row of any rank is. While it returns true, a rank without
  /// unfinished rows computes logits of a single token and drops them: its text and the state of
  /// its generator are the same as without this option. Absent: a rank ends with its own rows.
  std::function<bool(bool unfinished)> any_unfinished = {};
};

/// The tokens of each row.
using TokenRows = std::vector<std::vector<int64_t>>;

/// Draws the next token of each row, given its logits [B, V] and its tokens so far; returns int64
/// [B, 1].
Tensor next_tokens(const Tensor& logits, const TokenRows& rows, const GenerateOptions& options,
                   Generator& generator);

/// The keys and values of all positions that a model's layers have read, in memory that suffices
/// for the longest sequence. Rows may have read different numbers of positions.
class KeyValueCache {
 public:
  /// Makes a cache for sequences of at most `capacity` positions.
  explicit KeyValueCache(int64_t capacity);

  /// Announces tokens [B, T], where T is at most the capacity that is left. The first counts[b]
  /// tokens of row b follow those it has read; the others are padding, which nothing attends to.
  void begin(int64_t T, std::vector<int64_t> counts);
  /// Ends what begin() announced: all layers have read it.
  void end();
  /// Forgets everything that was read.
  void clear();

  /// The position of the first new token: one number if it is the same in all rows, else one for
  /// each row, as RotaryEmbedding takes them.
  std::span<const int64_t> first() const;
  /// The positions of the new tokens, int64: [T], or [B, T] if rows differ.
  Tensor positions(Device device) const;
  /// Appends the new keys and values, k and v [B, G, T, D], to those of `layer`, and returns the
  /// attention of the new queries q [B, H, T, D] to all positions up to their own, bitwise equal to
  /// that of each row by itself. Of the options it takes scale and enable_gqa. Nothing is recorded
  /// for backward.
  Tensor attend(size_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options = {});
  /// The features x [B, T, C] at each row's last new token that is not padding: [B, C].
  Tensor last(const Tensor& x) const;

 private:
  struct Layer {
    Tensor k, v;  // [B, G, capacity, D]
  };
  // Throws an Error before the first begin(), or if the cache was moved from.
  void check_begun() const;
  int64_t capacity_;
  int64_t T_ = 0;
  std::vector<int64_t> read_;    // positions read in each row; one number if all rows are equal
  std::vector<int64_t> counts_;  // new tokens that are not padding, in each row
  std::vector<Layer> layers_;
};

/// A model that predicts the next token. For generate(), a model of your own computes attention by
/// KeyValueCache::attend() and takes positions from KeyValueCache::first().
/// \snippet test_examples_models.cpp Decoder
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The length of the longest sequence that the model can read.
  virtual int64_t context_length() const = 0;
  /// The logits [B, V] of the token that follows the new tokens [B, T] in each row.
  /// KeyValueCache::begin() has announced the new tokens.
  virtual Tensor next_logits(const Tensor& tokens, KeyValueCache& cache) = 0;

  /// Returns tokens [B, T] or [T], T >= 1, with up to max_new_tokens more at the end, each drawn
  /// from softmax(logits / temperature) given the context_length() tokens before it. The model runs
  /// in evaluation mode, and nothing is recorded for backward.
  Tensor generate(const Tensor& tokens, const GenerateOptions& options = {});
  /// Does the same for several prompts [T] of different lengths at once; returns each with its new
  /// tokens, including the stop token that ended it. With temperature 0, each prompt gets the
  /// tokens that it gets by itself, on the CPU with the same bits of logits as long as no row
  /// outgrows the context. Random draws depend on the row's position in the list.
  std::vector<Tensor> generate(const std::vector<Tensor>& prompts,
                               const GenerateOptions& options = {});
};

/// A Decoder that can be cut into stages.
class PipelineDecoder : public PipelineModel, public Decoder {
 public:
  /// Like run_layers(), for new tokens or the output of earlier layers for them. The last layer
  /// returns the logits of the next tokens, [B, V].
  virtual Tensor run_layers_after(KeyValueCache& cache, size_t begin, size_t end,
                                  const Tensor& x) = 0;
};

/// Chooses the next token in generate() below: it gets the new tokens [B, T], the cache, which
/// knows of them, each row's tokens so far, and the generator for draws; it returns the next token
/// of each row, [B, 1].
using NextTokens = std::function<Tensor(const Tensor& tokens, KeyValueCache& cache,
                                        const TokenRows& rows, Generator& generator)>;
Tensor generate(const Tensor& tokens, int64_t context_length, const GenerateOptions& options,
                const NextTokens& next);
std::vector<Tensor> generate(const std::vector<Tensor>& prompts, int64_t context_length,
                             const GenerateOptions& options, const NextTokens& next);

}  // namespace hero::nn
