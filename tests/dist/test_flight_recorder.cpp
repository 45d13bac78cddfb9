// What ranks that wait for each other leave behind.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <unistd.h>

#include <hero/core/io/file.h>
#include <hero/core/json/json.h>
#include <hero/dist/dist.h>
#include <hero/dist/flight_recorder.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using dist::Communicator, dist::FlightCall, dist::FlightRecorder;
using hero::test::error_of;

// While it lives, the environment names a folder of the recorder's.
class RecordedRun {
 public:
  RecordedRun() { ::setenv("HERO_FLIGHT_RECORDER", folder().c_str(), 1); }
  ~RecordedRun() { ::unsetenv("HERO_FLIGHT_RECORDER"); }
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;
  std::string folder() const { return folder_ / "flight"; }
  std::string text(int rank) const {
    return read_file_text(folder() + "/rank-0000" + std::to_string(rank) + ".txt");
  }

 private:
  hero_test::TempDir folder_;
};

TEST_CASE("flight recorder: the last hundred calls are kept, with their times", "[dist][flight]") {
  FlightRecorder recorder(3);
  CHECK_THAT(recorder.table(), ContainsSubstring("rank 3 at ") && ContainsSubstring("no calls"));
  for (int i = 1; i <= 250; ++i) {
    const uint64_t number = recorder.ask({.axis = "world", .unit = "u" + std::to_string(i)});
    CHECK(number == static_cast<uint64_t>(i));
    if (i < 250) recorder.complete(number);
  }
  recorder.complete(1);  // is no longer kept
  const std::vector<FlightCall> calls = recorder.calls();
  REQUIRE(calls.size() == FlightRecorder::kCalls);
  CHECK(calls.front().number == 151);
  CHECK(calls.front().unit == "u151");
  CHECK(calls.back().number == 250);
  CHECK(calls.back().done == 0.0);
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    CHECK(calls[i].asked <= calls[i].done);
    CHECK(calls[i].asked <= calls[i + 1].asked);
  }
  CHECK_THAT(recorder.table(), ContainsSubstring("it waits for no call; its last one is 250"));
  recorder.await(250);
  CHECK_THAT(recorder.table(), ContainsSubstring("it waits for call 250"));
}

TEST_CASE("flight recorder: after a time-out each rank's file says where it was",
          "[dist][flight]") {
  const RecordedRun run;
  const auto program = [](Communicator& world) {
    Array ones = Array::full({4}, 1.0);
    world.all_reduce(ones, {.unit = "first"});
    dist::Work work = world.all_reduce(ones, {.async = true, .unit = "second"});
    work.wait();
    if (world.rank() == 2) {  // does something else for longer than the others wait
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      return;
    }
    world.barrier();
  };
  const std::string error =
      error_of([&] { dist::run_ranks(3, program, {.timeout = 0.5, .timeout_join = 60}); });
  CHECK_THAT(error, ContainsSubstring("time-out"));
  for (const int rank : {0, 1, 2}) {
    const std::string text = run.text(rank);
    INFO(text);
    CHECK_THAT(text, ContainsSubstring("rank " + std::to_string(rank) + " at 20"));
    CHECK_THAT(text, ContainsSubstring("all_reduce") && ContainsSubstring("first"));
    if (rank < 2) {
      CHECK_THAT(text, ContainsSubstring("it waits for call 3") && ContainsSubstring("barrier"));
    } else {
      CHECK_THAT(text, ContainsSubstring("it waits for no call; its last one is 2"));
    }
  }
  const core::JSON trace =
      core::parse_json(read_file_text(run.folder() + "/rank-00000.json"), "test", "the trace");
  int open = 0, spans = 0;
  for (const core::JSON& event : trace.is_array() ? trace : trace["traceEvents"]) {
    if (event.value("ph", "") != "X") continue;
    ++spans;
    open += event["name"] == "barrier, not done" ? 1 : 0;
  }
  CHECK(spans == 8);  // three of ranks 0 and 1, two of rank 2
  CHECK(open == 2);
}

TEST_CASE("flight recorder: a rank that throws leaves the records; a run that ends well none",
          "[dist][flight]") {
  const RecordedRun run;
  dist::run_ranks(2, [](Communicator& world) { world.barrier(); });
  CHECK(!is_folder(run.folder()));
  const auto throws = [](Communicator& world) {
    world.barrier();
    if (world.rank() == 1) fail("its own");
    world.barrier();
  };
  CHECK(error_of([&] { dist::run_ranks(2, throws); }) == "its own");
  CHECK_THAT(run.text(1), ContainsSubstring("its last one is 1"));
  std::filesystem::remove_all(run.folder());
  // and the next run's failure is written, too
  CHECK(error_of([&] { dist::run_ranks(2, throws); }) == "its own");
  CHECK_THAT(run.text(0), ContainsSubstring("barrier"));
}

TEST_CASE("flight recorder: SIGUSR1 writes what is under way, and the run goes on",
          "[dist][flight]") {
  const RecordedRun run;
  dist::run_ranks(2, [&](Communicator& world) {
    world.barrier();
    if (world.rank() == 1) {
      ::kill(::getpid(), SIGUSR1);
      for (int i = 0; i < 500 && !path_exists(run.folder() + "/rank-00000.json"); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    world.barrier();
  });
  CHECK_THAT(run.text(1), ContainsSubstring("its last one is 1"));
  CHECK_THAT(run.text(0), ContainsSubstring("barrier"));
}

}  // namespace
