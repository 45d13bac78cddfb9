// The words of consecutive Philox blocks. A word lies in the lower half of a lane of 64 bits, where
// a product of two words fits; the upper half is never read.
#include <cstring>

#include <hero/core/cpu/elementwise/philox_words.h>
#include <hero/core/cpu/products/avx512_intrinsics.h>
#include <hero/core/kernels/philox.h>

namespace hero::core::cpu {

#if defined(__AVX2__)

namespace {

#if defined(__AVX512F__)
typedef uint64_t WideWords __attribute__((vector_size(64)));

WideWords product(WideWords a, WideWords b) {
  return (WideWords)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
constexpr WideWords kFirst = {0, 1, 2, 3, 4, 5, 6, 7};
void store_in_turn(WideWords a, WideWords b, uint32_t* to) {
  const WideWords both[] = {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
                            __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
  std::memcpy(to, both, sizeof(both));
}
#else
typedef uint64_t WideWords __attribute__((vector_size(32)));

WideWords product(WideWords a, WideWords b) {
  return (WideWords)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
constexpr WideWords kFirst = {0, 1, 2, 3};
void store_in_turn(WideWords a, WideWords b, uint32_t* to) {
  const WideWords both[] = {__builtin_shufflevector(a, b, 0, 4, 1, 5),
                            __builtin_shufflevector(a, b, 2, 6, 3, 7)};
  std::memcpy(to, both, sizeof(both));
}
#endif

constexpr int kWideWords = sizeof(WideWords) / sizeof(uint64_t);

}  // namespace

void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words) {
  static_assert(kPhiloxGroup % kWideWords == 0);
  WideWords keys[philox::kRounds][2];
  uint32_t k0 = static_cast<uint32_t>(stream.key), k1 = static_cast<uint32_t>(stream.key >> 32);
  for (auto& key : keys) {
    key[0] = WideWords{} + k0;
    key[1] = WideWords{} + k1;
    k0 += philox::kKeyStep0;
    k1 += philox::kKeyStep1;
  }
  const WideWords first_factor = WideWords{} + philox::kFactor0,
                  second_factor = WideWords{} + philox::kFactor1;
  for (int i = 0; i < blocks; i += kWideWords) {
    WideWords c0 = kFirst + (first_block + static_cast<uint64_t>(i)), c1 = c0 >> 32;
    WideWords c2 = WideWords{} + stream.id, c3 = c2 >> 32;
    for (const auto& key : keys) {
      const WideWords p0 = product(first_factor, c0), p1 = product(second_factor, c2);
      c0 = (p1 >> 32) ^ c1 ^ key[0];
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ key[1];
      c3 = p0;
    }
    store_in_turn((c0 & 0xFFFFFFFFu) | c1 << 32, (c2 & 0xFFFFFFFFu) | c3 << 32, words + 4 * i);
  }
}

#else

void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words) {
  for (int i = 0; i < blocks; ++i) {
    const philox::Block block =
        philox::block(stream.key, stream.id, first_block + static_cast<uint64_t>(i));
    std::memcpy(words + 4 * i, block.word, sizeof(block.word));
  }
}

#endif

}  // namespace hero::core::cpu
