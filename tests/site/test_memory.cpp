// The page's memory calculator against the library's ledger and the slides' numbers.
#include <cmath>
#include <iostream>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using hero_test::Browser;
using nlohmann::json;

namespace {

struct Held {
  double parameters, gradients, optimizer;
};

// What rank 0 of N holds after a step of 75 matrices of 10^8 elements in 16 bits, by the ledger.
Held held(int stage, int ranks) {
  Held bytes{};
  dist::simulate_ranks(
      ranks,
      [&](dist::Communicator& world) {
        const nn::DeviceScope meta(kMeta);
        nn::Sequential model;
        for (int i = 0; i < 75; ++i) {
          model.append<nn::Linear>(10'000, 10'000, nn::LinearOptions{.bias = false});
        }
        model.to(kBFloat16);
        if (stage == 0) dist::DDP(model, world);
        if (stage > 0) dist::ZeRO(model, world, {.stage = stage});
        optim::MasterWeights<optim::Adam> adam(model.parameters());
        sum(model(empty({1, 10'000}, {.dtype = kBFloat16, .device = kMeta}))).backward();
        adam.step();
        const auto live = [](MemoryTag tag) {
          return static_cast<double>(current_ledger().live(tag, DeviceType::meta));
        };
        bytes = {live(MemoryTag::parameter), live(MemoryTag::gradient), live(MemoryTag::optimizer)};
      },
      {0});
  return bytes;
}

int64_t gpt_parameters(const nn::GPTConfig& config) {
  const nn::DeviceScope meta(kMeta);
  int64_t count = 0;
  for (const Tensor& p : nn::GPT(config).parameters()) count += p.numel();
  return count;
}

json page_held(Browser& browser, int stage, int ranks) {
  return browser.evaluate("memory.held(" + std::to_string(stage) + ", {parameters: 7.5e9, ranks: " +
                          std::to_string(ranks) + ", bytes: memory.precisions[0].bytes})");
}

// The column of a table's row as the page shows it.
std::string cell(Browser& browser, int stage, int column) {
  return browser.evaluate("document.getElementById('memory-rows').rows[" + std::to_string(stage) +
                          "].cells[" + std::to_string(column) + "].textContent");
}

void set(Browser& browser, const std::string& id, const std::string& value) {
  browser.evaluate("{ const e = document.getElementById('" + id + "'); e.value = '" + value +
                   "'; e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); }");
}

}  // namespace

TEST_CASE("the page's bytes are those of the library's ledger") {
  NEED_CHROMIUM();
  Browser browser;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int ranks : {1, 3, 4, 64, 1000}) {
      CAPTURE(stage, ranks);
      const Held want = held(stage, ranks);
      const json got = page_held(browser, stage, ranks);
      // each of 75 rows is filled up to a multiple of 8 elements a rank, 2 or 12 bytes each
      const double filled = 75 * 8.0 * ranks;
      CHECK(std::fabs(got.at("parameters").get<double>() - want.parameters) <= 2 * filled);
      CHECK(std::fabs(got.at("gradients").get<double>() - want.gradients) <= 2 * filled);
      CHECK(std::fabs(got.at("optimizer").get<double>() - want.optimizer) <= 12 * filled);
    }
  }
}

TEST_CASE("the page's GPTs have as many parameters as the library's") {
  NEED_CHROMIUM();
  Browser browser;
  const json models = browser.evaluate("memory.models.map((m) => m.parameters)");
  REQUIRE(models.size() == 6);
  CHECK(models[4] == gpt_parameters({.vocab_size = 50257}));
  CHECK(models[5] ==
        gpt_parameters(
            {.vocab_size = 1024, .block_size = 64, .n_layer = 4, .n_head = 4, .n_embd = 128}));
}

TEST_CASE("the page shows the slides' numbers: 120, 31.4, 16.6 and 1.88 GB") {
  NEED_CHROMIUM();
  Browser browser;
  const char* together[] = {"120 GB", "31.4 GB", "16.6 GB", "1.88 GB"};
  const char* in_32_gb[] = {"2.00 B", "7.64 B", "14.4 B", "128 B"};
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(cell(browser, stage, 4) == together[stage]);
    CHECK(cell(browser, stage, 6) == in_32_gb[stage]);
  }
  set(browser, "memory-model", "2");
  set(browser, "memory-ranks", "1024");
  CHECK(cell(browser, 3, 4) == "15.6 GB");  // a trillion on GPUs of 16 GB
  CHECK(
      browser.evaluate("document.getElementById('memory-said').textContent")
          .get<std::string>()
          .find("ZeRO-3 on 1024 ranks: 15.6 GB per rank, within GPUs of 16 GB, 32 GB and 80 GB") ==
      0);
}

TEST_CASE("the page's bars and lines are as high as the bytes they stand for") {
  NEED_CHROMIUM();
  Browser browser;
  // from the top of the first bar, 120 GB, to its foot
  const json ends = browser.evaluate(
      "(() => { const r = document.querySelector('.bar rect.optimizer').y.baseVal.value, "
      "f = document.querySelector('.bar rect.parameters'); "
      "return [r, f.y.baseVal.value + f.height.baseVal.value]; })()");
  const double top = ends[0], foot = ends[1];
  const auto gigabytes = [&](const json& y) {
    return 120.0 * (foot - y.get<double>()) / (foot - top);
  };
  const json bars = browser.evaluate(
      "[...document.querySelectorAll('.bar')].map((bar) => memory.kinds.map((kind) => "
      "{ const b = bar.querySelector('rect.' + kind); "
      "return [b.y.baseVal.value + b.height.baseVal.value, b.y.baseVal.value]; }))");
  constexpr double kFloats = 1e-3;  // GB; lengths of a picture are float32
  for (size_t stage = 0; stage < 4; ++stage) {
    const json bytes = page_held(browser, static_cast<int>(stage), 64);
    const char* kinds[] = {"parameters", "gradients", "optimizer"};
    double below = 0.0;
    for (size_t kind = 0; kind < 3; ++kind) {  // one on another
      CAPTURE(stage, kinds[kind]);
      CHECK(std::fabs(gigabytes(bars[stage][kind][0]) - below) <= kFloats);
      below += bytes.at(kinds[kind]).get<double>() * 1e-9;
      CHECK(std::fabs(gigabytes(bars[stage][kind][1]) - below) <= kFloats);
    }
  }
  const json lines = browser.evaluate(
      "[...document.querySelectorAll('line.limit')].map((line) => line.y1.baseVal.value)");
  REQUIRE(lines.size() == 3);
  const double devices[] = {16.0, 32.0, 80.0};
  for (size_t i = 0; i < 3; ++i) CHECK(std::fabs(gigabytes(lines[i]) - devices[i]) <= kFloats);
}
