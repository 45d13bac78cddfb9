#pragma once
// Children that are started, watched and ended with all that they have started.
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace hero::dist {

/// How a process has ended: by itself with a code, or by a signal.
struct Ended {
  int code = 0;
  int signal = 0;  ///< 0: by itself
  int stop = 0;    ///< the signal that asked the supervisor to stop, which was passed on; 0: none
  /// "ended with exit code 1", "was ended by signal 9 (Killed)".
  std::string text() const;
  /// What a shell calls it: the code, or 128 + the signal.
  int exit_code() const { return signal == 0 ? code : 128 + signal; }
  /// Whether a signal ended it or, as its code says, a process below it.
  bool by_signal() const { return exit_code() > 128 && exit_code() < 128 + NSIG; }
};

/// The process that starts children. While this lives SIGINT, SIGTERM and SIGHUP are passed on to
/// the child that is waited for, and what children leave behind becomes this process's own child.
class ChildProcesses {
 public:
  /// An Error where this process has more than one thread: a fork has only one.
  ChildProcesses();
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Forks. In the child, which gets 0, signals are as they were before, standard input is empty,
  /// and SIGTERM comes when the parent is gone; it leads a group of processes of its own.
  pid_t start();
  /// The same for a program, which may print to another file than this process; one that cannot be
  /// started ends with 127 and a line on stderr.
  pid_t start(const std::vector<std::string>& words, int out = STDOUT_FILENO);

  /// Waits until the child has ended, then kills what it has left behind. A child that lives for 30
  /// seconds after a signal was passed on is killed, and so it is at once with the second such
  /// signal, or for 60 seconds after `failed` has first said yes.
  Ended wait(pid_t child, const std::function<bool()>& failed);

  /// Waits for so many seconds; returns the signal that came meanwhile and asked this process to
  /// stop, 0 where none did.
  int pause(double seconds);

 private:
  std::vector<pid_t> children() const;
  void end_orphans() const;

  sigset_t before_, watched_;
  std::vector<pid_t> own_;  ///< that this process had already
};

}  // namespace hero::dist
