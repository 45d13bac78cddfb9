#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/core/threads/at_fork.h>
#include <hero/nn/training/folder_lock.h>
#include <hero/nn/training/lock_patience.h>

namespace hero::nn {
namespace {

constexpr const char* kLockFile = "LOCK";
constexpr const char* kOn = " on ";  // between the process and its host

std::atomic<double> seconds_for_other_hosts{0};

// The locks of this process by the identity of their files. A forked child has copies of its
// parent's descriptors, but counts as another writer.
struct Held {
  pid_t process;
  std::weak_ptr<FolderLock> lock;
};
using FileKey = std::pair<dev_t, ino_t>;

constinit std::mutex held_mutex;
std::map<FileKey, Held>& all_held() {
  static auto* held = new std::map<FileKey, Held>;  // leaked on purpose: statics may take locks
  return *held;
}
[[maybe_unused]] const bool kHeldAtFork = core::at_fork(
    [] {
      held_mutex.lock();
      all_held();
    },
    [] { held_mutex.unlock(); },
    [] {
      for (auto& [key, held] : all_held()) {
        if (const auto lock = held.lock.lock()) lock->leave_to_parent();
      }
      held_mutex.unlock();
    });  // see [note: forks]

void write_holder(int fd) {
  std::string text = "process ";
  text += std::to_string(::getpid());
  text += kOn;
  text += host_name();
  text += '\n';
  // Only for people; the lock holds without it.
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

std::string holder_of(const std::string& path) {
  try {
    constexpr uint64_t kMost = 1000;
    std::string text = read_file_text(path, kMost);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.empty() ? "another process" : text;
  } catch (const Error&) {
    return "another process";
  }
}

// The host of "process 4711 on node1" where it is not this one; else "".
std::string other_host(const std::string& holder) {
  const size_t at = holder.find(kOn);
  if (at == std::string::npos) return "";
  const std::string host = holder.substr(at + std::strlen(kOn));
  return host == host_name() ? "" : host;
}

void say(const std::string& line) { std::fprintf(stderr, "%s\n", printable(line).c_str()); }

}  // namespace

void wait_for_other_hosts(double seconds) { seconds_for_other_hosts = seconds; }
double patience_for_other_hosts() { return seconds_for_other_hosts; }

struct FolderLock::Attempt {
  std::shared_ptr<FolderLock> lock;
  int error = 0;  // EWOULDBLOCK: another process has it
};

// A child that was forked meanwhile may have a copy of the descriptor, with which the lock would
// stay.
FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  ::flock(fd_, LOCK_UN);
  ::close(fd_);
}

void FolderLock::leave_to_parent() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FolderLock::Attempt FolderLock::attempt_once(const std::string& path) {
  const std::lock_guard guard(held_mutex);  // no fork finds a lock that is not among them yet
  const int fd = retried(
      [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666); });
  if (fd < 0) return {nullptr, errno};
  std::shared_ptr<FolderLock> lock(new FolderLock(fd));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {nullptr, errno};
  Held& held = all_held()[{info.st_dev, info.st_ino}];
  if (held.process == ::getpid()) {
    if (std::shared_ptr<FolderLock> mine = held.lock.lock()) return {mine, 0};
  }
  if (retried([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0) return {nullptr, errno};
  write_holder(fd);
  held = {::getpid(), lock};
  return {lock, 0};
}

std::shared_ptr<FolderLock> FolderLock::attempt(const std::string& folder) {
  return attempt_once((std::filesystem::path(folder) / kLockFile).string()).lock;
}

std::shared_ptr<FolderLock> FolderLock::take(const char* op, const std::string& folder,
                                             double patience_seconds, Unwritable unwritable) {
  using std::chrono::steady_clock, std::chrono::duration;
  constexpr std::chrono::milliseconds kPause{20};
  make_folders(op, folder.empty() ? "." : folder);
  const std::string path = (std::filesystem::path(folder) / kLockFile).string();
  const auto begin = steady_clock::now();
  for (bool said = false;;) {
    const Attempt attempt = attempt_once(path);
    if (attempt.lock) return attempt.lock;
    if (attempt.error == ENOLCK || attempt.error == ENOTSUP || attempt.error == ENOSYS) {
      say(std::string(op) + ": " + path + " cannot be locked (" + std::strerror(attempt.error) +
          "); see to it that no other process writes to the folder");
      return nullptr;
    }
    const bool forbidden =
        attempt.error == EACCES || attempt.error == EPERM || attempt.error == EROFS;
    if (forbidden && unwritable == Unwritable::no_lock) return nullptr;
    check(attempt.error == EWOULDBLOCK, op, ": cannot open ", path, ": ",
          std::strerror(attempt.error));
    const double waited = duration<double>(steady_clock::now() - begin).count();
    if (waited >= patience_seconds) {
      // A lost host's lock is let go of by the file system when it has not been heard of for long.
      const std::string holder = holder_of(path), host = other_host(holder);
      const std::string in_use = std::string(op) + ": " + folder + " is in use by " + holder;
      const double longer = host.empty() ? 0 : patience_for_other_hosts();
      check(waited < longer, in_use,
            "; wait until it has ended or stop it, or choose another folder",
            host.empty()
                ? ""
                : "; if " + host + " is lost for good, remove " + path + ", and the run is yours");
      if (!std::exchange(said, true)) {
        say(in_use + ", and may be lost with its host; waiting for up to " +
            hero::detail::number_text(longer) + " s");
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

}  // namespace hero::nn
