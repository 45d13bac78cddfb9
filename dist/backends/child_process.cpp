#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/dist/backends/child_process.h>

namespace hero::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAfterStop = std::chrono::seconds(30);
constexpr auto kAfterFailure = std::chrono::seconds(60);  // longer than a failed MPI world needs

std::string name_of(int signal) {
  return std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

bool asks_to_stop(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

// Signals that the caller of this process wants ignored (nohup, a script's "&") stay ignored.
bool is_ignored(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

}  // namespace

std::string Ended::text() const {
  if (signal != 0) return "was ended by signal " + name_of(signal);
  // what mpirun and shells end with where a process below them was killed
  return "ended with exit code " + std::to_string(code) +
         (by_signal() ? ": a process by signal " + name_of(code - 128) : "");
}

ChildProcesses::ChildProcesses() : own_(children()) {
  using Folder = std::filesystem::directory_iterator;
  std::error_code wrong;
  int64_t threads = 0;
  for (Folder task("/proc/self/task", wrong); !wrong && task != Folder(); task.increment(wrong)) {
    ++threads;
  }
  check(!wrong, "launch: /proc/self/task cannot be read: ", wrong.message());
  check(threads == 1,
        "launch: restarts need a process that has no other threads yet, and this one "
        "has ",
        threads, "; call launch() first");
  ::sigemptyset(&watched_);
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody learns how a child has ended
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) ::sigaddset(&watched_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

ChildProcesses::~ChildProcesses() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

pid_t ChildProcesses::start() {
  std::cout.flush();
  std::fflush(nullptr);  // what lies in buffers would be written by both
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  check(child >= 0, "launch: the system has no process for the program: ", std::strerror(errno));
  ::setpgid(child, child);  // by whoever comes first
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing > 0) ::dup2(nothing, STDIN_FILENO);
  if (nothing > 0) ::close(nothing);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  return 0;
}

pid_t ChildProcesses::start(const std::vector<std::string>& words, int out) {
  const pid_t child = start();
  if (child > 0) return child;
  if (out != STDOUT_FILENO) ::dup2(out, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "launch: cannot start '%s': %s\n", argv[0], std::strerror(errno));
  ::_exit(127);
}

Ended ChildProcesses::wait(pid_t child, const std::function<bool()>& failed) {
  Ended ended;
  int status = 0;
  std::optional<Clock::time_point> deadline;
  while (::waitpid(child, &status, WNOHANG) != child) {
    const timespec look{0, 200'000'000};
    const int signal = ::sigtimedwait(&watched_, nullptr, &look);
    if (asks_to_stop(signal)) {
      deadline = Clock::now() + (ended.stop == 0 ? kAfterStop : Clock::duration(0));
      ended.stop = signal;
      ::kill(-child, signal);
    } else if (!deadline && failed()) {
      deadline = Clock::now() + kAfterFailure;
    }
    if (deadline && Clock::now() >= *deadline) ::kill(-child, SIGKILL);
  }
  end_orphans();
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  return ended;
}

int ChildProcesses::pause(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    const timespec look{0, 50'000'000};
    const int signal = ::sigtimedwait(&watched_, nullptr, &look);
    if (asks_to_stop(signal)) return signal;
  }
  return 0;
}

std::vector<pid_t> ChildProcesses::children() const {
  const std::string self = std::to_string(::getpid());
  std::ifstream file("/proc/self/task/" + self + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

// Those of a child that has ended are this process's children now; of those that are killed their
// own become so in turn.
void ChildProcesses::end_orphans() const {
  for (bool any = true; any;) {
    any = false;
    for (const pid_t pid : children()) {
      if (std::find(own_.begin(), own_.end(), pid) != own_.end()) continue;
      any = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
}

}  // namespace hero::dist
