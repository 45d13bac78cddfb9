#pragma once
// Chapter 8a: a text as tokens, and the picture of a training run.
#include <memory>
#include <string>

#include "support/pictures/plot.h"

#include <hero/nn/data/tokenizer.h>
#include <hero/nn/data/tokens.h>

namespace tutorial {

/// A text cut in two: what a model learns from, and what it is tested with.
struct Corpus {
  std::shared_ptr<hero::nn::data::Tokenizer> tokenizer;
  hero::nn::data::TokenDataset train, validation;
  double characters_per_token;
};

struct CorpusOptions {
  int64_t vocab_size = 0;  ///< of the byte pairs learned from the text; 0: a token a character
  int64_t characters = 0;  ///< only the first so many; 0: all
  int64_t block = 64;      ///< tokens of a sample
  bool silent = false;     ///< do not print what was found
};

/// The King James Bible: its last tenth is kept for validation. Prints what it found.
Corpus king_james_corpus(const CorpusOptions& options);

/// The two losses over the steps.
struct Curves {
  Values train_steps, train, validation_steps, validation;
  /// Of the last `count` training losses, or of all where there are fewer.
  double mean_of_last(int64_t count) const;
};
void draw_losses(const Curves& curves, const std::string& folder, const std::string& name);

/// A text with each line moved in by two blanks.
std::string moved_in(const std::string& text);

}  // namespace tutorial
