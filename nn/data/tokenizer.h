#pragma once
// Tokenizer: the interface from text to tokens and back, and the simplest tokenizer, with a token
// for each character.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn::data {

/// The interface of tokenizers, which turn text into tokens, numbers in [0, vocab_size()).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// The number of different tokens.
  virtual int64_t vocab_size() const = 0;
  /// The tokens of a text.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// The text of tokens. Throws an Error if one is outside the vocabulary.
  virtual std::string decode(std::span<const int64_t> tokens) const = 0;
  /// The text of an integer tensor, which is read row by row.
  std::string decode(const Tensor& tokens) const;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
};

/// A tokenizer with a token for each character (a Unicode code point in UTF-8), in the order of
/// code points. A byte that is not UTF-8 is a character of its own.
class CharTokenizer : public Tokenizer {
 public:
  /// Makes a tokenizer whose vocabulary is the distinct characters of `text`.
  explicit CharTokenizer(std::string_view text);
  /// Reads what save() wrote.
  static CharTokenizer load(const std::string& path);
  /// Reads the same from the text of such a file; `label` names it in errors.
  static CharTokenizer parse(std::string_view text, const std::string& label);
  /// Writes the vocabulary as JSON.
  void save(const std::string& path) const;

  int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }
  /// The tokens of a text. Throws an Error at the first character that is not in the vocabulary.
  std::vector<int64_t> encode(std::string_view text) const override;
  using Tokenizer::decode;
  std::string decode(std::span<const int64_t> tokens) const override;
  /// The characters, in the order of their tokens.
  const std::vector<std::string>& characters() const { return characters_; }

 private:
  explicit CharTokenizer(std::vector<std::string> characters);
  std::vector<std::string> characters_;  // in order of code points
};

}  // namespace hero::nn::data
