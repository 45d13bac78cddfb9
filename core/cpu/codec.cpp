// Codecs: a block of 256 elements at a time, in loops that the compiler vectorises.
#include <array>
#include <cstring>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/functions/codec.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/codecs.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kCodecBlock = codecs::kBlock;
constexpr int64_t kWordsOfBlock = kCodecBlock / 32;
constexpr int64_t kBlocksAtOnce = kGrain / kCodecBlock;  // of a thread

struct alignas(64) BlockValues {
  float at[kCodecBlock];
};

// A block of a row: elements [begin, begin + count) of the array, fewer than kCodecBlock at the end
// of a row only, and none behind the array's end.
struct Block {
  int64_t row, in_row, begin, count;
};

// Calls body(block) for all blocks of all rows.
template <class Body>
void each_block(int64_t rows, int64_t row, int64_t n, const Body& body) {
  const int64_t in_row = (row + kCodecBlock - 1) / kCodecBlock;
  parallel_for(rows * in_row, kBlocksAtOnce, [&](int64_t first, int64_t last) {
    int64_t r = first / in_row, at = first % in_row;  // divisions take as long as a block
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = r * row + at * kCodecBlock;
      const int64_t end = std::min({begin + kCodecBlock, (r + 1) * row, n});
      body(Block{r, at, begin, std::max<int64_t>(end - begin, 0)});
      if (++at == in_row) at = 0, ++r;
    }
  });
}

// The elements of a block as floats, with zeros behind the last: x's own memory where it is that.
class BlockSource {
 public:
  explicit BlockSource(const Array& x) : reader_(x, x.shape(), kFloat32) {}
  const float* read(const Block& block, BlockValues& values) const {
    if (block.count > 0) {  // else there is no address
      auto* const scratch = reinterpret_cast<std::byte*>(values.at);
      const std::byte* const from = reader_.read(block.begin, block.count, scratch);
      if (reader_.direct() && block.count == kCodecBlock) {
        return reinterpret_cast<const float*>(from);
      }
      const auto bytes = static_cast<size_t>(block.count) * sizeof(float);
      if (from != scratch) std::memcpy(scratch, from, bytes);
    }
    std::fill(values.at + block.count, values.at + kCodecBlock, 0.0f);
    return values.at;
  }

 private:
  BlockReader reader_;
};

uint32_t largest_bits(const float* x) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < kCodecBlock; ++i) {
    largest = std::max(largest, codecs::magnitude_bits(x[i]));
  }
  return largest;
}

// The codes of two halves of a block in one byte, or one a byte.
template <class Format>
constexpr bool kNibbles = std::is_same_v<Format, codecs::Int4>;
template <class Format>
constexpr int64_t kCodeBytes = kNibbles<Format> ? kCodecBlock / 2 : kCodecBlock;

template <class Format>
void encode_block(const float* x, std::byte* to) {
  const auto [scale, inverse] = codecs::block_scale<Format>(largest_bits(x));
  std::memcpy(to, &scale, sizeof scale);
  auto* codes = reinterpret_cast<uint8_t*>(to + codecs::kScaleBytes);
  if (inverse == 0.0f) {
    std::memset(codes, 0, kCodeBytes<Format>);
  } else if constexpr (kNibbles<Format>) {
    for (int64_t i = 0; i < kCodecBlock / 2; ++i) {
      const int low = Format::code(x[i] * inverse);
      const int high = Format::code(x[i + kCodecBlock / 2] * inverse);
      codes[i] = static_cast<uint8_t>((low & 15) | high << 4);
    }
  } else {
    for (int64_t i = 0; i < kCodecBlock; ++i) {
      codes[i] = static_cast<uint8_t>(Format::code(x[i] * inverse));
    }
  }
}

template <class Format>
float decode_block(const std::byte* from, float* values) {
  float scale = 0.0f;
  std::memcpy(&scale, from, sizeof scale);
  const auto* codes = reinterpret_cast<const int8_t*>(from + codecs::kScaleBytes);
  if constexpr (kNibbles<Format>) {
    for (int64_t i = 0; i < kCodecBlock / 2; ++i) {
      const int low = codes[i] & 15, high = codes[i] >> 4 & 15;  // of two's complement
      values[i] = Format::value((low ^ 8) - 8) * scale;
      values[i + kCodecBlock / 2] = Format::value((high ^ 8) - 8) * scale;
    }
  } else {
    for (int64_t i = 0; i < kCodecBlock; ++i) values[i] = Format::value(codes[i]) * scale;
  }
  return scale;
}

void encode_signs(const float* x, int64_t words, uint32_t* to) {
  for (int64_t w = 0; w < words; ++w) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 32; ++i) word |= std::bit_cast<uint32_t>(x[32 * w + i]) >> 31 << i;
    to[w] = word;
  }
}

void decode_signs(const uint32_t* from, int64_t words, float scale, float* values) {
  for (int64_t w = 0; w < words; ++w) {
    for (uint32_t i = 0; i < 32; ++i) {
      values[32 * w + i] = codecs::sign_value(from[w] >> i & 1u, scale);
    }
  }
}

struct BlockFormat {
  void (*encode)(const float* x, std::byte* to);
  float (*decode)(const std::byte* from, float* values);  // and the scale
  int64_t bytes;
};
template <class Format>
constexpr BlockFormat kFormat = {&encode_block<Format>, &decode_block<Format>,
                                 codecs::kScaleBytes + kCodeBytes<Format>};
