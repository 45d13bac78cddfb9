#include <algorithm>
#include <bit>
#include <vector>

#include <hero/core/io/file.h>
#include <hero/core/io/sha256.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace hero {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<uint32_t>(bytes[i]);
  return word;
}

#ifdef __x86_64__
const bool kHasInstructions = [] {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}();

// Four rounds at a time; the instructions keep the state as (a, b, e, f) and (c, d, g, h).
[[gnu::target("sha,sse4.1")]] void block_by_instructions(std::array<uint32_t, 8>& state,
                                                         const std::byte* bytes) {
  auto* const words = reinterpret_cast<__m128i*>(state.data());
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  const __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  __m128i first = abef, second = cdgh, w[4];
  for (int i = 0; i < 16; ++i) {
    __m128i& now = w[i % 4];
    if (i < 4) {
      now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i), swap);
    } else {
      const __m128i before = w[(i + 3) % 4];
      now = _mm_sha256msg1_epu32(now, w[(i + 1) % 4]);
      now = _mm_add_epi32(now, _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
      now = _mm_sha256msg2_epu32(now, before);
    }
    const auto* constants = reinterpret_cast<const __m128i*>(kConstants) + i;
    const __m128i added = _mm_add_epi32(now, _mm_loadu_si128(constants));
    second = _mm_sha256rnds2_epu32(second, first, added);
    first = _mm_sha256rnds2_epu32(first, second, _mm_shuffle_epi32(added, 0x0e));
  }
  const __m128i feba = _mm_shuffle_epi32(_mm_add_epi32(first, abef), 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(_mm_add_epi32(second, cdgh), 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#endif

}  // namespace

void Sha256::block(const std::byte* bytes) {
#ifdef __x86_64__
  if (!by_words_ && kHasInstructions) return block_by_instructions(state_, bytes);
#endif
  block_by_words(bytes);
}

void Sha256::block_by_words(const std::byte* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    const uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3;
    const uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kConstants[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  const size_t held = size_ % 64;
  size_ += bytes.size();
  if (held > 0) {
    const size_t taken = std::min(64 - held, bytes.size());
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    if (held + taken < 64) return;
    block(rest_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::string Sha256::finish() {
  const uint64_t bits = size_ * 8;
  std::vector<std::byte> tail(1, std::byte{0x80});
  tail.resize(1 + (64 + 55 - size_ % 64) % 64, std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8) {
    tail.push_back(static_cast<std::byte>(bits >> shift & 0xff));
  }
  update(tail);
  std::string text;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 0xf];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string sha256_by_words(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.by_words_ = true;
  hash.update(bytes);
  return hash.finish();
}

FileHash hash_file(const std::string& path) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  const InputFile file(path);
  Sha256 hash;
  std::vector<std::byte> piece(std::min(kPieceBytes, file.size()));
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - at));
    file.read(at, piece);
    hash.update(piece);
  }
  return {file.size(), hash.finish()};
}

}  // namespace hero
