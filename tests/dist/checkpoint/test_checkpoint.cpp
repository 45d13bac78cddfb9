// Checkpoints saved under one strategy and number of ranks, and loaded on others.
#include <map>
#include <memory>
#include <vector>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

constexpr ShardingStrategy kStrategies[] = {ShardingStrategy::single, ShardingStrategy::ddp,
                                            ShardingStrategy::zero1,  ShardingStrategy::zero2,
                                            ShardingStrategy::zero3,  ShardingStrategy::fsdp,
                                            ShardingStrategy::hybrid};

// The checkpoints of one job, each made once, and what one process makes of them.
class Checkpoints {
 public:
  explicit Checkpoints(Job job) : job_(job) {}

  // The names in which a target differs: what it loaded from what was saved, or what it ends with
  // from one process that loaded the same and takes as many micro-batches.
  std::string difference(const Stand& source, const Stand& target) {
    Whole loaded, at_end;
    const Saved& saved = saved_by(source);
    load_and_train(target, job_, run(source), loaded, at_end);
    const std::string wrong = saved.state.difference(loaded);
    return !wrong.empty() ? "loaded: " + wrong : expected(source, target.ranks).difference(at_end);
  }
  // Sources with as many ranks have the same bits.
  std::string source_difference(const Stand& a, const Stand& b) {
    return saved_by(a).state.difference(saved_by(b).state);
  }

 private:
  struct Saved {
    Whole state;
    std::map<int, std::unique_ptr<Whole>> at_end;  // by micro-batches
  };
  std::string run(const Stand& source) const { return dir_ / name(source); }
  Saved& saved_by(const Stand& source) {
    auto& saved = saved_[name(source)];
    if (!saved) {
      saved = std::make_unique<Saved>();
      train_and_save(source, job_, run(source), saved->state);
    }
    return *saved;
  }
  // Of one process that never stopped where that is possible, else of one that loaded.
  const Whole& expected(const Stand& source, int micro_batches) {
    auto& whole = saved_by(source).at_end[micro_batches];
    if (whole) return *whole;
    whole = std::make_unique<Whole>();
    const Stand single = {ShardingStrategy::single, micro_batches};
    if (micro_batches == source.ranks) {
      on_ranks(single, job_, [&](Runner& runner) {
        for (int i = 0; i < kStepsBefore + kStepsAfter; ++i) runner.step(i);
        add_state(*whole, *runner.model, *runner.optimizer);
      });
    } else {
      Whole loaded;
      load_and_train(single, job_, run(source), loaded, *whole);
      check(saved_by(source).state.difference(loaded).empty(), "one process loads other values");
    }
    return *whole;
  }

  Job job_;
  TempDir dir_;
  std::map<std::string, std::unique_ptr<Saved>> saved_;
};

std::vector<Stand> all_stands() {
  std::vector<Stand> stands;
  for (const ShardingStrategy strategy : kStrategies) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (strategy != ShardingStrategy::hybrid || ranks % 2 == 0)
        stands.push_back({strategy, ranks});
    }
  }
  return stands;
}

void check_all_pairs(Job job) {
  Checkpoints checkpoints(job);
  const std::vector<Stand> stands = all_stands();
  for (const Stand& source : stands) {
    CAPTURE(name(source));
    CHECK(checkpoints.source_difference({ShardingStrategy::single, source.ranks}, source) == "");
    for (const Stand& target : stands) {
      CAPTURE(name(target));
      CHECK(checkpoints.difference(source, target) == "");
    }
  }
}

}  // namespace

