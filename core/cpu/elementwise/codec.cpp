// Codecs: a stretch of blocks of 256 elements at a time, in loops that the compiler vectorises.
#include <array>
#include <cstring>
#include <mutex>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/elementwise/codec_rows.h>
#include <hero/core/cpu/reduce/exact_sum.h>
#include <hero/core/cpu/streaming_stores.h>
#include <hero/core/functions/codec.h>
#include <hero/core/kernels/codecs.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace hero::core::cpu {

namespace {

constexpr int64_t kWordElements = 32;  // signs in a word
constexpr int64_t kWordsOfBlock = kCodecBlock / kWordElements;

// Blocks of a stretch that is coded in the first-level cache: with float32 values 16 KiB, and whole
// cache lines of codes.
constexpr int64_t kBlocksAtOnce = 16;
struct alignas(64) StretchValues {
  float at[kBlocksAtOnce * kCodecBlock];
};
struct alignas(64) StretchCodes {
  std::byte at[kBlocksAtOnce * (codecs::kScaleBytes + kCodecBlock)];
};

bool passes_caches(const Array& values, const Array& bytes) {
  return values.nbytes() + bytes.nbytes() > kCachedBytes;
}

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
constexpr int64_t kBlockBytes = codecs::kScaleBytes + kCodeBytes<Format>;

template <class Format>
void encode_block(const float* x, std::byte* to) {
  const auto [scale, inverse] = codecs::block_scale<Format>(largest_bits(x));
  std::memcpy(to, &scale, sizeof scale);
  auto* codes = reinterpret_cast<uint8_t*>(to + codecs::kScaleBytes);
  if (inverse == 0.0f) {
    std::memset(codes, 0, kCodeBytes<Format>);
  } else if constexpr (kNibbles<Format>) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kCodecBlock / 2; ++i) {
      const int low = Format::code(x[i] * inverse);
      const int high = Format::code(x[i + kCodecBlock / 2] * inverse);
      codes[i] = static_cast<uint8_t>((low & 15) | high << 4);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < kCodecBlock; ++i) {
      codes[i] = static_cast<uint8_t>(Format::code(x[i] * inverse));
    }
  }
}

// The values of a block, and its scale.
template <class Format>
float decode_block(const std::byte* from, float* values) {
  float scale = 0.0f;
  std::memcpy(&scale, from, sizeof scale);
  const auto* codes = reinterpret_cast<const int8_t*>(from + codecs::kScaleBytes);
  if constexpr (kNibbles<Format>) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kCodecBlock / 2; ++i) {
      const int both = codes[i];  // NOLINT(bugprone-signed-char-misuse): of two's complement
      const int low = static_cast<int>(static_cast<uint32_t>(both) << 28) >> 28, high = both >> 4;
      values[i] = Format::value(low) * scale;
      values[i + kCodecBlock / 2] = Format::value(high) * scale;
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < kCodecBlock; ++i) values[i] = Format::value(codes[i]) * scale;
  }
  return scale;
}

void keep_left_out(const float* x, const float* decoded, float scale, int64_t count, float* error) {
  for (int64_t i = 0; i < count; ++i) error[i] = codecs::left_out(x[i], decoded[i], scale);
}

template <class Format>
void encode_stretch(const FloatSource& source, const Array* error, const Stretch& s,
                    std::byte* to) {
  BlockValues values, decoded;
  for (int64_t b = 0; b < s.blocks; ++b, to += kBlockBytes<Format>) {
    const int64_t count = s.elements_of(b), begin = s.begin + b * kCodecBlock;
    const float* from = source.read_block(begin, count, values);
    if (count == kCodecBlock) source.fetch_ahead(from, begin, count);
    if (error == nullptr || count == 0) {
      encode_block<Format>(from, to);
      continue;
    }
    float* const errors = error->data<float>() + begin;
    for (int64_t i = 0; i < count; ++i) values.at[i] = from[i] + errors[i];
    encode_block<Format>(values.at, to);
    const float scale = decode_block<Format>(to, decoded.at);
    keep_left_out(values.at, decoded.at, scale, count, errors);
  }
}

template <class Format>
void decode_stretch(const std::byte* row, const Stretch& s, float* values) {
  const std::byte* from = row + s.first_block * kBlockBytes<Format>;
  for (int64_t b = 0; b < s.blocks; ++b) {
    decode_block<Format>(from + b * kBlockBytes<Format>, values + b * kCodecBlock);
  }
}

// [note: signs] The scale of a row of signs is of all its elements, their bits are not: one pass
// makes the bits and the sum of squares, and where errors are kept a second one follows.

