#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <hero/core/io/gguf_blocks.h>
#include <hero/core/kernels/half.h>
#include <hero/core/thread_pool.h>

namespace hero::core::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// [note: blocks of GGUF]
// Types whose names end in _0 and _1 have blocks of 32 numbers q of 4, 5 or 8 bits. Behind the
// block's scale d in float16 (and, for _1, its offset m) lie the bits: of 4-bit numbers, byte j has
// number j in its low half and number j + 16 in its high half; fifth bits are bits j and j + 16 of
// a word of their own. A number is d (q - middle) for _0, and d q + m for _1.
//
// Types whose names end in _K have blocks of 256 numbers in 8 groups of 32 or 16 groups of 16,
// whose scales are themselves whole numbers, of 6 or 8 bits, that share a scale in float16.

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float half_at(const std::byte* from) { return static_cast<float>(read_as<Float16>(from)); }

int byte_at(const std::byte* from, int64_t i) { return std::to_integer<int>(from[i]); }

int signed_at(const std::byte* from, int64_t i) {
  return static_cast<int>(std::bit_cast<int8_t>(from[i]));
}

template <class T>
void decode_plain(const std::byte* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(read_as<T>(in + i * static_cast<int64_t>(sizeof(T))));
  }
}

void decode_q8_0(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 34, out += 32) {
    const float d = half_at(in);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(signed_at(in + 2, i));
  }
}

void decode_q4_0(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 18, out += 32) {
    const float d = half_at(in);
    for (int j = 0; j < 16; ++j) {
      const int both = byte_at(in + 2, j);
      out[j] = d * static_cast<float>((both & 15) - 8);
      out[j + 16] = d * static_cast<float>((both >> 4) - 8);
    }
  }
}

void decode_q4_1(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 20, out += 32) {
    const float d = half_at(in), m = half_at(in + 2);
    for (int j = 0; j < 16; ++j) {
      const int both = byte_at(in + 4, j);
      out[j] = d * static_cast<float>(both & 15) + m;
      out[j + 16] = d * static_cast<float>(both >> 4) + m;
    }
  }
}

// The numbers of 5 bits, j and j + 16, whose lower four are in `both`.
std::array<int, 2> five_bits(uint32_t high, int both, int j) {
  return {(both & 15) | static_cast<int>(high >> j & 1) << 4,
          both >> 4 | static_cast<int>(high >> (j + 16) & 1) << 4};
}

void decode_q5_0(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 22, out += 32) {
    const float d = half_at(in);
    const auto high = read_as<uint32_t>(in + 2);
    for (int j = 0; j < 16; ++j) {
      const auto [first, second] = five_bits(high, byte_at(in + 6, j), j);
      out[j] = d * static_cast<float>(first - 16);
      out[j + 16] = d * static_cast<float>(second - 16);
    }
  }
}

void decode_q5_1(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 24, out += 32) {
    const float d = half_at(in), m = half_at(in + 2);
    const auto high = read_as<uint32_t>(in + 4);
    for (int j = 0; j < 16; ++j) {
      const auto [first, second] = five_bits(high, byte_at(in + 8, j), j);
      out[j] = d * static_cast<float>(first) + m;
      out[j + 16] = d * static_cast<float>(second) + m;
    }
  }
}

// Scale and minimum of a group of Q4_K and Q5_K, 6 bits each in 12 bytes: groups 0 to 3 have theirs
// in the low bits of bytes 0 to 3 and 4 to 7; groups 4 to 7 have their low four bits in bytes 8 to
// 11, the high two in the rest of bytes 0 to 7.
std::array<int, 2> six_bits(const std::byte* in, int group) {
  if (group < 4) return {byte_at(in, group) & 63, byte_at(in, group + 4) & 63};
  const int low = byte_at(in, group + 4);
  return {(low & 15) | (byte_at(in, group - 4) >> 6) << 4, (low >> 4) | (byte_at(in, group) >> 6)
                                                                            << 4};
}

// Two groups of Q4_K and Q5_K share 32 bytes, the first their low halves, the second the high ones.
// Bits 2k and 2k + 1 of `high` are the fifth ones of groups 2k and 2k + 1; null: there are none.
void decode_pairs(const std::byte* in, const std::byte* high, const std::byte* low, float* out) {
  const float d = half_at(in), least = half_at(in + 2);
  for (int group = 0; group < 8; ++group, out += 32) {
    const auto [scale, minimum] = six_bits(in + 4, group);
    const float step = d * static_cast<float>(scale), m = least * static_cast<float>(minimum);
    const std::byte* from = low + static_cast<ptrdiff_t>(group / 2) * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      int q = byte_at(from, i) >> shift & 15;
      if (high != nullptr) q |= (byte_at(high, i) >> group & 1) << 4;
      out[i] = step * static_cast<float>(q) - m;
    }
  }
}

