// The page's step of FSDP against the library's: the order of what units do, the bytes that a rank
// sends, and the time of the library's own events on the same device and link.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>

using namespace hero;
using hero_test::Browser;
using nlohmann::json;

namespace {

using Events = std::vector<std::pair<std::string, std::string>>;  // what, unit

struct Step {
  Events events;
  std::map<std::string, int64_t> rows;  // numbers of a unit, by its name
  int64_t bytes = 0;                    // that rank 0 sent
};

// The second step of a GPT with so many blocks, each a unit.
Step library_step(int ranks, int blocks, const dist::FSDPOptions& options) {
  Step step;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    manual_seed(1);
    nn::GPT model(
        {.vocab_size = 50, .block_size = 16, .n_layer = blocks, .n_head = 2, .n_embd = 16});
    const dist::DataParallel sharded = dist::fully_shard(model, world, options);
    const Tensor tokens = randint(0, 50, {2, 17});
    const auto loss = [&] {
      return cross_entropy(flatten(model(tokens.slice(1, 0, 16)), 0, 1),
                           flatten(tokens.slice(1, 1, 17)));
    };
    loss().backward();
    if (world.rank() > 0) {
      loss().backward();
      return;
    }
    const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
    for (const dist::UnitInfo& unit : sharded.units()) step.rows[last(unit.name)] = unit.flat_numel;
    sharded.on_event([&](const dist::Event& event) {
      step.events.emplace_back(dist::name(event.kind), last(event.unit));
    });
    std::vector<HookHandle> hooks;
    for (nn::Module* block : model.modules()) {
      if (dynamic_cast<nn::Block*>(block) == nullptr) continue;
      hooks.push_back(block->register_forward_pre_hook(
          [&, block](auto&...) { step.events.emplace_back("forward", block->name()); }));
      hooks.push_back(block->register_full_backward_pre_hook(
          [&, block](auto&...) { step.events.emplace_back("backward", block->name()); }));
    }
    const int64_t before = world.traffic().bytes();
    loss().backward();
    step.bytes = world.traffic().bytes() - before;
    sharded.on_event({});
    for (HookHandle& hook : hooks) hook.remove();
  });
  return step;
}

std::string choice(int units, int prefetch, bool reshard) {
  return "units: " + std::to_string(units) + ", prefetch: " + std::to_string(prefetch) +
         ", reshard: " + (reshard ? "true" : "false");
}

Events page_events(Browser& browser, int units, int prefetch, bool reshard) {
  const json list = browser.evaluate("steps.events({" + choice(units, prefetch, reshard) +
                                     "}).map(([what, unit]) => [what, String(unit)])");
  return list.get<Events>();
}

// How long the events take if forward, backward and each message take so many seconds.
double replay(const Events& events, double forward, double backward, double message) {
  double now = 0.0, free = 0.0;
  std::map<std::string, double> came;
  for (const auto& [what, unit] : events) {
    if (unit == "root") continue;
    if (what == "gather" || what == "reduce") {
      free = std::max(now, free) + message;
      came[what + unit] = free;
    }
    if (what == "use" && came.count("gather" + unit) > 0)
      now = std::max(now, came["gather" + unit]);
    if (what == "reduced") now = std::max(now, came["reduce" + unit]);
    if (what == "forward") now += forward;
    if (what == "backward") now += backward;
  }
  return now;
}

}  // namespace

