#pragma once
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include <hero/core/random.h>
#include <hero/dist/backends/rank_state.h>

namespace hero::dist {

/// The text of what a program threw.
std::string message_of(const std::exception_ptr& error);

class Backend;

/// The error with which a rank ends whose program threw `thrown`: the error of a call that the rank
/// had waited for before, if Backend::confirm() throws one; otherwise `thrown`.
std::exception_ptr first_error(Backend& backend, std::exception_ptr thrown);

/// Thread-local state of a rank while its program runs: a ledger and traffic of its own, a default
/// generator that begins in the given state, and an output stream.
class RankFrame {
 public:
  /// The rank's output is written to std::cout line by line, when a line is complete; `output` is
  /// locked meanwhile.
  RankFrame(int rank, bool prefix, const Generator::State& generator, std::mutex& output);
  ~RankFrame();
  RankFrame(const RankFrame&) = delete;
  RankFrame& operator=(const RankFrame&) = delete;
  const std::shared_ptr<RankState>& state() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hero::dist
