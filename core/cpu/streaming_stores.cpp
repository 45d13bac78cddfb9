#include <algorithm>

#include <hero/core/cpu/streaming_stores.h>

namespace hero::core::cpu {

void copy_streaming(const std::byte* from, std::byte* to, int64_t bytes) {
  const int64_t skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kCacheLine);
  int64_t done = std::min(skew == 0 ? 0 : kCacheLine - skew, bytes);
  std::memcpy(to, from, static_cast<size_t>(done));
  for (; done + kCacheLine <= bytes; done += kCacheLine) stream_line(from + done, to + done);
  std::memcpy(to + done, from + done, static_cast<size_t>(bytes - done));
}

// The stores are not ordered with those that tell others of them.
void end_copies() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

}  // namespace hero::core::cpu
