// What restarts are told, before anything is started; tests/scripts/test_restarts starts programs.
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

#include <hero/core/error.h>
#include <hero/dist/engines/supervisor.h>

using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> texts_of_slots(const std::string& text) {
  std::vector<std::string> texts;
  for (const Slots& slots : parse_slots(text)) {
    texts.push_back(slots.host + " " + std::to_string(slots.count));
  }
  return texts;
}

}  // namespace

TEST_CASE("hosts and their slots are read as from a hostfile", "[dist][restarts]") {
  const std::vector<std::string> expected = {"node1 2", "node2 16", "10.0.0.3 1"};
  CHECK(texts_of_slots("# all\n node1 slots=2 # a\n\nnode2:16\n10.0.0.3") == expected);
  CHECK(parse_slots("").empty());
  CHECK_THROWS_WITH(parse_slots("node1 2"), ContainsSubstring("'node1 slots=2', not 'node1 2'"));
  CHECK_THROWS_WITH(parse_slots("node1 slots=2 node2"), ContainsSubstring("'node1 slots=2', not"));
  CHECK_THROWS_WITH(parse_slots("node1:"), ContainsSubstring("no number: ''"));
  CHECK_THROWS_WITH(parse_slots("node1 slots=0"), ContainsSubstring("no number: '0'"));
  CHECK_THROWS_WITH(parse_slots("node1:2x"), ContainsSubstring("no number: '2x'"));
}

TEST_CASE("numbers of ranks are a list", "[dist][restarts]") {
  CHECK(parse_numbers("8,4,1") == std::vector<int>{8, 4, 1});
  CHECK(parse_numbers("3") == std::vector<int>{3});
  for (const char* wrong : {"", "4,", ",4", "4,0", "4 2", "-1", "4,two"}) {
    CHECK_THROWS_WITH(parse_numbers(wrong), ContainsSubstring("--elastic=8,4,2,1"));
  }
}

TEST_CASE("a process with other threads cannot be forked for restarts", "[dist][restarts]") {
  std::promise<void> done;
  std::thread other([&] { done.get_future().wait(); });
  CHECK_THROWS_WITH(supervise("train", {.count = 1}, 2), ContainsSubstring("call launch() first"));
  done.set_value();
  other.join();
}