TEST_CASE(
    "a checkpoint of any strategy goes on on another, on other numbers of ranks, bit for bit") {
  const Stand stands[] = {{ShardingStrategy::single, 1}, {ShardingStrategy::ddp, 3},
                          {ShardingStrategy::zero1, 2},  {ShardingStrategy::zero2, 3},
                          {ShardingStrategy::zero3, 2},  {ShardingStrategy::fsdp, 3},
                          {ShardingStrategy::hybrid, 4}};
  for (const Job job : {Job{Subject::mlp, Method::sgd}, Job{Subject::odd, Method::adamw},
                        Job{Subject::odd, Method::adafactor}}) {
    Checkpoints checkpoints(job);
    for (size_t i = 0; i < std::size(stands); ++i) {
      for (const size_t shift : {size_t{1}, size_t{3}}) {
        const Stand& source = stands[i];
        const Stand& target = stands[(i + shift) % std::size(stands)];
        CAPTURE(name(source), name(target));
        CHECK(checkpoints.difference(source, target) == "");
      }
    }
  }
}

TEST_CASE("all pairs of strategies and sizes: MLP, SGD with momentum", "[.][stress]") {
  check_all_pairs({Subject::mlp, Method::sgd});
}

TEST_CASE("all pairs of strategies and sizes: frozen, tied, scalar, tiny, AdamW", "[.][stress]") {
  check_all_pairs({Subject::odd, Method::adamw});
}

TEST_CASE("all pairs of strategies and sizes: GPT, LAMB", "[.][stress]") {
  check_all_pairs({Subject::gpt, Method::lamb});
}

TEST_CASE("all pairs of strategies and sizes: frozen, tied, scalar, tiny, Adafactor",
          "[.][stress]") {
  check_all_pairs({Subject::odd, Method::adafactor});
}

TEST_CASE("ranks save their own parts, replicas nothing") {
  const TempDir dir;
  on_ranks({ShardingStrategy::hybrid, 4}, {Subject::mlp, Method::adamw}, [&](Runner& runner) {
    runner.step(0);
    runner.checkpointer(dir / "run").save(1);
  });
  const std::string folder = dir / "run/checkpoints/step-00000001";
  int64_t elements = 0;
  for (const int rank : {0, 1}) {
    const std::string tail = "-rank-0000" + std::to_string(rank) + "-of-00004.safetensors";
    const core::SafetensorsReader file(folder + "/model" + tail);
    for (const auto& entry : file.entries()) elements += entry.shape.numel();
    CHECK(std::filesystem::exists(folder + "/optimizer" + tail));
  }
  CHECK(elements == make_subject(Subject::mlp)->parameter_count());
  // the second replica holds the same and writes nothing
  CHECK_FALSE(std::filesystem::exists(folder + "/model-rank-00002-of-00004.safetensors"));
  CHECK_FALSE(std::filesystem::exists(folder + "/optimizer-rank-00003-of-00004.safetensors"));
}

TEST_CASE("no tensor travels when ranks save and load") {
  const TempDir dir;
  dist::run_ranks(3, [&](dist::Communicator& world) {
    nn::Linear linear(256, 256);  // 256 KiB
    dist::fully_shard(linear, world);
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", linear);
    world.traffic().reset();
    checkpoint.save(1);
    checkpoint.resume();
    expect(world.traffic().bytes() < 16384, "a few names and places, got ",
           world.traffic().bytes());
  });
}

TEST_CASE("an optimizer with its parameters in another order loads the states of each") {
  const TempDir dir;
  const Job job = {Subject::mlp, Method::adamw};
  Whole saved, loaded;
  train_and_save({ShardingStrategy::fsdp, 3}, job, dir / "run", saved);
  on_ranks({ShardingStrategy::zero1, 2}, job, [&](Runner& runner) {
    std::vector<Tensor> reversed = runner.model->parameters();
    std::reverse(reversed.begin(), reversed.end());
    runner.optimizer = make_method(job.method, reversed);
    runner.checkpointer(dir / "run").resume();
    // the same states in the optimizer of the right order
    dist::Checkpointer again(dir / "again", runner.world);
    again.track("model", *runner.model);
    again.track("optimizer", *runner.optimizer);
    again.save(kStepsBefore);
  });
  Whole at_end;
  load_and_train({ShardingStrategy::single, 1}, job, dir / "again", loaded, at_end);
  CHECK(saved.difference(loaded) == "");
}