const BlockFormat& format_of(Codec codec) {
  switch (codec) {
    case Codec::int4:
      return kFormat<codecs::Int4>;
    case Codec::fp8_e4m3:
      return kFormat<codecs::E4M3>;
    case Codec::fp8_e5m2:
      return kFormat<codecs::E5M2>;
    default:
      return kFormat<codecs::Int8>;
  }
}

void keep_left_out(const float* x, const float* decoded, float scale, int64_t count, float* error) {
  for (int64_t i = 0; i < count; ++i) error[i] = codecs::left_out(x[i], decoded[i], scale);
}

void encode_blocks(const BlockFormat& format, const Array& x, int64_t row, const Array& bytes,
                   const Array* error) {
  const BlockSource source(x);
  float* const errors = error ? error->data<float>() : nullptr;
  each_block(bytes.size(0), row, x.numel(), [&](const Block& block) {
    BlockValues values, decoded;
    const float* from = source.read(block, values);
    if (errors) {
      for (int64_t i = 0; i < block.count; ++i) values.at[i] = from[i] + errors[block.begin + i];
      from = values.at;
    }
    std::byte* const to = bytes.bytes() + block.row * bytes.size(1) + block.in_row * format.bytes;
    format.encode(from, to);
    if (!errors || block.count == 0) return;
    const float scale = format.decode(to, decoded.at);
    keep_left_out(from, decoded.at, scale, block.count, errors + block.begin);
  });
}

// The scale of each row of signs.
std::vector<float> sign_scales(const Array& x, int64_t row, int64_t rows) {
  std::vector<Array> parts;
  for (int64_t begin = 0; begin < x.numel(); begin += row) {
    parts.push_back(x.slice(0, begin, std::min(begin + row, x.numel())));
  }
  std::vector<float> scales(static_cast<size_t>(rows), 0.0f);
  for (size_t i = 0; i < parts.size(); ++i) {
    ExactSum sum;
    sum.add_squares(parts[i]);
    scales[i] = codecs::sign_scale(sum.root(), parts[i].numel());
  }
  return scales;
}

void encode_sign_rows(const Array& x, int64_t row, const Array& bytes, const Array* error) {
  if (error) map_into<kernels::Add>(*error, *error, x);
  const Array& sums = error ? *error : x;
  const std::vector<float> scales = sign_scales(sums, row, bytes.size(0));
  const BlockSource source(sums);
  each_block(bytes.size(0), row, x.numel(), [&](const Block& block) {
    BlockValues values;
    const float scale = scales[static_cast<size_t>(block.row)];
    std::byte* const to = bytes.bytes() + block.row * bytes.size(1);
    if (block.in_row == 0) std::memcpy(to, &scale, sizeof scale);
    auto* const words =
        reinterpret_cast<uint32_t*>(to + codecs::kScaleBytes) + block.in_row * kWordsOfBlock;
    const int64_t in_row = std::min(kCodecBlock, row - block.in_row * kCodecBlock);
    const float* const from = source.read(block, values);
    encode_signs(from, (in_row + 31) / 32, words);
    if (!error || block.count == 0) return;
    float* const errors = error->data<float>() + block.begin;
    for (int64_t i = 0; i < block.count; ++i) {
      const auto sign = std::bit_cast<uint32_t>(from[i]) >> 31;
      errors[i] = codecs::left_out(from[i], codecs::sign_value(sign, scale), scale);
    }
  });
}

// Block number `in_row` of an encoded row of `row` elements.
void decode_part(Codec codec, const std::byte* from, int64_t row, int64_t in_row, float* values) {
  if (codec != Codec::sign1) {
    const BlockFormat& format = format_of(codec);
    format.decode(from + in_row * format.bytes, values);
    return;
  }
  float scale = 0.0f;
  std::memcpy(&scale, from, sizeof scale);
  const auto* words =
      reinterpret_cast<const uint32_t*>(from + codecs::kScaleBytes) + in_row * kWordsOfBlock;
  const int64_t elements = std::min(kCodecBlock, row - in_row * kCodecBlock);
  decode_signs(words, (elements + 31) / 32, scale, values);
}

void add_values(float* sums, const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

}  // namespace

void CpuBackend::encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
                        const Array* error) {
  if (codec == Codec::sign1) return encode_sign_rows(x, row, bytes, error);
  encode_blocks(format_of(codec), x, row, bytes, error);
}

void CpuBackend::decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
                        const Array& out) {
  const bool sum = mode == DecodeMode::sum;
  const int64_t rows = bytes.size(0);
  const BlockSource source(out);
  const BlockWriter writer(out, kFloat32);
  each_block(sum ? 1 : rows, row, out.numel(), [&](const Block& block) {
    if (block.count == 0) return;
    BlockValues values, former, more;
    const std::byte* const from = bytes.bytes() + block.row * bytes.size(1);
    const bool whole = writer.direct() && block.count == kCodecBlock && mode != DecodeMode::add;
    auto* const target =
        whole ? reinterpret_cast<float*>(writer.target(block.begin, {})) : values.at;
    decode_part(codec, from, row, block.in_row, target);
    for (int64_t i = 1; sum && i < rows; ++i) {
      decode_part(codec, from + i * bytes.size(1), row, block.in_row, more.at);
      add_values(target, more.at, kCodecBlock);
    }
    if (mode == DecodeMode::add) {
      add_values(values.at, source.read(block, former), block.count);
    }
    if (whole) return;
    auto* const scratch = reinterpret_cast<std::byte*>(values.at);
    if (writer.direct()) {
      std::memcpy(writer.target(block.begin, {}), scratch,
                  static_cast<size_t>(block.count) * sizeof(float));
    } else {
      writer.commit(block.begin, block.count, scratch);
    }
  });
}

}  // namespace hero::core::cpu
