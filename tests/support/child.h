#pragma once
// A test program that starts itself again to run one hidden test case, so that the child can be
// killed.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hero_test {

/// A child process in lock step: at each report() it waits until the parent lets it go on.
class Child {
 public:
  /// Runs the test case of that name; its argument() is the string given here.
  Child(const std::string& test_case, const std::string& argument) {
    int reports[2], answers[2];
    if (::pipe2(reports, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) {
      throw std::runtime_error("child: no pipe");
    }
    const std::string variable = "HERO_CHILD=" + argument;
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("child: no process");
    if (pid_ == 0) {
      ::dup2(reports[1], kReports);
      ::dup2(answers[0], kAnswers);
      ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
      ::putenv(const_cast<char*>(variable.c_str()));
      start(test_case.c_str());
      ::_exit(127);
    }
    ::close(reports[1]);
    ::close(answers[0]);
    reports_ = reports[0];
    answers_ = answers[1];
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(reports_);
    ::close(answers_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// \name In the parent
  /// \{
  /// Waits for the next report(); false when the child has ended.
  bool arrives() const { return read_byte(reports_); }
  /// Lets it go on to the next.
  void go_on() const { write_byte(answers_); }
  void signal(int number) const { ::kill(pid_, number); }
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  /// Its exit code; 1000 + n when signal n ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  /// \}

  /// \name In the child
  /// \{
  /// Null in a test case that nobody started as a child.
  static const char* argument() { return std::getenv("HERO_CHILD"); }
  static void report() {
    write_byte(kReports);
    if (!read_byte(kAnswers)) ::_exit(1);  // the parent is gone
  }
  /// \}

 private:
  // This program once more; an emulator that runs it is started by its path (cmake/arm64_run).
  static void start(const char* test_case) {
    const char* const self = "/proc/self/exe";
    const char* const emulator = std::getenv("HERO_EMULATOR");
    if (emulator == nullptr) {
      ::execl(self, "child", test_case, static_cast<char*>(nullptr));
      return;
    }
    char program[4096] = {};
    if (::readlink(self, program, sizeof(program) - 1) < 0) return;
    ::execl(emulator, emulator, program, test_case, static_cast<char*>(nullptr));
  }

  static constexpr int kReports = 98, kAnswers = 99;  // free in any program

  static bool read_byte(int fd) {
    char byte = 0;
    ssize_t got = 0;
    do got = ::read(fd, &byte, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
  }
  static void write_byte(int fd) {
    const auto old = ::signal(SIGPIPE, SIG_IGN);  // the other side may have been killed
    while (::write(fd, "", 1) < 0 && errno == EINTR) {
    }
    ::signal(SIGPIPE, old);
  }

  pid_t pid_ = -1;
  int reports_ = -1, answers_ = -1;
};

}  // namespace hero_test
