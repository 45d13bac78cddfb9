// The bugs of seeded_bugs.h on the local backend.
#include <string>
#include <vector>

#include "dist/data_parallel/seeded_bugs.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

void check_bug(const Bug& bug) {
  INFO(bug.name);
  std::string thrown;
  std::vector<std::string> errors(3);
  try {
    run_ranks(3, [&](Communicator& world) {
      try {
        bug.program(world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(world.rank())] = error.what();
        throw;
      }
    });
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  for (const std::string& part : bug.errors) {
    REQUIRE_THAT(thrown, Catch::Matchers::ContainsSubstring(part));
  }
  for (int rank = 0; rank < 3; ++rank) {
    INFO("rank " << rank);
    const std::string& message = errors[static_cast<size_t>(rank)];
    const bool quiet = bug.silent == rank || (bug.silent == -2 && rank != 1);
    if (quiet) {
      REQUIRE(message.empty());
      continue;
    }
    if (bug.silent == -3 && message.empty()) continue;
    for (const std::string& part : bug.errors) {
      REQUIRE_THAT(message, Catch::Matchers::ContainsSubstring(part));
    }
  }
}

TEST_CASE("calls that differ are named on every rank", "[dist]") {
  for (const Bug& bug : mismatches()) check_bug(bug);
}

TEST_CASE("a rank that does not come is named on every rank", "[dist][threads]") {
  for (const Bug& bug : absences()) check_bug(bug);
}

TEST_CASE("a rank's wrong argument is named on every rank", "[dist]") {
  for (const Bug& bug : wrong_arguments()) check_bug(bug);
}

TEST_CASE("at least thirty bugs are seeded", "[dist]") {
  REQUIRE(mismatches().size() + absences().size() + wrong_arguments().size() >= 30);
}

}  // namespace