uint32_t signs_of(const float* x) {
#if defined(__AVX512DQ__)
  const auto half = [](const float* from) {
    return static_cast<uint32_t>(_mm512_movepi32_mask(_mm512_loadu_si512(from)));
  };
  return half(x) | half(x + 16) << 16;
#elif defined(__AVX__)
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_loadu_ps(x + 8 * i))) << 8 * i;
  }
  return word;
#else
  uint32_t word = 0;
  for (uint32_t i = 0; i < kWordElements; ++i) word |= std::bit_cast<uint32_t>(x[i]) >> 31 << i;
  return word;
#endif
}

void encode_signs(const float* x, int64_t count, uint32_t* to) {
  const int64_t words = count / kWordElements, rest = count % kWordElements;
  for (int64_t w = 0; w < words; ++w) to[w] = signs_of(x + w * kWordElements);
  if (rest == 0) return;
  std::array<float, kWordElements> last = {};
  std::copy_n(x + words * kWordElements, rest, last.begin());
  to[words] = signs_of(last.data());
}

void decode_signs(const std::byte* row, const Stretch& s, float* values) {
  float scale = 0.0f;
  std::memcpy(&scale, row, sizeof scale);
  const auto* words =
      reinterpret_cast<const uint32_t*>(row + codecs::kScaleBytes) + s.first_block * kWordsOfBlock;
  const int64_t count = (s.count + kWordElements - 1) / kWordElements;
  for (int64_t w = 0; w < count; ++w) {
    for (uint32_t i = 0; i < kWordElements; ++i) {
      values[kWordElements * w + i] = codecs::sign_value(words[w] >> i & 1u, scale);
    }
  }
}

struct CodecKernels {
  void (*encode)(const FloatSource& source, const Array* error, const Stretch& s, std::byte* to);
  // From a row's bytes; what lies behind the stretch's elements may be anything.
  void (*decode)(const std::byte* row, const Stretch& s, float* values);
  int64_t block_bytes;
};
template <class Format>
constexpr CodecKernels kKernels = {&encode_stretch<Format>, &decode_stretch<Format>,
                                   kBlockBytes<Format>};
constexpr CodecKernels kSignKernels = {nullptr, &decode_signs, 0};
const CodecKernels& kernels_of(Codec codec) {
  switch (codec) {
    case Codec::sign1:
      return kSignKernels;
    case Codec::int8:
      return kKernels<codecs::Int8>;
    case Codec::int4:
      return kKernels<codecs::Int4>;
    case Codec::fp8_e4m3:
      return kKernels<codecs::E4M3>;
    case Codec::fp8_e5m2:
      return kKernels<codecs::E5M2>;
  }
  fail("codec: number ", static_cast<int>(codec), " is none");
}

// The signs of a stretch; the sum of its squares is added to `squares`. With `error`, of x + error,
// which becomes it.
void encode_sign_stretch(const FloatSource& source, const Array* error, const Stretch& s,
                         uint32_t* to, ExactAccumulator& squares) {
  BlockValues values;
  for (int64_t at = 0; at < s.count; at += kBlock) {
    const int64_t count = std::min(kBlock, s.count - at);
    const float* from = source.read(s.begin + at, count, values);
    // What comes later is on its way while this block is read three times.
    source.fetch_ahead(from, s.begin + at, kBlock);
    if (error != nullptr) {
      float* const sums = error->data<float>() + s.begin + at;
      for (int64_t i = 0; i < count; ++i) sums[i] += from[i];
      from = sums;
    }
    encode_signs(from, count, to + at / kWordElements);
    add_squares(squares, from, count);
  }
}

// The scale of each row, when its bits are there.
std::vector<float> encode_sign_rows(const Array& x, int64_t row, const Array& bytes,
                                    const Array* error) {
  constexpr int64_t kBlocks = kGrain / kCodecBlock;  // as many as share the addition of a sum
  const FloatSource source(x);
  const int64_t rows = bytes.size(0), words = (row + kWordElements - 1) / kWordElements;
  std::vector<ExactAccumulator> sums(static_cast<size_t>(rows));
  std::mutex adding;
  each_stretch(rows, row, x.numel(), kBlocks, [&](const Stretch& s) {
    auto* const of_row =
        reinterpret_cast<uint32_t*>(bytes.bytes() + s.row * bytes.size(1) + codecs::kScaleBytes);
    const int64_t first = s.first_block * kWordsOfBlock;
    const int64_t end = std::min(first + s.blocks * kWordsOfBlock, words);
    const int64_t used = (s.count + kWordElements - 1) / kWordElements;
    std::fill(of_row + first + used, of_row + end, 0u);
    if (s.count == 0) return;
    ExactAccumulator part;
    encode_sign_stretch(source, error, s, of_row + first, part);
    const std::lock_guard lock(adding);
    sums[static_cast<size_t>(s.row)].add(part);
  });
  std::vector<float> scales;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t elements = std::clamp<int64_t>(x.numel() - r * row, 0, row);
    scales.push_back(
        codecs::sign_scale(exact::root(sums[static_cast<size_t>(r)].words().data()), elements));
    std::memcpy(bytes.bytes() + r * bytes.size(1), &scales.back(), sizeof(float));
  }
  return scales;
}

