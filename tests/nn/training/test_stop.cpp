#include <csignal>

#include "support/catch.h"

#include <hero/nn/training/stop.h>

using hero::nn::StopSignal;

namespace {

int heard = 0;
void listen(int number) { heard = number; }

}  // namespace

TEST_CASE("a signal is noted, and the old handlers come back") {
  const auto before = std::signal(SIGINT, listen);
  {
    const StopSignal stop;
    CHECK_FALSE(stop.requested());
    CHECK(stop.exit_code() == 0);
    REQUIRE(std::raise(SIGINT) == 0);
    CHECK(stop.requested());
    CHECK(stop.signal() == SIGINT);
    CHECK(stop.exit_code() == 130);
    CHECK(heard == 0);
  }
  REQUIRE(std::raise(SIGINT) == 0);
  CHECK(heard == SIGINT);
  {
    const StopSignal stop;  // knows nothing of the one before
    CHECK_FALSE(stop.requested());
    REQUIRE(std::raise(SIGTERM) == 0);
    CHECK(stop.exit_code() == 143);
  }
  std::signal(SIGINT, before);
}

TEST_CASE("several StopSignals note one signal, and the last brings the old handlers back") {
  const auto before = std::signal(SIGINT, listen);
  heard = 0;
  {
    const StopSignal first;
    {
      const StopSignal second;
      REQUIRE(std::raise(SIGINT) == 0);
      CHECK(second.requested());
    }
    CHECK(first.exit_code() == 130);
    CHECK(heard == 0);
  }
  REQUIRE(std::raise(SIGINT) == 0);
  CHECK(heard == SIGINT);
  std::signal(SIGINT, before);
}
