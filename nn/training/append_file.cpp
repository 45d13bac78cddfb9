#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/nn/training/append_file.h>

namespace hero::nn {

AppendFile::AppendFile(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  fd_ = retried(
      [&] { return ::open(path_.c_str(), mode == Mode::new_file ? flags | O_EXCL : flags, 0666); });
  check(fd_ >= 0, "write: cannot open ", path_, ": ", std::strerror(errno));
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

uint64_t AppendFile::size() const {
  struct stat info {};
  const bool seen = ::fstat(fd_, &info) == 0;
  check(seen, "write: cannot look at ", path_, ": ", std::strerror(errno));
  return static_cast<uint64_t>(info.st_size);
}

void AppendFile::cut_back(uint64_t size) noexcept {
  // If even this fails, the next reader finds an incomplete piece and removes it.
  (void)retried([&] { return ::ftruncate(fd_, static_cast<off_t>(size)); });
}

void AppendFile::append(const std::string& bytes) {
  const uint64_t before = size();
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        retried([&] { return ::write(fd_, bytes.data() + done, bytes.size() - done); });
    if (put < 0) {
      const int error = errno;
      cut_back(before);
      fail("write: cannot append to ", path_, ": ", std::strerror(error),
           "; the file is as it was");
    }
    done += static_cast<size_t>(put);
  }
}

}  // namespace hero::nn
