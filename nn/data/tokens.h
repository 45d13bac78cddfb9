#pragma once
// Long texts as tokens, in memory or in a file, and the samples that a language model trains on.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/core/io/file.h>
#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

/// Options of Tokens::open().
struct TokenFileOptions {
  int bytes = 2;  ///< bytes per token in a file without a header: 2 or 4
};

/// A sequence of tokens below 2^32, in 2 or 4 bytes each. It is a cheap handle: copies and parts
/// share the tokens. Several threads may read at once.
class Tokens {
 public:
  /// Copies the tokens into memory, with 2 bytes each if all are below 2^16.
  explicit Tokens(std::span<const int64_t> tokens);
  Tokens(const Tokens&) = default;  // no move: a moved-from object stays valid
  Tokens& operator=(const Tokens&) = default;
  /// Opens a file of little-endian tokens: plain as nanoGPT writes them, or with llm.c's header of
  /// 1024 bytes (magic 20240520, 2 bytes a token, or 20240801, 4 bytes), which is checked against
  /// the file's size. Tokens are read from the file whenever they are asked for; if the file has
  /// become shorter since, that is an Error.
  static Tokens open(const std::string& path, const TokenFileOptions& options = {});

  /// The number of tokens.
  int64_t size() const { return size_; }
  /// Returns one token. For a file this is a system call, so prefer read() for many tokens.
  int64_t operator[](int64_t index) const;
  /// Fills `out` with tokens from position `begin` on.
  void read(int64_t begin, std::span<int64_t> out) const;
  /// The tokens from position begin to end - 1.
  Tokens part(int64_t begin, int64_t end) const;

 private:
  Tokens() = default;

  // One of the two: the open file, or bytes in memory.
  std::shared_ptr<const InputFile> file_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  int64_t begin_ = 0;  // position of the first token, in bytes
  int64_t size_ = 0;
  int width_ = 2;
};

/// Whether a file of tokens begins with llm.c's header.
enum class TokenHeader { none, llm_c };

/// Writes a file that Tokens::open() reads, with 2 bytes per token if all are below 2^16, else 4.
void save_tokens(const std::string& path, std::span<const int64_t> tokens,
                 TokenHeader header = TokenHeader::none);

/// Options of TokenDataset.
struct TokenDatasetOptions {
  int64_t block = 128;  ///< tokens in a sample
  int64_t stride = 0;   ///< tokens from the start of a sample to the next; 0: block
};

/// Samples {inputs [block], targets [block]}, int64: a part of a text, and the same part one token
/// later. Sample i begins at token i * stride.
class TokenDataset : public Dataset {
 public:
  /// Makes a dataset. Throws an Error unless there is at least one sample.
  explicit TokenDataset(const Tokens& tokens, const TokenDatasetOptions& options = {});
  /// Copies the tokens into memory first.
  explicit TokenDataset(std::span<const int64_t> tokens, const TokenDatasetOptions& options = {})
      : TokenDataset(Tokens(tokens), options) {}
  int64_t size() const override;
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

  /// A batch of samples that begin at random positions, which depend only on seed and step:
  /// {inputs, targets}, each [batch_size, block].
  Example random_batch(int64_t batch_size, uint64_t seed, int64_t step) const;
  /// The tokens.
  const Tokens& tokens() const { return tokens_; }

 private:
  Example pieces(std::span<const int64_t> starts) const;

  Tokens tokens_;
  TokenDatasetOptions options_;
};

}  // namespace hero::nn::data
