// One batch of eight micro-batches a step on any power of two of ranks: the same bits.
#include <optional>
#include <string>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/nn/data/data.h>

using namespace hero;
using namespace hero::test;
using hero_test::TempDir;

namespace {

constexpr int kMicroBatches = 8;

struct Place {
  ShardingStrategy strategy = ShardingStrategy::ddp;
  int ranks = 1;
  int group = 2;  // of a hybrid
};

std::string text(const Place& place) {
  return std::string(name(place.strategy)) + " on " + std::to_string(place.ranks) +
         " ranks, groups of " + std::to_string(place.group);
}

std::vector<Place> places() {
  std::vector<Place> all = {{ShardingStrategy::hybrid, 4, 2},
                            {ShardingStrategy::hybrid, 8, 2},
                            {ShardingStrategy::hybrid, 8, 4}};
  for (const int ranks : {1, 2, 4, 8}) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
          ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
      all.push_back({strategy, ranks});
    }
  }
  return all;
}

// The ranks take turns with the micro-batches of a step.
void steps(Subject subject, nn::Module& model, optim::Optimizer& optimizer,
           const dist::Communicator& world, int from, int until) {
  optim::Accumulator gradients(model.parameters());
  for (int step = from; step < until; ++step) {
    for (int i = world.rank(); i < kMicroBatches; i += world.size()) {
      subject_loss(subject, model, step, i).backward();
      gradients.add();
    }
    gradients.mean();
    finish_step(model, optimizer, 0.5);
  }
}

// Steps `from` to `until` at a place, after `resume` and before `save` of the run in a folder.
void run(const Place& place, Subject subject, int from, int until, const std::string& folder,
         Whole* whole) {
  dist::run_ranks(place.ranks, [&](dist::Communicator& world) {
    const auto model = make_subject(subject);
    climb(place.strategy, subject, *model, world, dist::Order::tree, place.group);
    const auto adamw = make_method(Method::adamw, model->parameters());
    std::optional<dist::Checkpointer> checkpoint;
    if (!folder.empty()) {
      checkpoint.emplace(folder, world);
      checkpoint->track("model", *model);
      checkpoint->track("optimizer", *adamw);
      if (from > 0) expect(checkpoint->resume() == from, "the step that was saved");
    }
    steps(subject, *model, *adamw, world, from, until);
    if (checkpoint) checkpoint->save(until);
    if (whole != nullptr) add_state(*whole, *model, *adamw);
  });
}

}  // namespace

TEST_CASE("a step has the same bits on 1, 2, 4 and 8 ranks, under every strategy") {
  for (const Subject subject : {Subject::gpt_loss, Subject::odd}) {
    Whole expected;
    run({ShardingStrategy::ddp, 1}, subject, 0, 3, "", &expected);
    REQUIRE(expected.size() >= 4);
    for (const Place& place : places()) {
      CAPTURE(text(place));
      Whole got;
      run(place, subject, 0, 3, "", &got);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("a run has the same bits wherever its number of ranks changes") {
  const Subject subject = Subject::mlp;
  Whole expected;
  run({ShardingStrategy::ddp, 1}, subject, 0, 8, "", &expected);
  const std::vector<Place> ways[] = {{{ShardingStrategy::fsdp, 8},
                                      {ShardingStrategy::fsdp, 2},
                                      {ShardingStrategy::fsdp, 4},
                                      {ShardingStrategy::fsdp, 1}},
                                     {{ShardingStrategy::ddp, 1},
                                      {ShardingStrategy::zero1, 4},
                                      {ShardingStrategy::hybrid, 8, 4},
                                      {ShardingStrategy::zero3, 2}},
                                     {{ShardingStrategy::hybrid, 4, 2},
                                      {ShardingStrategy::ddp, 8},
                                      {ShardingStrategy::zero2, 2},
                                      {ShardingStrategy::fsdp, 8}}};
  for (const std::vector<Place>& way : ways) {
    const TempDir dir;
    Whole got;
    for (int part = 0; part < 4; ++part) {
      run(way[static_cast<size_t>(part)], subject, 2 * part, 2 * part + 2, dir / "run",
          part == 3 ? &got : nullptr);
    }
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("gradients of bfloat16 that are added up in float32 have the same bits on any ranks") {
  const auto bits = [](int ranks) {
    Whole whole;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::gpt);
      dist::fully_shard(*model, world,
                        {.unit = units_of(Subject::gpt),
                         .mixed_precision = {.parameters = kBFloat16, .reduce = kFloat32}});
      const auto adamw = make_method(Method::adamw, model->parameters());
      steps(Subject::gpt, *model, *adamw, world, 0, 3);
      add_state(whole, *model, *adamw);
    });
    return whole.sha256();
  };
  const std::string one = bits(1);
  for (const int ranks : {2, 4, 8}) CHECK(bits(ranks) == one);
}

namespace {

// Samples whose features get noise when they are read.
class Noisy : public nn::data::Dataset {
 public:
  int64_t size() const override { return 96; }
  nn::data::Example get(int64_t index) const override {
    const Tensor x(noise({7}, kFloat32, static_cast<uint64_t>(index) + 1));
    return {x + 0.1 * randn({7}), Tensor(Array::full({}, index % 5, kInt64))};
  }
};

// Steps `from` to `until` of eight batches of two each, after `resume` and before `save`.
void run_loader(int ranks, int from, int until, const std::string& folder, Whole& whole) {
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    dist::fully_shard(*model, world, {.unit = units_of(Subject::mlp)});
    const auto adamw = make_method(Method::adamw, model->parameters());
    nn::data::DistributedSampler sampler(
        96, {.num_replicas = ranks, .rank = world.rank(), .seed = 5, .turn = 2});
    nn::data::DataLoader loader(Noisy(), {.batch_size = 2, .sampler = &sampler});
    dist::Checkpointer checkpoint(folder, world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", *adamw);
    checkpoint.track("loader", loader);
    if (from > 0) expect(checkpoint.resume() == from, "the step that was saved");
    auto batch = loader.begin();
    optim::Accumulator gradients(model->parameters());
    for (int step = from; step < until; ++step) {
      for (int i = world.rank(); i < kMicroBatches; i += ranks) {
        if (batch == loader.end()) batch = loader.begin();
        cross_entropy((*model)((*batch)[0]), (*batch)[1]).backward();
        gradients.add();
        // a saved loader stands behind the last batch that was used
        if (step + 1 < until || i + ranks < kMicroBatches) ++batch;
      }
      gradients.mean();
      finish_step(*model, *adamw, 0.0);
    }
    checkpoint.save(until);
    add_state(whole, *model, *adamw);
  });
}

}  // namespace

TEST_CASE("data comes in the same batches on any number of ranks, also from a checkpoint on") {
  const TempDir dir;
  Whole expected;
  run_loader(1, 0, 9, dir / "alone", expected);  // an epoch and a half
  const std::pair<int, int> ways[] = {{8, 2}, {2, 8}, {4, 1}, {1, 4}};
  for (const auto& [before, after] : ways) {
    CAPTURE(before, after);
    const std::string folder = dir / (std::to_string(before) + "-" + std::to_string(after));
    Whole halfway, got;
    run_loader(before, 0, 4, folder, halfway);
    run_loader(after, 4, 9, folder, got);
    CHECK(expected.difference(got) == "");
  }
}
