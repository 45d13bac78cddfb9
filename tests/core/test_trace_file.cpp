// Timelines as files: what is written is read back by another JSON reader.
#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>
#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/core/error.h>
#include <hero/core/profile/trace_file.h>

namespace {

using hero::core::TraceArg;
using hero::core::TraceFile;
using hero_test::TempDir;

TEST_CASE("trace file: spans, names and counters are events in microseconds") {
  const TempDir folder;
  TraceFile file(folder / "trace.json");
  file.name_process(3, "rank 3");
  file.name_thread(3, 1, "wait");
  file.span(3, 1, "all_gather \"a\\b\"\n", 0.0015, 2e-9, {{"bytes", int64_t{7}}, {"unit", "h.0"}});
  const std::vector<TraceArg> series = {{"parameter", int64_t{1} << 40}, {"gradient", 0.5}};
  file.counter(3, "memory", 1.0, series);
  file.close();
  const auto events =
      nlohmann::json::parse(hero_test::slurp(folder / "trace.json")).at("traceEvents");
  REQUIRE(events.size() == 4);
  CHECK(events[0].at("ph") == "M");
  CHECK(events[0].at("args").at("name") == "rank 3");
  CHECK(events[1].at("name") == "thread_name");
  CHECK(events[2].at("ph") == "X");
  CHECK(events[2].at("pid") == 3);
  CHECK(events[2].at("tid") == 1);
  CHECK(events[2].at("name") == "all_gather \"a\\b\"\n");
  CHECK(events[2].at("ts") == 1500.0);
  CHECK(events[2].at("dur") == 0.002);
  CHECK(events[2].at("args").at("bytes") == 7);
  CHECK(events[2].at("args").at("unit") == "h.0");
  CHECK(events[3].at("ph") == "C");
  CHECK(events[3].at("args").at("parameter") == int64_t{1} << 40);
  CHECK(events[3].at("args").at("gradient") == 0.5);
}

TEST_CASE("trace file: spans that follow each other do not overlap by their rounding") {
  const TempDir folder;
  TraceFile file(folder / "trace.json");
  for (int i = 0; i < 1000; ++i) file.span(0, 0, "x", i / 3e6 + 80.0, 1 / 3e6);
  file.close();
  const auto events =
      nlohmann::json::parse(hero_test::slurp(folder / "trace.json")).at("traceEvents");
  const auto nanoseconds = [](const nlohmann::json& microseconds) {
    return std::llround(microseconds.get<double>() * 1e3);
  };
  for (size_t i = 1; i < events.size(); ++i) {
    const auto& before = events[i - 1];
    CHECK(nanoseconds(before.at("ts")) + nanoseconds(before.at("dur")) ==
          nanoseconds(events[i].at("ts")));
  }
}

TEST_CASE("trace file: an arrow is two events of one id, of which no other arrow has it") {
  const TempDir folder;
  TraceFile file(folder / "trace.json");
  file.arrow("send", 0, 2, 1.0, 1, 0, 1.5);
  file.arrow("send", 1, 2, 2.0, 0, 0, 2.5);
  file.close();
  const auto events =
      nlohmann::json::parse(hero_test::slurp(folder / "trace.json")).at("traceEvents");
  REQUIRE(events.size() == 4);
  CHECK(events[0].at("ph") == "s");
  CHECK(events[0].at("pid") == 0);
  CHECK(events[0].at("tid") == 2);
  CHECK(events[0].at("ts") == 1e6);
  CHECK(events[1].at("ph") == "f");
  CHECK(events[1].at("pid") == 1);
  CHECK(events[1].at("ts") == 1.5e6);
  for (const char* const same : {"id", "name", "cat"}) {
    CHECK(events[0].at(same) == events[1].at(same));
  }
  CHECK(events[0].at("id") != events[2].at("id"));
}

TEST_CASE("trace file: what JSON has no number for is text") {
  const TempDir folder;
  TraceFile file(folder / "trace.json");
  file.span(0, 0, "x", 0.0, 1.0, {{"loss", std::numeric_limits<double>::quiet_NaN()}});
  file.close();
  const auto events =
      nlohmann::json::parse(hero_test::slurp(folder / "trace.json")).at("traceEvents");
  CHECK(events[0].at("args").at("loss") == "NaN");
}

TEST_CASE("trace file: without close() nothing is left, and an error names the file") {
  const TempDir folder;
  {
    TraceFile file(folder / "trace.json");
    for (int i = 0; i < 50000; ++i) file.span(0, 0, "a span of a name", i, 0.5);
  }
  CHECK(folder.entries() == 0);
  CHECK_THROWS_WITH(TraceFile(folder / "none/trace.json"),
                    Catch::Matchers::ContainsSubstring("none/trace.json"));
}

}  // namespace
