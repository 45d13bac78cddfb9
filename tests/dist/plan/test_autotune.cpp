// Successive halving over ranks.
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/autotune.h>
#include <hero/dist/dist.h>
#include <hero/dist/plan.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("autotune: the fastest of five is found on all ranks, and most runs are its own",
          "[threads]") {
  run_ranks(2, [](Communicator& world) {
    std::vector<TuneCandidate> candidates;
    std::vector<int> steps(5);
    double now = 0.0;
    for (int i = 0; i < 5; ++i) {
      // Rank 1 alone is slow: a step is as slow as its slowest rank.
      const double seconds = (i + 2) % 5 * world.rank();
      candidates.push_back({"c" + std::to_string(i), [&steps, &now, i, seconds] {
                              return [&steps, &now, i, seconds] {
                                ++steps[static_cast<size_t>(i)];
                                now += seconds;
                              };
                            }});
    }
    const Tuned tuned = autotune(world, candidates, {.steps = 1, .clock = [&] { return now; }});
    expect(tuned.best == 3, "the best: ", tuned.best);
    expect(tuned.entries.front().name == "c3", "listed first");
    // 5, then 3, then 2 candidates are timed: 1, 2 and 4 steps behind one that is not
    expect(tuned.entries.front().rounds == 3 && tuned.entries.front().steps == 7, "its rounds");
    expect(steps[3] == 7 + 3, "steps of the best: ", steps[3]);
    expect(steps[2] == 2, "steps of the slowest: ", steps[2]);
    expect(tuned.table().find("c3") < tuned.table().find("c2"), "the table's order");
  });
}

TEST_CASE("autotune: what holds too much on one rank is dropped on all", "[threads]") {
  run_ranks(2, [](Communicator& world) {
    const auto holds = [&](int64_t numel) {
      return [&world, numel] {
        return [&world, numel] { Array::zeros({world.rank() == 0 ? numel : 1}); };
      };
    };
    const std::vector<TuneCandidate> candidates = {{"large", holds(1000)}, {"small", holds(10)}};
    const Tuned tuned = autotune(world, candidates, {.memory = 1000});
    expect(tuned.best == 1, "the small one");
    expect(tuned.entries.back().rounds == 0 && tuned.entries.back().memory >= 4000,
           "the large one");
    expect(tuned.table().find("too much") != std::string::npos, "it is said");
    const Tuned none = autotune(world, {candidates.front()}, {.memory = 100});
    expect(none.best == -1, "nothing fits");
  });
}

TEST_CASE("autotune: bucket sizes of a trainer, which all begin with the same values",
          "[threads]") {
  run_ranks(2, [](Communicator& world) {
    std::vector<TuneCandidate> candidates;
    std::vector<double> first;
    for (const int64_t bucket : {500, 5'000, 50'000}) {
      Config config = Config::parse(R"({"optimizer": {"type": "AdamW"}})");
      config.zero = {.stage = 2, .bucket_elements = bucket};
      candidates.push_back(
          {std::to_string(bucket) + " elements", [&world, &first, config] {
             auto model = std::make_shared<nn::GPT>(nn::GPTConfig{
                 .vocab_size = 64, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32});
             auto trainer = std::make_shared<Trainer>(*model, world, config);
             const Tensor tokens = randint(0, 64, {4, 16});
             return [&first, model, trainer, tokens] {
               const Tensor loss = trainer->forward([&] { return model->loss(tokens, tokens); });
               if (trainer->micro_steps() == 0) first.push_back(loss.item());
               trainer->backward(loss);
               trainer->step();
             };
           }});
    }
    const Tuned tuned = autotune(world, candidates);
    expect(tuned.best >= 0 && tuned.entries.front().seconds > 0.0, "a best one");
    for (const double loss : first) expect(loss == first.front(), "the same first loss");
    expect(first.size() == 3 + 2, "two rounds of them: ", first.size());
  });
}

TEST_CASE("autotune: the best of a plan, each tried, beside what was planned", "[threads]") {
  PlanRequest request;
  request.model = {.vocab_size = 64,
                   .block_size = 16,
                   .n_layer = 2,
                   .n_head = 2,
                   .n_embd = 32,
                   .tie_weights = false};
  request.ranks = 2;
  request.global_batch = 8;
  request.dtype = kFloat32;
  request.best = 4;
  request.cluster.per_host = 2;
  request.cluster.device = DeviceType::cpu;
  run_ranks(2, [&](Communicator& world) {
    const Plan found = plan(request);  // the same on every rank
    std::vector<TuneCandidate> candidates;
    for (const PlanEntry& entry : found.best) {
      const Config config = Config::parse(config_text(request, entry.strategy));
      const auto make = [&request, &world, config]() -> std::function<void()> {
        auto model = std::make_shared<nn::GPT>(request.model);
        auto trainer = std::make_shared<Trainer>(*model, world, config);
        const int64_t rows = config.micro_batch_size * config.accumulation_steps;
        const Tensor tokens = randint(0, 64, {rows, request.model.block_size});
        return [model, trainer, tokens] { trainer->train_batch(tokens, tokens); };
      };
      candidates.push_back({entry.strategy.text(), make, entry.cost->seconds});
    }
    const Tuned tuned = autotune(world, candidates);
    const std::string text = tuned.table();
    expect(tuned.entries.size() == 4 && tuned.best >= 0, "four of them");
    for (const TuneEntry& entry : tuned.entries) expect(entry.planned > 0.0, entry.name);
    expect(text.find("     planned ms per step") == 0, text);
  });
}

TEST_CASE("autotune: nothing to try is an error") {
  run_ranks(1, [](Communicator& world) {
    const auto errors = [&](const std::vector<TuneCandidate>& candidates, int steps) {
      try {
        autotune(world, candidates, {.steps = steps});
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    expect(errors({}, 3) == "autotune: no candidates", "no candidates");
    const TuneCandidate one = {"one", [] { return std::function<void()>([] {}); }};
    expect(errors({one}, 0) == "autotune: steps must be positive: 0", "no steps");
    expect(errors({{"none", [] { return std::function<void()>(); }}}, 1) ==
               "autotune: candidate 'none' has no step",
           "no step");
  });
  const auto errors = errors_of(2, [](Communicator& world) {
    const auto make = [] { return std::function<void()>([] {}); };
    autotune(world, {{"one", make}, {world.rank() == 0 ? "two" : "three", make}});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Matchers::ContainsSubstring(
                          "autotune: ranks try different things: rank 0 has candidate 'two', rank "
                          "1 has candidate 'three'"));
  }
}

}  // namespace
