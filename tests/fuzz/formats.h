#pragma once
// What the fuzz targets and the replayed mutations feed: any bytes at all must either load or be
// refused with hero::Error. Reads out of bounds and everything else are left to the sanitizers.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/gguf.h>
#include <hero/core/io/printable.h>
#include <hero/core/npy.h>
#include <hero/core/safetensors.h>

namespace hero_fuzz {

/// A file that no disk sees.
class InMemory {
 public:
  explicit InMemory(std::span<const std::byte> bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put <= 0) std::abort();
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
  }
  ~InMemory() { ::close(fd_); }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// Reads every byte of an array, so that a short one shows.
inline uint64_t touch(const hero::core::Array& array) {
  uint64_t sum = 0;
  if (array.numel() == 0) return sum;
  for (const std::byte b : std::span(array.bytes(), static_cast<size_t>(array.nbytes()))) {
    sum = sum * 31 + std::to_integer<uint64_t>(b);
  }
  return sum;
}

/// True when the bytes are a file of the format.
inline bool feed_safetensors(std::span<const std::byte> bytes) {
  try {
    uint64_t sum = 0;
    for (const auto& one : hero::core::parse_safetensors(bytes).arrays) sum += touch(one.array);
    return sum != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

inline bool feed_npy(std::span<const std::byte> bytes) {
  try {
    return touch(hero::core::parse_npy(bytes)) != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

/// Reads all that a file has, by every way to read it.
inline bool feed_gguf(std::span<const std::byte> bytes) {
  const InMemory memory(bytes);
  try {
    const hero::core::GGUFReader file(memory.path());
    uint64_t sum = 0;
    const auto look = [&](const auto& read) {
      try {
        if (read()) ++sum;
      } catch (const hero::Error&) {
        ++sum;  // of another type
      }
    };
    for (const std::string& key : file.keys()) {
      look([&] { return file.integer(key).has_value(); });
      look([&] { return file.number(key).has_value(); });
      look([&] { return file.flag(key).has_value(); });
      look([&] { return file.text(key).has_value(); });
      look([&] { return file.integers(key).has_value(); });
      look([&] { return file.numbers(key).has_value(); });
      look([&] { return file.texts(key).has_value(); });
    }
    for (const auto& entry : file.entries()) {
      look([&] { return touch(file.load(entry.name)) != 1; });
      look([&] { return touch(file.load(entry.name, hero::kBFloat16)) != 1; });
    }
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

/// What any text becomes on its way to a terminal.
inline bool feed_printable(std::span<const std::byte> bytes) {
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::string shown = hero::printable(text);
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) __builtin_trap();
  }
  if (hero::printable(shown) != shown) __builtin_trap();
  return shown == text;
}

}  // namespace hero_fuzz
