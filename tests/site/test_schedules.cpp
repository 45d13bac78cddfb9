// The page's schedules of a pipeline against the library's, and their times against the formulas of
// dist/pipeline_schedule.h.
#include <algorithm>
#include <string>
#include <vector>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/dist/pipeline_schedule.h>

using hero::dist::Schedule;
using hero_test::Browser;
using nlohmann::json;

namespace {

struct Named {
  const char* key;  // on the page
  Schedule schedule;
};

std::vector<Named> all(int chunks) {
  return {{"gpipe", Schedule::gpipe()},
          {"1f1b", Schedule::one_f_one_b()},
          {"interleaved", Schedule::interleaved(chunks)},
          {"zero_bubble", Schedule::zero_bubble()}};
}

std::string text_of(const std::vector<hero::dist::Action>& actions) {
  std::string text;
  for (const hero::dist::Action& action : actions) text += to_string(action) + " ";
  return text;
}

// What the page shows of a step by a schedule: time, idle, waiting of each rank.
json played(Browser& browser, const std::string& key, int ranks, int micro_batches, int chunks,
            double backward) {
  return browser.evaluate(
      "(({time, idle, waiting}) => ({time, idle, waiting}))(schedules.play('" + key +
      "', {ranks: " + std::to_string(ranks) + ", microBatches: " + std::to_string(micro_batches) +
      ", chunks: " + std::to_string(chunks) + ", backward: " + std::to_string(backward) + "}))");
}

}  // namespace

TEST_CASE("the page's schedules have the library's actions") {
  NEED_CHROMIUM();
  Browser browser;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const int micro_batches : {1, 2, 3, 4, 5, 8, 12}) {
      for (const int chunks : {1, 2, 3}) {
        for (const Named& each : all(chunks)) {
          // every rank's actions in one call
          const json shown = browser.evaluate(
              "Array.from({length: " + std::to_string(ranks) + "}, (_, r) => schedules.actions('" +
              each.key + "', " + std::to_string(chunks) + ", r, " + std::to_string(ranks) + ", " +
              std::to_string(micro_batches) +
              ").map(({kind, chunk, micro}) => `${kind}${micro}${chunk ? '.' + chunk : ''} `)"
              ".join(''))");
          for (int rank = 0; rank < ranks; ++rank) {
            CAPTURE(each.key, ranks, micro_batches, chunks, rank);
            CHECK(shown.at(static_cast<size_t>(rank)) ==
                  text_of(each.schedule.actions(rank, ranks, micro_batches)));
          }
        }
      }
    }
  }
}

TEST_CASE("the page's steps of a pipeline take what the formulas say") {
  NEED_CHROMIUM();
  Browser browser;
  for (const int p : {1, 2, 4, 6}) {
    for (const int m : {p, 2 * p, 12}) {
      for (const double backward : {1.0, 2.0}) {
        CAPTURE(p, m, backward);
        const double work = m * (1 + backward);
        const auto idle = [&](const char* key, int v) {
          return played(browser, key, p, m, v, backward).at("idle").get<double>();
        };
        const double bubble = static_cast<double>(p - 1) / (m + p - 1);
        CHECK(idle("gpipe", 1) == Approx(bubble).margin(1e-12));
        CHECK(idle("1f1b", 1) == Approx(bubble).margin(1e-12));
        for (const int v : {2, 3}) {
          const double smaller = static_cast<double>(p - 1) / (v * m + p - 1);
          CHECK(idle("interleaved", v) == Approx(smaller).margin(1e-12));
        }
        // m (F + B + W) + (p - 1) (F + B - W), where B = W is half a backward pass
        const double time = work + (p - 1) * 1.0;
        CHECK(played(browser, "zero_bubble", p, m, 1, backward).at("time") == Approx(time));
        const json waiting = played(browser, "1f1b", p, m, 1, backward).at("waiting");
        for (int rank = 0; rank < p; ++rank) {
          CHECK(waiting.at(static_cast<size_t>(rank)) == std::min(p - rank, m));
        }
        CHECK(played(browser, "gpipe", p, m, 1, backward).at("waiting").at(0) == m);
      }
    }
  }
}

TEST_CASE("the pipeline's picture follows its numbers") {
  NEED_CHROMIUM();
  Browser browser;
  const auto said = [&] {
    return browser.evaluate("document.getElementById('pipeline-said').textContent")
        .get<std::string>();
  };
  const auto boxes = [&](const std::string& kind) {
    return browser.evaluate("document.querySelectorAll('#pipeline-picture .pass-" + kind +
                            "').length");
  };
  CHECK(said() ==
        "1F1B, 4 ranks, 8 micro-batches: a step takes 33 times a forward pass, and a rank is idle "
        "for 27.3 % of it. Up to 4 forward passes wait for their backward pass on a rank.");
  CHECK(boxes("F") == 32);
  CHECK(boxes("B") == 32);
  CHECK(boxes("W") == 0);
  const auto set = [&](const std::string& id, const std::string& value) {
    browser.evaluate(
        "{ const e = document.getElementById('" + id + "'); e.value = '" + value +
        "'; e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); }");
  };
  set("pipeline-schedule", "zero_bubble");
  CHECK(boxes("W") == 32);
  CHECK(said().find("takes 27 times a forward pass") != std::string::npos);
  set("pipeline-schedule", "interleaved");
  set("pipeline-chunks", "4");
  CHECK(boxes("F") == 128);
  set("pipeline-ranks-slider", "1");
  CHECK(said().find("Interleaved stages, 1 rank, 8 micro-batches: ") == 0);
  CHECK(said().find("idle for 0.0 %") != std::string::npos);
  set("pipeline-micro", "0");
  CHECK(said() == "One of the numbers is missing or outside its limits.");
  CHECK(boxes("F") == 32);  // the picture before
  CHECK(browser.complaints() == std::vector<std::string>{});
}
