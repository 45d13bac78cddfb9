#include <cstring>

#include <hero/core/cpu/streaming_stores.h>
#include <hero/dist/backends/copy_bytes.h>

namespace hero::dist {

void copy_bytes(const std::byte* from, std::byte* to, int64_t bytes, int64_t whole) {
  if (bytes <= 0 || from == to) return;
  if (whole > core::cpu::kCachedBytes) {
    core::cpu::copy_streaming(from, to, bytes);
    core::cpu::end_copies();
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

}  // namespace hero::dist