void decode_q4_k(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 144, out += 256) {
    decode_pairs(in, nullptr, in + 16, out);
  }
}

void decode_q5_k(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 176, out += 256) {
    decode_pairs(in, in + 16, in + 48, out);
  }
}

// Two halves of 128 numbers: four runs of 32, of which run r has its low four bits in bytes 32 (r
// mod 2) ... of the half's 64, in their halves r / 2, and its high two bits in bits 2r, 2r + 1 of
// 32 more. Each run has two scales of 8 bits.
void decode_q6_k(const std::byte* in, int64_t count, float* out) {
  for (int64_t b = 0; b < count; ++b, in += 210) {
    const float d = half_at(in + 208);
    for (int half = 0; half < 2; ++half, out += 128) {
      const std::byte *low = in + half * 64, *high = in + 128 + half * 32;
      const std::byte* scales = in + 192 + half * 8;
      for (int run = 0; run < 4; ++run) {
        for (int i = 0; i < 32; ++i) {
          const int q = (byte_at(low, run % 2 * 32 + i) >> (run / 2 * 4) & 15) |
                        (byte_at(high, i) >> (2 * run) & 3) << 4;
          const float step = d * static_cast<float>(signed_at(scales, 2 * run + i / 16));
          out[run * 32 + i] = step * static_cast<float>(q - 32);
        }
      }
    }
  }
}

// The numbers, names and sizes that llama.cpp's files use.
constexpr BlockType kTypes[] = {{0, "F32", 1, 4, decode_plain<float>},
                                {1, "F16", 1, 2, decode_plain<Float16>},
                                {30, "BF16", 1, 2, decode_plain<BFloat16>},
                                {28, "F64", 1, 8, nullptr},
                                {8, "Q8_0", 32, 34, decode_q8_0},
                                {2, "Q4_0", 32, 18, decode_q4_0},
                                {3, "Q4_1", 32, 20, decode_q4_1},
                                {6, "Q5_0", 32, 22, decode_q5_0},
                                {7, "Q5_1", 32, 24, decode_q5_1},
                                {12, "Q4_K", 256, 144, decode_q4_k},
                                {13, "Q5_K", 256, 176, decode_q5_k},
                                {14, "Q6_K", 256, 210, decode_q6_k},
                                {9, "Q8_1"},
                                {10, "Q2_K"},
                                {11, "Q3_K"},
                                {15, "Q8_K"},
                                {16, "IQ2_XXS"},
                                {17, "IQ2_XS"},
                                {18, "IQ3_XXS"},
                                {19, "IQ1_S"},
                                {20, "IQ4_NL"},
                                {21, "IQ3_S"},
                                {22, "IQ2_S"},
                                {23, "IQ4_XS"},
                                {24, "I8"},
                                {25, "I16"},
                                {26, "I32"},
                                {27, "I64"},
                                {29, "IQ1_M"},
                                {34, "TQ1_0"},
                                {35, "TQ2_0"},
                                {39, "MXFP4"}};

template <class T>
void decode_as(const BlockType& type, const std::byte* blocks, int64_t count, T* out) {
  constexpr int64_t kElements = 16384;  // of a chunk, a multiple of every block
  if (type.decode == nullptr) {         // F64
    parallel_for(count, kElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = convert<T>(read_as<double>(blocks + 8 * i));
    });
    return;
  }
  parallel_for(count, kElements / type.elements, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>) {
      type.decode(blocks + begin * type.bytes, end - begin, out + begin * type.elements);
    } else {
      constexpr int64_t kPart = 1024;
      float part[kPart];
      const int64_t most = kPart / type.elements;
      for (int64_t at = begin; at < end; at += most) {
        const int64_t now = std::min(most, end - at);
        type.decode(blocks + at * type.bytes, now, part);
        T* to = out + at * type.elements;
        for (int64_t i = 0; i < now * type.elements; ++i) to[i] = convert<T>(part[i]);
      }
    }
  });
}

}  // namespace

const BlockType* block_type(uint32_t number) {
  for (const BlockType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

const BlockType* block_type(std::string_view name) {
  for (const BlockType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string readable_types() {
  std::string text;
  for (const BlockType& type : kTypes) {
    if (type.bytes > 0) text += (text.empty() ? "" : ", ") + std::string(type.name);
  }
  return text;
}

void decode(const BlockType& type, const std::byte* blocks, int64_t count, DType dtype,
            std::byte* out) {
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
      decode_as(type, blocks, count, reinterpret_cast<T*>(out));
    }
  });
}

}  // namespace hero::core::gguf
