#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>

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

// True for NAME.tmp.PID.N of that name.
bool is_temporary_of(std::string_view entry, std::string_view name) {
  constexpr std::string_view kMark = ".tmp.";
  if (!entry.starts_with(name) || !entry.substr(name.size()).starts_with(kMark)) return false;
  const std::string_view numbers = entry.substr(name.size() + kMark.size());
  const size_t dot = numbers.find('.');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return dot != numbers.npos && is_number(numbers.substr(0, dot)) &&
         is_number(numbers.substr(dot + 1));
}

// Removes the temporaries of writers that were killed. A writer has a lock on its own for as long
// as it lives, on whatever machine or in whatever container it runs, which its number would not
// tell. What cannot be removed stays, and is no reason to fail.
void remove_leftovers(const std::string& path) {
  const std::string folder = directory_of(path);
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (!is_temporary_of(entry->d_name, name)) continue;
    const std::string leftover = folder + "/" + entry->d_name;
    const int fd = retried(
        [&] { return ::open(leftover.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW); });
    if (fd < 0) continue;
    if (retried([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0) ::unlink(leftover.c_str());
    ::close(fd);
  }
  ::closedir(entries);
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Non-blocking, or opening a pipe by mistake would wait for ever; regular files do not care.
  fd_ = retried([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
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
    const ssize_t got =
        retried([&] { return ::pread(fd_, out.data(), wanted, static_cast<off_t>(offset)); });
    check(got >= 0, "read: ", path_, ": ", std::strerror(errno));
    check(got > 0, "read: ", path_, " ends at byte ", offset, ", ", out.size(), " bytes too early");
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
}

OutputFile::OutputFile(const std::string& path, OutputOptions options)
    : path_(resolved(path)), options_(std::move(options)) {
  check(!path_.empty() && path_.back() != '/', "write: not a file name: '", path_, "'");
  struct stat info {};
  const bool replaces = ::stat(path_.c_str(), &info) == 0;
  check(!replaces || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode), "write: ", path_,
        " is a device or a pipe, which a file would replace; name a file");
  if (!options_.in_new_folder) remove_leftovers(path_);
  open_temporary();
  // A replaced file keeps its permissions.
  if (replaces) {
    if (S_ISDIR(info.st_mode)) fail_with("is a directory", EISDIR);
    if (::fchmod(fd_, info.st_mode & 07777) != 0) fail_with("cannot set permissions", errno);
  }
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::open_temporary() {
  constexpr int kAttempts = 1000;
  for (int i = 0; i < kAttempts; ++i) {
    temporary_ = temporary_name(path_);
    fd_ = retried(
        [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    // A process of another container may have this number too.
    if (fd_ < 0 && errno == EEXIST) continue;
    check(fd_ >= 0, "write: cannot create a file beside ", path_, ": ", std::strerror(errno));
    if (options_.in_new_folder) return;  // where nobody looks for leftovers
    // Not every file system has locks; there leftovers stay, as nobody can tell whose they are.
    (void)retried([&] { return ::flock(fd_, LOCK_EX); });
    // Another writer may have taken it for a leftover before it had its lock.
    struct stat info {};
    if (::fstat(fd_, &info) == 0 && info.st_nlink > 0) return;
    ::close(fd_);
    fd_ = -1;
  }
  fail("write: cannot create a file beside ", path_, ": ", kAttempts, " names are taken");
}

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
    const ssize_t put = retried(
        [&] { return ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes)); });
    if (put < 0) fail_with("cannot write", errno);
    if (options_.observe) options_.observe(bytes.first(static_cast<size_t>(put)));
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::commit() {
  check(fd_ >= 0, "write: ", path_, " is already finished");
  if (retried([&] { return ::fsync(fd_); }) != 0) fail_with("cannot flush to the disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_with("cannot rename into place", errno);
  ::close(fd_);
  fd_ = -1;
  // The rename itself must reach the disk too.
  if (!options_.in_new_folder) flush_folder("write", directory_of(path_));
}

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  if (!path_exists(folder)) return names;
  DIR* const entries = ::opendir(folder.c_str());
  check(entries != nullptr, "read: cannot open the folder ", folder, ": ", std::strerror(errno));
  errno = 0;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(entries);
  check(error == 0, "read: cannot read the folder ", folder, ": ", std::strerror(error));
  std::sort(names.begin(), names.end());
  return names;
}

void make_folders(const char* op, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  check(!failed, op, ": cannot make the folder ", folder, ": ", failed.message());
  check(is_folder(folder), op, ": cannot make the folder ", folder, ": ", std::strerror(ENOTDIR));
}

void flush_folder(const char* op, const std::string& folder) {
  const int fd =
      retried([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  // Whoever may write into a folder need not be allowed to read it.
  if (fd < 0 && errno == EACCES) return;
  check(fd >= 0, op, ": cannot open the folder ", folder, ": ", std::strerror(errno));
  const int status = retried([&] { return ::fsync(fd); });
  const int error = errno;
  ::close(fd);
  const bool never_flushes = error == EINVAL || error == ENOTSUP || error == EROFS;
  check(status == 0 || never_flushes, op, ": cannot flush the folder ", folder,
        " to the disk: ", std::strerror(error),
        "; what was written there may not survive a power cut");
}

std::string read_file_text(const std::string& path, uint64_t limit) {
  const InputFile file(path);
  check(file.size() <= limit, "read: ", path, " has ", file.size(), " bytes, expected at most ",
        limit);
  return with_file_errors("read", path, [&] {
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  });
}

}  // namespace hero
