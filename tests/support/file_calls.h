#pragma once
// The system calls of this process on the files below a folder, recorded on their way. For one
// source of a test program, as the functions here stand before the C library's own.
#include <algorithm>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hero_test {

/// Records, while it lives, what is done below `folder` by any thread. One at a time.
class FileCalls {
 public:
  enum class Kind { read, write, list, flush };  ///< opened to read or write, or what it says
  struct Call {
    Kind kind;
    std::string path;
  };

  explicit FileCalls(std::string folder) : folder_(std::move(folder)) {
    const std::lock_guard guard(mutex());
    current() = this;
  }
  ~FileCalls() {
    const std::lock_guard guard(mutex());
    current() = nullptr;
  }
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// How many calls of that kind had a path that contains `part`.
  std::ptrdiff_t count(Kind kind, const std::string& part = "") const {
    const std::lock_guard guard(mutex());
    return std::count_if(calls_.begin(), calls_.end(), [&](const Call& call) {
      return call.kind == kind && call.path.find(part) != std::string::npos;
    });
  }

  static void note(Kind kind, const std::string& path) {
    const std::lock_guard guard(mutex());
    FileCalls* const here = current();
    if (here != nullptr && path.starts_with(here->folder_)) here->calls_.push_back({kind, path});
  }
  static void note(Kind kind, int fd) {
    char path[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
    if (size > 0) note(kind, std::string(path, static_cast<size_t>(size)));
  }

 private:
  static std::mutex& mutex() {
    static auto* mutex = new std::mutex;  // leaked on purpose: threads may outlive statics
    return *mutex;
  }
  static FileCalls*& current() {
    static FileCalls* current = nullptr;
    return current;
  }

  std::string folder_;
  std::vector<Call> calls_ = {};
};

}  // namespace hero_test

extern "C" {

// The names in C++ are others, as <fcntl.h> may define open() itself.
int hero_test_open(const char* path, int flags, ...) __asm__("open");
DIR* hero_test_opendir(const char* path) __asm__("opendir");
DIR* hero_test_fdopendir(int fd) __asm__("fdopendir");
int hero_test_fsync(int fd) __asm__("fsync");

inline __attribute__((used)) int hero_test_open(const char* path, int flags, ...) {
  using Kind = hero_test::FileCalls::Kind;
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if ((flags & O_DIRECTORY) == 0) {
    hero_test::FileCalls::note((flags & O_ACCMODE) == O_RDONLY ? Kind::read : Kind::write, path);
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

inline __attribute__((used)) DIR* hero_test_opendir(const char* path) {
  hero_test::FileCalls::note(hero_test::FileCalls::Kind::list, path);
  static const auto next = reinterpret_cast<DIR* (*)(const char*)>(::dlsym(RTLD_NEXT, "opendir"));
  return next(path);
}

inline __attribute__((used)) DIR* hero_test_fdopendir(int fd) {
  hero_test::FileCalls::note(hero_test::FileCalls::Kind::list, fd);
  static const auto next = reinterpret_cast<DIR* (*)(int)>(::dlsym(RTLD_NEXT, "fdopendir"));
  return next(fd);
}

inline __attribute__((used)) int hero_test_fsync(int fd) {
  hero_test::FileCalls::note(hero_test::FileCalls::Kind::flush, fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

}  // extern "C"
