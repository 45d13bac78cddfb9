// Tables, bytes and trace files of profiles.
#include <map>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/profile/profiler.h>
#include <hero/core/error.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

// One second in which a rank computes for 0.75, with 0.25 of it inside, and waits for 0.125.
Profile made_up() {
  Profile p;
  p.begin = 100.0;
  p.seconds = 1.0;
  p.steps = 1;
  p.rows = {{"backward", "", ProfilePhase::part, 1, 0.75, 0.5, 0, 0},
            {"linear", "h.0.attn", ProfilePhase::backward, 2, 0.25, 0.25, 500'000'000, 1000},
            {"wait all_reduce", "h.0", ProfilePhase::wait, 1, 0.125, 0.125, 0, 0}};
  p.collectives = {{"all_reduce", "world", "h.0", 2, 4096, 0.5, 0.125}};
  p.events = {{1, 1, 100.125, 0.125, 250'000'000, 500},
              {1, 1, 100.25, 0.125, 250'000'000, 500},
              {0, 0, 100.0, 0.75, 0, 0},
              {2, 0, 100.75, 0.125, 0, 0}};
  p.calls = {{0, 100.25, 100.5, 2048}, {0, 100.375, 100.875, 2048}};
  p.memory = {{100.0, {1, 2, 3, 4, 5, 6}}, {100.5, {1, 2, 3, 40, 5, 6}}};
  return p;
}

}  // namespace

TEST_CASE("a table of operations has shares of the wall's time, rates and what is left over") {
  const std::string text = made_up().table({.peak_flops = 4e9});
  CHECK(
      text ==
      R"(operation        phase      self time   share  calls     flops   bytes  GFLOP/s  GB/s    MFU    HFU
backward         part      500.000 ms   50.0%      1         -       -        -     -      -      -
linear           backward  250.000 ms   25.0%      2  500.00 M  1000 B     2.00  0.00  50.0%  50.0%
wait all_reduce  wait      125.000 ms   12.5%      1         -       -        -     -      -      -
(elsewhere)                125.000 ms   12.5%      -         -       -        -     -      -      -
all                           1.000 s  100.0%      4  500.00 M  1000 B     0.50  0.00  12.5%  12.5%
)");
}

TEST_CASE("a table has the MFU without what a checkpoint computes again, and the HFU with it") {
  Profile p;
  p.seconds = 1.0;
  p.rows = {{"linear", "h.0", ProfilePhase::forward, 1, 0.125, 0.125, 500'000'000, 1000},
            {"linear", "h.0", ProfilePhase::recompute, 1, 0.125, 0.125, 500'000'000, 1000},
            {"linear", "h.0", ProfilePhase::backward, 1, 0.25, 0.25, 1'000'000'000, 2000}};
  // of 4 G: forward and backward 1.5, all of it 2
  const auto ends = [&](const ProfileTableOptions& options, const std::string& of) {
    std::istringstream lines(p.table(options));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(of)) return line.substr(line.size() - 14);
    }
    return std::string("no line");
  };
  CHECK(ends({.peak_flops = 4e9}, "all") == " 37.5%   50.0%");
  CHECK(ends({.peak_flops = 4e9}, "linear       recompute") == "     -  100.0%");
  CHECK(ends({.by = ProfileBy::module, .peak_flops = 4e9}, "h.0") == " 75.0%  100.0%");
  CHECK(ends({.rows = 1, .peak_flops = 4e9}, "(2 others)") == " 50.0%  100.0%");
}

TEST_CASE("lines behind the first are added up") {
  const std::string text = made_up().table({.rows = 1});
  CHECK_THAT(text, ContainsSubstring("\n(2 others)"));
  CHECK_THAT(text, ContainsSubstring("375.000 ms"));
  CHECK_THAT(text, !ContainsSubstring("linear"));
  CHECK_THROWS_WITH(made_up().table({.rows = 0}), ContainsSubstring("at least one line"));
}

