#pragma once
// Source: an open file, or bytes in memory, from which a file format is read with a check of
// bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <hero/core/error.h>
#include <hero/core/io/file.h>

namespace hero::core {

/// Bytes that are read at offsets; a read outside of them throws an Error.
class Source {
 public:
  explicit Source(const InputFile& file) : file_(&file), size_(file.size()) {}
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {}

  uint64_t size() const { return size_; }
  /// The path, for errors.
  std::string label() const { return file_ != nullptr ? file_->path() : "bytes in memory"; }
  void read(uint64_t offset, std::span<std::byte> out) const {
    check(offset <= size_ && out.size() <= size_ - offset, "read: ", label(), " ends at byte ",
          size_, ", asked for ", out.size(), " bytes from ", offset);
    if (file_ != nullptr) {
      file_->read(offset, out);
    } else {
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    }
  }

 private:
  const InputFile* file_ = nullptr;
  std::span<const std::byte> bytes_;
  uint64_t size_ = 0;
};

}  // namespace hero::core
