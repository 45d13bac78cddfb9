#pragma once
// What is written to stderr while it lives, kept away from the terminal.
#include <cstdio>
#include <string>

#include <unistd.h>

namespace hero_test {

class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()) {
    std::fflush(stderr);
    former_ = ::dup(2);
    ::dup2(::fileno(file_), 2);
  }
  ~CapturedStderr() {
    restore();
    std::fclose(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  /// Ends the capture and returns what there was.
  std::string text() {
    restore();
    std::string found;
    std::rewind(file_);
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) found += static_cast<char>(c);
    return found;
  }

 private:
  void restore() {
    if (former_ < 0) return;
    std::fflush(stderr);
    ::dup2(former_, 2);
    ::close(former_);
    former_ = -1;
  }

  std::FILE* file_;
  int former_ = -1;
};

}  // namespace hero_test
