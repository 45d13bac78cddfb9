#include <algorithm>
#include <cstring>

#include <hero/core/cpu/past_caches.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace hero::core::cpu {

namespace {

constexpr int64_t kLine = 64;

#if defined(__AVX512F__)
void stream_line(const std::byte* from, std::byte* to) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__AVX__)
void stream_line(const std::byte* from, std::byte* to) {
  for (int64_t i = 0; i < kLine; i += 32) {
    const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), value);
  }
}
#else
void stream_line(const std::byte* from, std::byte* to) { std::memcpy(to, from, kLine); }
#endif

}  // namespace

void copy_past_caches(const std::byte* from, std::byte* to, int64_t bytes) {
  const int64_t skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  int64_t done = std::min(skew == 0 ? 0 : kLine - skew, bytes);
  std::memcpy(to, from, static_cast<size_t>(done));
  for (; done + kLine <= bytes; done += kLine) stream_line(from + done, to + done);
  std::memcpy(to + done, from + done, static_cast<size_t>(bytes - done));
}

// The stores are not ordered with those that tell others of them.
void end_copies() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

}  // namespace hero::core::cpu
