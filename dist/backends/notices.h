#pragma once
// What a program tells the supervisor that started it: a few numbers in a file that both map.
#include <atomic>
#include <cstdint>
#include <string>

namespace hero::dist {

/// Zeros at the start of each attempt. Written by the processes of the supervisor's host alone.
struct Notices {
  std::atomic<int64_t> begun;   ///< 1: rank 0 has begun, here, and so will tell of checkpoints
  std::atomic<int64_t> saved;   ///< checkpoints that this attempt has written
  std::atomic<int64_t> failed;  ///< 1: a rank has thrown
  std::atomic<int64_t> late;    ///< 1: ranks have waited for others for the whole time-out
  std::atomic<int64_t> step;    ///< 1 + step of the newest checkpoint; 0: none is known
};

/// In the supervisor: a file in TMPDIR or /tmp, mapped by this process and the children it forks;
/// removed when that process has no more of it.
class NoticeFile {
 public:
  NoticeFile();
  ~NoticeFile() { remove(); }
  NoticeFile(const NoticeFile&) = delete;
  NoticeFile& operator=(const NoticeFile&) = delete;
  Notices& operator*() const;
  Notices* operator->() const { return &**this; }
  /// "HERO_SUPERVISOR=1:/tmp/hero_restarts_x": what the environment says to a process that is no
  /// fork of this one, and how often the program was started before.
  std::string variable(int starts_before) const;
  /// By the process that made it; what is mapped stays.
  void remove();

 private:
  std::string path_;
  int process_;
};

/// Whether the environment names a supervisor's file; then the variable is taken out of it, and the
/// file is mapped where this host has it. A program that was started before waits longer for locks
/// of other hosts, as one of them may be why it is started again.
bool join_supervisor();

/// \name In a program; without a supervisor they do nothing
/// \{
void tell_begun();
void tell_failed();
void tell_late();
/// A complete checkpoint of that step was written, or was the one to resume from.
void tell_saved(int64_t step);
void tell_resumed(int64_t step);
/// \}

}  // namespace hero::dist
