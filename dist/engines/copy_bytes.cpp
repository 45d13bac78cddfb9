#include <cstring>

#include <hero/dist/engines/copy_bytes.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace hero::dist {
namespace {

constexpr int64_t kCached = int64_t{32} << 20;  // a usual last-level cache
constexpr int64_t kLine = 64;

#ifdef __AVX__
void copy_past_caches(const std::byte* from, std::byte* to, int64_t bytes) {
  constexpr int64_t kStep = 4 * kLine;
  const int64_t skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  const int64_t head = skew == 0 ? 0 : kLine - skew;
  std::memcpy(to, from, static_cast<size_t>(head));
  int64_t done = head;
  for (; done + kStep <= bytes; done += kStep) {
    for (int64_t i = done; i < done + kStep; i += 32) {
      const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), value);
    }
  }
  _mm_sfence();  // these stores are not ordered with those that tell the others
  std::memcpy(to + done, from + done, static_cast<size_t>(bytes - done));
}
#endif

}  // namespace

void copy_bytes(const std::byte* from, std::byte* to, int64_t bytes, int64_t whole) {
  if (bytes <= 0 || from == to) return;
#ifdef __AVX__
  if (whole > kCached && bytes > kLine) return copy_past_caches(from, to, bytes);
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace hero::dist
