#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/file.h>

namespace hero {
namespace {

// read(2) and write(2) move at most 2 GiB - 4 KiB a call.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A symbolic link is followed, so that the rename replaces the file and not the link.
std::string resolved(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result(real);
  std::free(real);
  return result;
}

// Unique among the threads of this process and the processes of this machine.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  return path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Non-blocking, or opening a pipe by mistake would wait for ever; regular files do not care.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(fd_ >= 0, "read: cannot open ", path_, ": ", std::strerror(errno));
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail("read: not a regular file: ", path_);
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const size_t wanted = std::min(out.size(), kMaxTransferBytes);
    const ssize_t got = ::pread(fd_, out.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, "read: ", path_, ": ", std::strerror(errno));
    check(got > 0, "read: ", path_, " ends at byte ", offset, ", ", out.size(), " bytes too early");
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
}

OutputFile::OutputFile(const std::string& path) : path_(resolved(path)) {
  check(!path_.empty() && path_.back() != '/', "write: not a file name: '", path_, "'");
  temporary_ = temporary_name(path_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  check(fd_ >= 0, "write: cannot create a file beside ", path_, ": ", std::strerror(errno));
  // A replaced file keeps its permissions.
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) fail_with("is a directory", EISDIR);
    if (::fchmod(fd_, info.st_mode & 07777) != 0) fail_with("cannot set permissions", errno);
  }
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  fd_ = -1;
}

void OutputFile::fail_with(const char* what, int error) {
  discard();
  fail("write: ", path_, ": ", what, ": ", std::strerror(error), "; the file is as it was");
}

void OutputFile::write(std::span<const std::byte> bytes) {
  check(fd_ >= 0, "write: ", path_, " is already finished");
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with("cannot write", errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::commit() {
  check(fd_ >= 0, "write: ", path_, " is already finished");
  if (::fsync(fd_) != 0) fail_with("cannot flush to the disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_with("cannot rename into place", errno);
  ::close(fd_);
  fd_ = -1;
  // The rename itself must reach the disk too. Some file systems refuse to open or flush a folder;
  // the file is complete all the same.
  const int folder = ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
}

}  // namespace hero
