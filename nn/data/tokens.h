#pragma once
// Long texts as tokens: in memory or in a file, and the samples that a language model trains
// on.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/core/io/file.h>
#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

struct TokenFileOptions {
  int bytes = 2;  ///< of a token in a file without a header: 2 or 4
};

/// Tokens below 2^32, in 2 or 4 bytes each. A cheap handle: copies and parts share them. Several
/// threads may read at once.
class Tokens {
 public:
  /// Copies the tokens into memory, 2 bytes each where all are below 2^16.
  explicit Tokens(std::span<const int64_t> tokens);
  /// Opens a file of little-endian tokens: plain as nanoGPT writes them, or with llm.c's header of
  /// 1024 bytes (magic 20240520, 2 bytes a token, or 20240801, 4 bytes), which is checked against
  /// the file's size. Tokens are read from it when they are asked for, each time anew; a file that
  /// has become shorter meanwhile is an Error.
  static Tokens open(const std::string& path, const TokenFileOptions& options = {});

  int64_t size() const { return size_; }
  /// One token; of a file this asks the system, so prefer read() for many.
  int64_t operator[](int64_t index) const;
  /// Fills `out` with the tokens from `begin` on.
  void read(int64_t begin, std::span<int64_t> out) const;
  /// Tokens begin ... end - 1.
  Tokens part(int64_t begin, int64_t end) const;

 private:
  Tokens() = default;

  // One of the two: the open file, or bytes in memory.
  std::shared_ptr<const InputFile> file_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  int64_t begin_ = 0;  // of the first token, in bytes
  int64_t size_ = 0;
  int width_ = 2;
};

enum class TokenHeader { none, llm_c };

/// Writes tokens as Tokens::open reads them: 2 bytes each where all are below 2^16, else 4.
void save_tokens(const std::string& path, std::span<const int64_t> tokens,
                 TokenHeader header = TokenHeader::none);

struct TokenDatasetOptions {
  int64_t block = 128;  ///< tokens of a sample
  int64_t stride = 0;   ///< from the start of a sample to the next; 0: block
};

/// Samples {inputs [block], targets [block]}, int64: a piece of a text, and the same piece one
/// token later. Sample i begins at token i * stride.
class TokenDataset : public Dataset {
 public:
  explicit TokenDataset(Tokens tokens, const TokenDatasetOptions& options = {});
  explicit TokenDataset(std::span<const int64_t> tokens, const TokenDatasetOptions& options = {})
      : TokenDataset(Tokens(tokens), options) {}
  int64_t size() const override;
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

  /// `batch_size` samples that begin anywhere, fixed by seed and step alone: {inputs, targets},
  /// each [batch_size, block].
  Example random_batch(int64_t batch_size, uint64_t seed, int64_t step) const;
  const Tokens& tokens() const { return tokens_; }

 private:
  Example pieces(std::span<const int64_t> starts) const;

  Tokens tokens_;
  TokenDatasetOptions options_;
};

}  // namespace hero::nn::data
