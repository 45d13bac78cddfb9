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

/// What a rank ends with whose program threw `thrown`: the error of a call that it had waited for
/// before, where there is one (Backend::confirm()).
std::exception_ptr first_error(Backend& backend, std::exception_ptr thrown);

/// What a rank's thread has while its program runs: a ledger and traffic of its own, a default
/// generator that begins in the given state, and an output.
class RankFrame {
 public:
  /// `output` is locked while a line is written to std::cout, which is when it is whole.
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
