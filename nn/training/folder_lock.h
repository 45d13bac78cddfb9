#pragma once
// One process at a time writes to a folder; internal to what writes to the folder of a run.
#include <memory>
#include <string>

namespace hero::nn {

/// The lock of a folder: the file LOCK in it, held (flock) until the last handle of this process is
/// gone or the process ends, however it ends. The file stays; it says who had it last. Objects of
/// one process share the lock.
class FolderLock {
 public:
  /// What a folder that cannot be written to is: an Error, or without a lock, since nothing will be
  /// written there.
  enum class Unwritable { error, no_lock };

  /// Takes the lock of `folder`, which is made where it is missing. Where another process has it
  /// and still has it after `patience_seconds` (one that was just killed may take a moment to end),
  /// an Error of `op` names that process. Null where the file system has no locks, which it says on
  /// stderr.
  static std::shared_ptr<FolderLock> take(const char* op, const std::string& folder,
                                          double patience_seconds,
                                          Unwritable unwritable = Unwritable::error);
  /// The same at once and without an Error: null where another process has the lock, or where no
  /// lock can be made.
  static std::shared_ptr<FolderLock> attempt(const std::string& folder);

  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  struct Attempt;
  explicit FolderLock(int fd) : fd_(fd) {}
  static Attempt attempt_once(const std::string& path);

  int fd_;
};

/// The name of this machine, "localhost" where it has none.
std::string host_name();

}  // namespace hero::nn
