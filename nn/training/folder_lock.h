#pragma once
// Lets only one process at a time write to a folder; internal to what writes to the folder of a
// run.
#include <memory>
#include <string>

namespace hero::nn {

/// The lock of a folder: the file LOCK in it, held by flock() until the last handle of this process
/// is destroyed or the process ends, however it ends. The file remains and says which process had
/// it last. Objects of one process share the lock; a forked child has no part in it.
class FolderLock {
 public:
  /// What happens for a folder that cannot be written to: an Error, or no lock is taken, since
  /// nothing will be written there.
  enum class Unwritable { error, no_lock };

  /// Takes the lock of `folder`, which is created if it is missing. If another process has the lock
  /// and still has it after `patience_seconds` (a process that was just killed may take a moment to
  /// end), throws an Error of `op` that names that process and, if it is on another host, the file
  /// whose removal takes the folder over from a host that is lost. Returns null, and says so on
  /// stderr, if the file system has no locks.
  static std::shared_ptr<FolderLock> take(const char* op, const std::string& folder,
                                          double patience_seconds,
                                          Unwritable unwritable = Unwritable::error);
  /// Does the same without waiting and without an Error: returns null if another process has the
  /// lock, or no lock can be made.
  static std::shared_ptr<FolderLock> attempt(const std::string& folder);

  /// In a child that was just forked: closes its copy of the file, with which the lock would
  /// outlive the parent. The parent's lock stays, and no handle in the child has one any more.
  void leave_to_parent();
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  struct Attempt;
  explicit FolderLock(int fd) : fd_(fd) {}
  static Attempt attempt_once(const std::string& path);

  int fd_;
};

/// The name of this machine; "localhost" if it has none.
std::string host_name();

}  // namespace hero::nn
