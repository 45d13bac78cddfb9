#pragma once
// Files: reading at an offset, and writing that leaves either the old file or the whole new one.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hero {

/// An open file, read at offsets. Every failure is an hero::Error that names the path.
class InputFile {
 public:
  /// Opens a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes in the file when it was opened.
  uint64_t size() const { return size_; }
  /// Fills `out` from `offset`; an error when the file ends before.
  void read(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// A new file that takes its name only when it is complete: bytes go to a temporary beside the
/// target, commit() flushes it to the disk and renames it. Without commit() the temporary is
/// removed and the old file, if any, is as it was.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  /// Makes the file appear under its name, surviving a power cut once this returns.
  void commit();

 private:
  [[noreturn]] void fail_with(const char* what, int error);
  void discard();

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace hero
