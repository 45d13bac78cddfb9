#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <hero/core/array/checked.h>
#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/random.h>
#include <hero/nn/data/tokens.h>

namespace hero::nn::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

constexpr int64_t kHeaderInts = 256;
constexpr int64_t kHeaderBytes = kHeaderInts * 4;

// llm.c's two kinds of files.
struct Kind {
  int32_t magic, version;
  int width;
};
constexpr Kind kKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

struct Layout {
  int64_t begin, size;
  int width;
};

Layout layout_of(const InputFile& file, int plain_width) {
  const std::string& path = file.path();
  const auto held = static_cast<int64_t>(file.size());
  std::array<int32_t, 3> fields{};
  const size_t front = std::min(sizeof fields, static_cast<size_t>(held)) / 4 * 4;
  file.read(0, std::as_writable_bytes(std::span(fields)).first(front));
  for (const Kind& kind : kKinds) {
    if (fields[0] != kind.magic) continue;
    check(held >= kHeaderBytes, "tokens: ", path, " ends inside its header of ", kHeaderBytes,
          " bytes, after ", held);
    check(fields[1] == kind.version, "tokens: ", path, " has version ", fields[1], ", known is ",
          kind.version);
    const int64_t needed = int64_t{fields[2]} * kind.width;
    check(fields[2] >= 0 && held - kHeaderBytes == needed, "tokens: ", path, " holds ",
          held - kHeaderBytes, " bytes of tokens, its header claims ", fields[2], " tokens of ",
          kind.width, " bytes");
    return {kHeaderBytes, fields[2], kind.width};
  }
  check(held % plain_width == 0, "tokens: ", path, " has ", held, " bytes, not a multiple of ",
        plain_width, "; is it a file of other tokens, or cut short?");
  return {0, held / plain_width, plain_width};
}

int width_for(std::span<const int64_t> tokens) {
  int64_t largest = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    check(tokens[i] >= 0 && tokens[i] <= 0xffffffff, "tokens: token ", i, " is ", tokens[i],
          ", not in [0, 2^32)");
    largest = std::max(largest, tokens[i]);
  }
  return largest < 65536 ? 2 : 4;
}

std::vector<std::byte> packed(std::span<const int64_t> tokens, int width) {
  std::vector<std::byte> bytes(tokens.size() * static_cast<size_t>(width));
  std::byte* to = bytes.data();
  for (const int64_t token : tokens) {
    std::memcpy(to, &token, static_cast<size_t>(width));
    to += width;
  }
  return bytes;
}

template <class T>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    out[i] = int64_t{token};
  }
}

}  // namespace

Tokens::Tokens(std::span<const int64_t> tokens)
    : size_(static_cast<int64_t>(tokens.size())), width_(width_for(tokens)) {
  bytes_ = std::make_shared<const std::vector<std::byte>>(packed(tokens, width_));
}

Tokens Tokens::open(const std::string& path, const TokenFileOptions& options) {
  check(options.bytes == 2 || options.bytes == 4, "tokens: a token has 2 or 4 bytes, not ",
        options.bytes);
  Tokens tokens;
  tokens.file_ = std::make_shared<const InputFile>(path);
  const Layout layout = layout_of(*tokens.file_, options.bytes);
  tokens.begin_ = layout.begin;
  tokens.size_ = layout.size;
  tokens.width_ = layout.width;
  return tokens;
}

int64_t Tokens::operator[](int64_t index) const {
  int64_t token = 0;
  read(index, std::span(&token, 1));
  return token;
}

void Tokens::read(int64_t begin, std::span<int64_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  check(begin >= 0 && begin <= size_ && count <= size_ - begin, "tokens: asked for ", count,
        " from ", begin, ", there are ", size_);
  const auto widen_all = [&](const std::byte* from, std::span<int64_t> to) {
    width_ == 2 ? widen<uint16_t>(from, to) : widen<uint32_t>(from, to);
  };
  const int64_t first = begin_ + begin * width_;
  if (bytes_) return widen_all(bytes_->data() + first, out);
  // Not mapped: what reads past the end of a mapped file that another process has cut is killed,
  // what reads a file gets an error.
  std::array<std::byte, 16384> piece;
  auto at = static_cast<uint64_t>(first);
  while (!out.empty()) {
    const auto width = static_cast<size_t>(width_);
    const size_t now = std::min(out.size(), piece.size() / width);
    file_->read(at, std::span(piece).first(now * width));
    widen_all(piece.data(), out.first(now));
    out = out.subspan(now);
    at += now * width;
  }
}