TEST_CASE("the page's steps of FSDP are the library's, in order, bytes and time") {
  NEED_CHROMIUM();
  Browser browser;
  for (const int blocks : {1, 3, 5}) {
    for (const int prefetch : {0, 1, 2, 3}) {
      for (const bool reshard : {true, false}) {
        for (const int ranks : {2, 4}) {
          CAPTURE(blocks, prefetch, reshard, ranks);
          const Step step = library_step(ranks, blocks,
                                         {.unit = dist::each<nn::Block>(),
                                          .reshard_after_forward = reshard,
                                          .prefetch = prefetch});
          const Events events = page_events(browser, blocks, prefetch, reshard);
          CHECK(events == step.events);
          double bytes = 0.0;  // of float32, by the page's formula
          for (const auto& [what, unit] : events) {
            if (what != "gather" && what != "reduce") continue;
            bytes += browser
                         .evaluate("steps.message(" + std::to_string(step.rows.at(unit)) + ", " +
                                   std::to_string(ranks) + ", 4)")
                         .get<double>();
          }
          CHECK(bytes == static_cast<double>(step.bytes));
          for (const int tokens : {1000, 6000, 20000}) {
            // 50 million parameters, 10^14 operations and 25 10^9 bytes per second
            const json played = browser.evaluate(
                "(({time, waits}) => [time, waits])(steps.play({parameters: 5e7, tokens: " +
                std::to_string(tokens) + ", ranks: " + std::to_string(ranks) +
                ", speed: 1e14, bandwidth: 25e9, " + choice(blocks, prefetch, reshard) + "}))");
            const double forward = 2 * 5e7 * tokens / 1e14;
            const double message = 2 * 5e7 * (ranks - 1) / ranks / 25e9;
            const double time = replay(step.events, forward, 2 * forward, message);
            CHECK(played.at(0) == Approx(time).epsilon(1e-12));
            CHECK(played.at(1) == Approx(time - 3 * forward * blocks).epsilon(1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("from the tokens that chapter 17 derives on, FSDP waits only at its ends") {
  NEED_CHROMIUM();
  Browser browser;
  const std::string machine = "ranks: 64, speed: 1.72e14, bandwidth: 25e9";
  const double enough = browser.evaluate("steps.tokensToHide({" + machine + "})");
  CHECK(enough == Approx(1.72e14 / 25e9 * 63 / 64));
  const auto waits = [&](double tokens, int units) {
    return browser
        .evaluate("steps.play({parameters: 5e7, tokens: " + std::to_string(tokens) + ", " +
                  machine + ", " + choice(units, 1, true) + "}).waits")
        .get<double>();
  };
  const double message = 2 * 5e7 * 63 / 64 / 25e9;
  for (const int units : {2, 6, 24}) {
    CAPTURE(units);
    // the first gathers of forward and of backward, and the last reduction
    CHECK(waits(1.01 * enough, units) == Approx(3 * message));
    CHECK(waits(4.0 * enough, units) == Approx(3 * message));
    CHECK(waits(0.99 * enough, units) > 3.001 * message);
  }
}

TEST_CASE("the picture of FSDP's step follows its numbers") {
  NEED_CHROMIUM();
  Browser browser;
  const auto said = [&] {
    return browser.evaluate("document.getElementById('fsdp-said').textContent").get<std::string>();
  };
  const auto boxes = [&](const std::string& what) {
    return browser.evaluate("document.querySelectorAll('#fsdp-picture .step-" + what + "').length");
  };
  const auto set = [&](const std::string& id, const std::string& value) {
    browser.evaluate(
        "{ const e = document.getElementById('" + id + "'); e.value = '" + value +
        "'; e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); }");
  };
  CHECK(said() ==
        "A step takes 74.9 ms: the device computes for 42.9 ms and waits for 32 ms. At most 2 of 6 "
        "units are in memory at once. With prefetching, a message hides behind a unit that "
        "computes from 6,773 tokens on; with 4,096 a message is longer than what is computed "
        "meanwhile.");
  CHECK(boxes("gather") == 12);
  CHECK(boxes("reduce") == 6);
  set("fsdp-choice", "3");  // kept until backward
  CHECK(boxes("gather") == 6);
  CHECK(said().find("At most 6 of 6 units") != std::string::npos);
  set("fsdp-tokens-slider", "13");
  CHECK(said().find("with 8,192 a message is hidden") != std::string::npos);
  set("fsdp-units", "0");
  CHECK(said() == "One of the numbers is missing or outside its limits.");
  CHECK(boxes("forward") == 6);  // the picture before
  CHECK(browser.complaints() == std::vector<std::string>{});
}
