#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/file.h>
#include <hero/nn/training/append_file.h>

namespace hero::nn {

AppendFile::AppendFile(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  fd_ = ::open(path_.c_str(), mode == Mode::new_file ? flags | O_EXCL : flags, 0666);
  check(fd_ >= 0, "write: cannot open ", path_, ": ", std::strerror(errno));
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    check(put >= 0, "write: cannot append to ", path_, ": ", std::strerror(errno));
    done += static_cast<size_t>(put);
  }
}

std::string read_text(const std::string& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace hero::nn