// What the signs leave of the sums in `error`.
void keep_sign_errors(const std::vector<float>& scales, int64_t row, const Array& error) {
  each_stretch(error.numel() == 0 ? 0 : static_cast<int64_t>(scales.size()), row, error.numel(),
               kBlocksAtOnce, [&](const Stretch& s) {
                 if (s.count == 0) return;
                 const float scale = scales[static_cast<size_t>(s.row)];
                 float* const errors = error.data<float>() + s.begin;
                 for (int64_t i = 0; i < s.count; ++i) {
                   const uint32_t sign = std::bit_cast<uint32_t>(errors[i]) >> 31;
                   errors[i] = codecs::left_out(errors[i], codecs::sign_value(sign, scale), scale);
                 }
               });
}

void add_values(float* sums, const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

// Where decoded stretches go.
class DecodedTarget {
 public:
  DecodedTarget(const Array& out, DecodeMode mode, bool streaming_stores)
      : out_(out),
        source_(out),
        writer_(out, kFloat32),
        adds_(mode == DecodeMode::add),
        streams_(streaming_stores) {}

  // Where to decode to: the place itself, or `values`, which put() then takes.
  float* place(const Stretch& s, StretchValues& values) const {
    const bool in_place = writer_.direct() && !adds_ && !streams_;
    return in_place && s.count == s.blocks * kCodecBlock ? direct(s) : values.at;
  }
  void put(const Stretch& s, StretchValues& values) const {
    if (!writer_.direct()) return convert(s, values.at);
    if (adds_) return add_values(direct(s), values.at, s.count);
    const auto* const from = reinterpret_cast<const std::byte*>(values.at);
    auto* const to = reinterpret_cast<std::byte*>(direct(s));
    const int64_t bytes = s.count * static_cast<int64_t>(sizeof(float));
    streams_ ? copy_streaming(from, to, bytes)
             : static_cast<void>(std::memcpy(to, from, static_cast<size_t>(bytes)));
  }

 private:
  float* direct(const Stretch& s) const { return out_.data<float>() + s.begin; }
  // Into halves, rounded.
  void convert(const Stretch& s, float* values) const {
    BlockValues former;
    for (int64_t at = 0; at < s.count; at += kBlock) {
      const int64_t count = std::min(kBlock, s.count - at), begin = s.begin + at;
      if (adds_) add_values(values + at, source_.read(begin, count, former), count);
      writer_.commit(begin, count, reinterpret_cast<const std::byte*>(values + at));
    }
  }

  const Array& out_;
  FloatSource source_;
  BlockWriter writer_;
  bool adds_, streams_;
};

}  // namespace

void CpuBackend::run(const call::Encode& call) {
  if (call.codec == Codec::sign1) {
    const std::vector<float> scales = encode_sign_rows(call.x, call.row, call.bytes, call.error);
    if (call.error != nullptr) keep_sign_errors(scales, call.row, *call.error);
    return;
  }
  const CodecKernels& kernels = kernels_of(call.codec);
  const FloatSource source(call.x);
  const bool streaming_stores = passes_caches(call.x, call.bytes);
  each_stretch(call.bytes.size(0), call.row, call.x.numel(), kBlocksAtOnce, [&](const Stretch& s) {
    StretchCodes codes;
    std::byte* const to =
        call.bytes.bytes() + s.row * call.bytes.size(1) + s.first_block * kernels.block_bytes;
    kernels.encode(source, call.error, s, streaming_stores ? codes.at : to);
    if (streaming_stores) copy_streaming(codes.at, to, s.blocks * kernels.block_bytes);
  });
}

void CpuBackend::run(const call::Decode& call) {
  const CodecKernels& kernels = kernels_of(call.codec);
  const bool sum = call.mode == DecodeMode::sum;
  const int64_t rows = call.bytes.size(0);
  const DecodedTarget target(call.out, call.mode, passes_caches(call.out, call.bytes));
  each_stretch(sum ? 1 : rows, call.row, call.out.numel(), kBlocksAtOnce, [&](const Stretch& s) {
    if (s.count == 0) return;
    StretchValues values, more;
    const std::byte* const from = call.bytes.bytes() + s.row * call.bytes.size(1);
    float* const to = target.place(s, values);
    kernels.decode(from, s, to);
    for (int64_t i = 1; sum && i < rows; ++i) {
      kernels.decode(from + i * call.bytes.size(1), s, more.at);
      add_values(to, more.at, s.count);
    }
    if (to == values.at) target.put(s, values);
  });
}

}  // namespace hero::core::cpu
