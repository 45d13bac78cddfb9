#pragma once
// Helpers for tests on several ranks. Catch2's assertions belong to the main thread: ranks use
// expect(), whose error run_ranks() brings back.
#include <string>
#include <vector>

#include "support/arrays.h"

#include <hero/core/error.h>
#include <hero/dist/launch.h>

namespace hero::test {

/// Throws when `ok` is false.
template <class... Parts>
void expect(bool ok, const Parts&... parts) {
  check(ok, "expected: ", parts...);
}

/// What each rank's program threw, "" for none; the run itself does not throw.
inline std::vector<std::string> errors_of(int ranks, const dist::RankProgram& program,
                                          const dist::RunOptions& options = {}) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  try {
    dist::run_ranks(
        ranks,
        [&](dist::Communicator& world) {
          try {
            program(world);
          } catch (const std::exception& error) {
            errors[static_cast<size_t>(world.rank())] = error.what();
            throw;
          }
        },
        options);
  } catch (...) {
    return errors;
  }
  return errors;
}

}  // namespace hero::test
