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

/// Whether this process is a child of run_forked. It has its parent's memory and none of its
/// threads, and what only their stacks reach is no leak of the child.
inline bool is_forked = false;

/// Runs `body` in a forked child, which then leaves as from main(), destructors of statics
/// included. Its exit code: 0, 1 after an exception, and 1000 + n where signal n ended it: SIGALRM,
/// 1014, after `seconds`, which only a child that hangs needs.
template <class Body>
int run_forked(Body&& body, unsigned seconds = 600) {
  std::fflush(nullptr);  // what lies in buffers would be written by both
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: no process");
  if (pid == 0) {
    is_forked = true;
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

#if defined(__SANITIZE_ADDRESS__)
extern "C" int __lsan_is_turned_off();  // the leak sanitizer asks before it looks for leaks
extern "C" __attribute__((weak)) int __lsan_is_turned_off() { return hero_test::is_forked; }
#endif
