#include "support/lessons/language.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/king_james.h>

namespace tutorial {

namespace data = hero::nn::data;

namespace {

// Characters are what the quick run and small models use; byte pairs are learned from the text.
std::shared_ptr<data::Tokenizer> make_tokenizer(const std::string& text, int64_t vocab_size) {
  if (vocab_size == 0) return std::make_shared<data::CharTokenizer>(text);
  return std::make_shared<data::BPETokenizer>(
      data::BPETokenizer::train(text, {.vocab_size = vocab_size}));
}

}  // namespace

Corpus king_james_corpus(const CorpusOptions& options) {
  std::string text = data::king_james({.references = false});
  if (options.characters > 0) text.resize(static_cast<size_t>(options.characters));
  const auto tokenizer = make_tokenizer(text, options.vocab_size);
  const data::Tokens tokens(tokenizer->encode(text));
  const int64_t cut = tokens.size() - tokens.size() / 10;
  const data::TokenDatasetOptions samples{.block = options.block};
  const double share = static_cast<double>(text.size()) / static_cast<double>(tokens.size());
  if (!options.silent) {
    std::printf("text: %zu characters, %lld tokens of %lld kinds, %.2f characters per token\n",
                text.size(), static_cast<long long>(tokens.size()),
                static_cast<long long>(tokenizer->vocab_size()), share);
  }
  return {tokenizer, data::TokenDataset(tokens.part(0, cut), samples),
          data::TokenDataset(tokens.part(cut, tokens.size()), samples), share};
}

double Curves::mean_of_last(int64_t count) const {
  const auto last = std::min<size_t>(static_cast<size_t>(count), train.size());
  double sum = 0.0;
  for (size_t i = train.size() - last; i < train.size(); ++i) sum += train[i];
  return sum / static_cast<double>(last);
}

void draw_losses(const Curves& curves, const std::string& folder, const std::string& name) {
  Figure figure("A GPT learns the King James Bible", "step", "loss per token");
  const double last = curves.train_steps.back();
  std::vector<Tick> ticks;  // as many as have room
  for (const double quarter : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    ticks.push_back({quarter * last, std::to_string(std::lround(quarter * last))});
  }
  if (last >= 1000) figure.x_ticks(ticks);
  figure.line("training", curves.train_steps, curves.train, 1.4)
      .line("validation", curves.validation_steps, curves.validation)
      .save(folder, name);
}

std::string moved_in(const std::string& text) {
  std::string out = "  ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace tutorial
