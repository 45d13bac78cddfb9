#pragma once
// Child processes: they are started, waited for, and ended together with all processes that they
// have started.
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
  int signal = 0;  ///< the signal that ended it; 0: it ended by itself
  int stop = 0;    ///< the signal that asked the supervisor to stop, which was passed on; 0: none
  /// "ended with exit code 1", "was ended by signal 9 (Killed)".
  std::string text() const;
  /// The exit code as a shell reports it: the code, or 128 + the signal.
  int exit_code() const { return signal == 0 ? code : 128 + signal; }
  /// Whether a signal ended it or, according to its exit code, a process that it had started.
  bool by_signal() const { return exit_code() > 128 && exit_code() < 128 + NSIG; }
};

/// Starts and waits for child processes. While an object lives, wait() passes SIGINT, SIGTERM and
/// SIGHUP on to the child, and processes that a child leaves behind become children of this
/// process.
class ChildProcesses {
 public:
  /// Throws an Error if this process has more than one thread, since a forked process has only one.
  ChildProcesses();
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Forks, and returns the process id of the child, or 0 in the child. The child has the signal
  /// mask from before, an empty standard input and a process group of its own, and gets SIGTERM
  /// when its parent ends.
  pid_t start();
  /// Does the same and runs a program in the child, with `out` as its standard output. If the
  /// program cannot be started, the child prints a line on stderr and ends with exit code 127.
  pid_t start(const std::vector<std::string>& words, int out = STDOUT_FILENO);

  /// Waits until the child has ended, then kills the processes that it has left behind. The child
  /// is killed if it still lives 30 seconds after a signal was passed on, or 60 seconds after
  /// `failed` first returned true, and at once when a second signal is passed on.
  Ended wait(pid_t child, const std::function<bool()>& failed);

  /// Waits for so many seconds; returns the signal that came meanwhile and asked this process to
  /// stop, 0 where none did.
  int pause(double seconds);

 private:
  std::vector<pid_t> children() const;
  void end_orphans() const;

  sigset_t before_, watched_;
  std::vector<pid_t> own_;  ///< children that this process had before
};

}  // namespace hero::dist