TEST_CASE("modules are added up by the first names of their paths") {
  const Profile p = made_up();
  const auto full = p.sums(ProfileBy::module), first = p.sums(ProfileBy::module, 2);
  REQUIRE(full.size() == 3);
  CHECK(full[1].module == "h.0.attn");
  REQUIRE(first.size() == 2);
  CHECK(first[1].module == "h.0");
  CHECK(first[1].self_seconds == 0.375);
  CHECK(p.sums(ProfileBy::module, 9).size() == 3);
  CHECK_THAT(p.table({.by = ProfileBy::module}), ContainsSubstring("(no module)"));
}

TEST_CASE("a table of calls to other ranks has bytes and waits") {
  CHECK(made_up().table({.by = ProfileBy::collective}) ==
        "operation   axis   unit  calls      sent   under way      waited  share\n"
        "all_reduce  world  h.0       2  4.00 KiB  500.000 ms  125.000 ms  12.5%\n"
        "all                          2  4.00 KiB  500.000 ms  125.000 ms  12.5%\n");
}

TEST_CASE("a profile goes through bytes unchanged, and other bytes are an error") {
  const Profile p = made_up();
  const std::string bytes = p.encode();
  const Profile back = Profile::decode(bytes);
  CHECK(back.encode() == bytes);
  CHECK(back.table() == p.table());
  CHECK(back.calls[1].end == 100.875);
  CHECK(back.memory[1].live[3] == 40);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_WITH(Profile::decode(std::string_view(bytes).substr(0, size)),
                      ContainsSubstring("none that encode() made"));
  }
  CHECK_THROWS_AS(Profile::decode(bytes + "x"), Error);
}

TEST_CASE("a trace has a process a rank, tracks that nest, and memory by tag") {
  const TempDir folder;
  Profile first = made_up(), second = made_up();
  second.rank = 1;
  second.label = "rank 1";
  second.begin += 0.5;
  const std::vector<Profile> both = {first, second};
  save_trace(folder / "trace.json", both);
  const json events = json::parse(slurp(folder / "trace.json")).at("traceEvents");
  struct Span {
    double begin, end;
  };
  std::map<std::pair<int, int>, std::vector<Span>> tracks;
  std::map<std::string, int> names;
  int counters = 0;
  for (const json& event : events) {
    if (event.at("ph") == "C") {
      ++counters;
      CHECK(event.at("args").size() == kMemoryTagCount);
    }
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts"), length = event.at("dur");
    tracks[{event.at("pid"), event.at("tid")}].push_back({begin, begin + length});
    ++names[event.at("name")];
  }
  CHECK(counters == 4);
  CHECK(names ==
        std::map<std::string, int>{
            {"backward", 2}, {"linear", 4}, {"wait all_reduce", 2}, {"all_reduce h.0", 4}});
  CHECK(tracks.size() == 6);  // of each rank the program and two tracks of calls that overlap
  for (const auto& [track, spans] : tracks) {
    for (const Span& a : spans) {
      for (const Span& b : spans) {
        const bool apart = a.end <= b.begin || b.end <= a.begin;
        const bool inside =
            (a.begin <= b.begin && b.end <= a.end) || (b.begin <= a.begin && a.end <= b.end);
        CHECK((apart || inside));
      }
    }
  }
  CHECK_THROWS_WITH(save_trace(folder / "no/such/trace.json", both), ContainsSubstring("no/such"));

  first.label = "label \xff";  // no UTF-8
  first.rows[0].module = "module \xfe";
  save_trace(folder / "trace.json", std::vector<Profile>{first});
  const std::string text = slurp(folder / "trace.json");
  CHECK(json::accept(text));
  CHECK_THAT(text, ContainsSubstring(R"("label \\xff")"));
  CHECK_THAT(text, ContainsSubstring(R"("module \\xfe")"));
}
