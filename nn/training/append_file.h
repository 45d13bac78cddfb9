#pragma once
// A file that only grows: each piece is on its way to the disk when append() returns.
#include <string>

namespace hero::nn {

class AppendFile {
 public:
  enum class Mode { new_file, any };

  /// Opens `path` for appending; with Mode::new_file it must not exist yet.
  AppendFile(std::string path, Mode mode);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  /// Hands all of `bytes` to the system, so that they survive the end of this process.
  void append(const std::string& bytes);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

/// All bytes of a file.
std::string read_text(const std::string& path);

}  // namespace hero::nn
