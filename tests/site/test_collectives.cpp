// The page's collectives against the library's: what each rank has after them, and the bytes that
// it has sent.
#include <string>
#include <vector>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>

using namespace hero;
using hero_test::Browser;
using nlohmann::json;

namespace {

using Numbers = std::vector<std::vector<double>>;  // of each rank

struct Ended {
  Numbers results;
  std::vector<double> sent;
};

std::vector<double> numbers(const Array& x) {
  std::vector<double> list;
  if (!x.defined()) return list;
  for (int64_t i = 0; i < x.numel(); ++i) list.push_back(x.data<float>()[i]);
  return list;
}

// The collective of that name on so many threads, as chapter 10 calls it.
Ended library(const std::string& name, int ranks) {
  const auto count = static_cast<size_t>(ranks);
  Ended ended{Numbers(count), std::vector<double>(count)};
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    const int64_t n = ranks;
    const bool is_root = world.rank() == 0;
    const Array x = Array::empty({n}, kFloat32);
    for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(10 * world.rank() + i);
    const Array one = Array::empty({1}, kFloat32), all = Array::empty({n}, kFloat32);
    Array result = x;
    const int64_t before = world.traffic().bytes();
    if (name == "broadcast") world.broadcast(x, 0);
    if (name == "reduce") world.reduce(x, 0);
    if (name == "scatter") world.scatter(result = one, x, 0);
    if (name == "gather") world.gather(result = is_root ? all : Array(), x.slice(0, 0, 1), 0);
    if (name == "all_reduce" || name == "ring") world.all_reduce(x);
    if (name == "reduce_scatter") world.reduce_scatter(result = one, x);
    if (name == "all_gather") world.all_gather(result = all, x.slice(0, 0, 1));
    if (name == "all_to_all") world.all_to_all(result = all, x);
    const auto rank = static_cast<size_t>(world.rank());
    ended.sent[rank] = static_cast<double>(world.traffic().bytes() - before);
    ended.results[rank] = numbers(result);
  });
  return ended;
}

}  // namespace

TEST_CASE("the page's collectives end with the library's results and bytes") {
  NEED_CHROMIUM();
  Browser browser;
  const json kinds = browser.evaluate("Object.keys(collectives.kinds)");
  REQUIRE(kinds.size() == 9);
  for (const std::string kind : kinds) {
    for (int ranks = 2; ranks <= 6; ++ranks) {
      CAPTURE(kind, ranks);
      const json shown = browser.evaluate(
          "(({states, sent, rounds}) => [states.at(-1), sent.at(-1), rounds.length])"
          "(collectives.play('" +
          kind + "', " + std::to_string(ranks) + "))");
      const Ended ended = library(kind, ranks);
      CHECK(shown.at(0).get<Numbers>() == ended.results);
      CHECK(shown.at(1).get<std::vector<double>>() == ended.sent);
      const bool twice = kind == "all_reduce" || kind == "ring";
      CHECK(shown.at(2) == (twice ? 2 : 1) * (ranks - 1));
    }
  }
}

TEST_CASE("around the ring each rank sends one part a round, to the next rank") {
  NEED_CHROMIUM();
  Browser browser;
  CHECK(
      browser.evaluate("collectives.play('ring', 5).rounds.every((round) => round.length === 5 && "
                       "round.every(({from, to, parts}) => to === (from + 1) % 5 && "
                       "parts.length === 1))"));
}

TEST_CASE("a collective is looked at round by round") {
  NEED_CHROMIUM();
  Browser browser;
  const auto said = [&] {
    return browser.evaluate("document.getElementById('collective-said').textContent")
        .get<std::string>();
  };
  const auto press = [&](const std::string& id) {
    browser.evaluate("document.getElementById('" + id + "').click()");
  };
  const auto cells = [&](const std::string& which) {
    return browser.evaluate("[...document.querySelectorAll('#collective-rows " + which +
                            "')].map((cell) => cell.textContent)");
  };
  CHECK(said() == "all_reduce: before the first of 6 rounds.");
  CHECK(cells(".sent").empty());
  press("collective-next");
  CHECK(said() ==
        "all_reduce, round 1 of 6: rank 0 sends part 1 to rank 1, which adds; rank 1 sends part 2 "
        "to rank 2, which adds; rank 2 sends part 3 to rank 3, which adds; rank 3 sends part 0 to "
        "rank 0, which adds.");
  CHECK(cells(".sent") == json({"1", "12", "23", "30"}));
  CHECK(cells(".came") == json({"30", "12", "34", "56"}));
  press("collective-back");
  CHECK(said() == "all_reduce: before the first of 6 rounds.");
  press("collective-end");
  CHECK(said().find("That was all: a rank has sent 24 bytes at most.") != std::string::npos);
  CHECK(browser.evaluate("document.getElementById('collective-next').disabled"));
  browser.evaluate(
      "{ const e = document.getElementById('collective-ranks'); e.value = '9'; "
      "e.dispatchEvent(new Event('input')); }");
  CHECK(said() == "The number of ranks is missing or outside its limits.");
  CHECK(browser.complaints() == std::vector<std::string>{});
}
