#pragma once
// Notices: what a program tells the supervisor that started it, as a few numbers in a file that
// both map into memory.
#include <atomic>
#include <cstdint>
#include <string>

namespace hero::dist {

/// All numbers are zero at the start of each attempt. Only processes on the supervisor's host write
/// them.
struct Notices {
  std::atomic<int64_t> begun;  ///< 1: rank 0 has begun, on this host, so it will report checkpoints
  std::atomic<int64_t> saved;  ///< checkpoints that this attempt has written
  std::atomic<int64_t> failed;  ///< 1: a rank has thrown
  std::atomic<int64_t> late;    ///< 1: ranks have waited for others for the whole time-out
  std::atomic<int64_t> step;    ///< 1 + step of the newest checkpoint; 0: none is known
};

/// The file, made by the supervisor in TMPDIR or /tmp and mapped by it and by the children that it
/// forks. The process that made the file removes it when the object is destroyed.
class NoticeFile {
 public:
  NoticeFile();
  ~NoticeFile() { remove(); }
  NoticeFile(const NoticeFile&) = delete;
  NoticeFile& operator=(const NoticeFile&) = delete;
  Notices& operator*() const;
  Notices* operator->() const { return &**this; }
  /// The environment variable for a process that is not a fork of this one, such as
  /// "HERO_SUPERVISOR=1:/tmp/hero_restarts_x": how often the program was started before, and the
  /// path of the file.
  std::string variable(int starts_before) const;
  /// Removes the file if this process made it; existing mappings stay valid.
  void remove();

 private:
  std::string path_;
  int process_;
};

/// Returns whether the environment names a supervisor's file. If so, removes the variable from the
/// environment, and maps the file if it exists on this host. A program that was started before
/// waits longer for locks held by other hosts, since the loss of such a host may be the reason for
/// the restart.
bool join_supervisor();

/// \name In a program; without a supervisor they do nothing
/// \{
void tell_begun();
void tell_failed();
void tell_late();
/// A complete checkpoint of that step was written, or the program has resumed from it.
void tell_saved(int64_t step);
void tell_resumed(int64_t step);
/// \}

}  // namespace hero::dist
