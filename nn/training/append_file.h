#pragma once
// A file to which text is only appended: each piece has been handed to the system when append()
// returns.
#include <cstdint>
#include <string>

#include <hero/core/io/file.h>

namespace hero::nn {

class AppendFile {
 public:
  enum class Mode { new_file, any };

  /// Opens `path` for appending; with Mode::new_file it must not exist yet.
  AppendFile(std::string path, Mode mode);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  /// Hands all of `bytes` to the system, so that they survive the end of this process. If only a
  /// part of them fits on a full disk, that part is removed again, so the file always ends with a
  /// whole piece.
  void append(const std::string& bytes);
  /// The size of the file in bytes.
  uint64_t size() const;
  /// Removes what was appended since the file had this size.
  void cut_back(uint64_t size) noexcept;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

/// All bytes of a file.
inline std::string read_text(const std::string& path) { return read_file_text(path); }

}  // namespace hero::nn