Tokens Tokens::part(int64_t begin, int64_t end) const {
  check(begin >= 0 && begin <= end && end <= size_, "tokens: there is no part [", begin, ", ", end,
        ") of ", size_);
  Tokens piece = *this;
  piece.begin_ += begin * width_;
  piece.size_ = end - begin;
  return piece;
}

void save_tokens(const std::string& path, std::span<const int64_t> tokens, TokenHeader header) {
  const int width = width_for(tokens);
  OutputFile file(path);
  if (header == TokenHeader::llm_c) {
    check(tokens.size() <= 0x7fffffff, "save_tokens: the header cannot count ", tokens.size(),
          " tokens; write them without one");
    const Kind& kind = width == 2 ? kKinds[0] : kKinds[1];
    std::vector<int32_t> fields(kHeaderInts);
    fields[0] = kind.magic;
    fields[1] = kind.version;
    fields[2] = static_cast<int32_t>(tokens.size());
    file.write(std::as_bytes(std::span(fields)));
  }
  file.write(packed(tokens, width));
  file.commit();
}

TokenDataset::TokenDataset(const Tokens& tokens, const TokenDatasetOptions& options)
    : tokens_(tokens), options_(options) {
  if (options_.stride == 0) options_.stride = options_.block;
  check(options_.block > 0 && options_.stride > 0, "token_dataset: block ", options_.block,
        " and stride ", options_.stride, " must be positive");
  check(tokens_.size() > options_.block, "token_dataset: ", tokens_.size(),
        " tokens are too few for a sample of ", options_.block, " and the token after it");
}

int64_t TokenDataset::size() const {
  return (tokens_.size() - options_.block - 1) / options_.stride + 1;
}

Example TokenDataset::pieces(std::span<const int64_t> starts) const {
  const int64_t block = options_.block;
  const Shape shape{static_cast<int64_t>(starts.size()), block};
  const Array inputs = Array::empty(shape, kInt64), targets = Array::empty(shape, kInt64);
  const auto length = static_cast<size_t>(block);
  std::vector<int64_t> piece(length + 1);  // one read for both
  for (size_t i = 0; i < starts.size(); ++i) {
    tokens_.read(starts[i], piece);
    std::copy_n(piece.begin(), length, inputs.data<int64_t>() + i * length);
    std::copy_n(piece.begin() + 1, length, targets.data<int64_t>() + i * length);
  }
  return {Tensor(inputs), Tensor(targets)};
}

Example TokenDataset::get(int64_t index) const {
  const Example batch = get_batch(std::span(&index, 1));
  return {Tensor(batch[0].array().select(0, 0)), Tensor(batch[1].array().select(0, 0))};
}

Example TokenDataset::get_batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> starts;
  for (const int64_t index : indices) {
    check_index("token_dataset", index);
    starts.push_back(index * options_.stride);
  }
  return pieces(starts);
}

Example TokenDataset::random_batch(int64_t batch_size, uint64_t seed, int64_t step) const {
  check(batch_size > 0, "token_dataset: the batch size is not positive: ", batch_size);
  check(step >= 0, "token_dataset: the step is negative: ", step);
  const int64_t first = (core::Checked{"token_dataset", step} * batch_size).value;
  std::vector<int64_t> starts = within_memory(
      "token_dataset", [=] { return std::vector<int64_t>(static_cast<size_t>(batch_size)); });
  fill_randint(starts, named_stream(seed, "token_dataset"), first, 0,
               tokens_.size() - options_.block);
  return pieces(starts);
}

}  // namespace hero::nn::data
