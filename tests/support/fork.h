#pragma once
// What a forked child does and how it ends.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

namespace hero_test {

/// Runs `body` in a forked child, which then leaves as from main(), destructors of statics
/// included. Its exit code: 0, 1 after an exception, and 1000 + n where signal n ended it: SIGALRM,
/// 1014, after `seconds`.
template <class Body>
int run_forked(Body&& body, unsigned seconds = 60) {
  std::fflush(nullptr);  // what lies in buffers would be written by both
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: no process");
  if (pid == 0) {
    ::alarm(seconds);
    int code = 0;
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "forked child: %s\n", error.what());
      code = 1;
    }
    std::exit(code);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace hero_test
