// What ranks tell each other to save: hashes, however many values there are, and what they differ
// in where they do.
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dist/checkpoints.h"
#include "dist/parallel/boxes.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint/parts.h>
#include <hero/dist/tensor_parallel.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

/// Layers of 7 * 7 + 7 elements.
struct ManyLayers : nn::Module {
  explicit ManyLayers(int layers) {
    for (int i = 0; i < layers; ++i) add<nn::Linear>("layer" + std::to_string(100 + i), 7, 7);
  }
};

// Bytes that all ranks send to save a module with AdamW's states.
int64_t bytes_of_save(ShardingStrategy strategy, int ranks, int layers) {
  const TempDir dir;
  int64_t sent = 0;
  std::mutex mutex;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    ManyLayers model(layers);
    climb(strategy, Subject::mlp, model, world);
    optim::AdamW adamw(model.parameters());
    for (const Tensor& p : model.parameters()) p.set_grad(Tensor(Array::ones(p.shape())));
    adamw.step();
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adamw);
    world.traffic().reset();
    checkpoint.save(1);
    const std::lock_guard<std::mutex> lock(mutex);
    sent += world.traffic().bytes();
  });
  return sent;
}

// Saves a SmallMLP that each rank puts under its strategy; what each rank is told.
template <class Shard>
std::vector<std::string> errors_of_save(int ranks, bool full, const Shard& shard) {
  const TempDir dir;
  const std::string run = dir / "run";
  auto errors = errors_of(ranks, [&](dist::Communicator& world) {
    SmallMLP model;
    shard(model, world);
    if (full) return dist::save_full(dir / "model.safetensors", world, model);
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", model);
    checkpoint.save(1);
  });
  CHECK_FALSE(std::filesystem::exists(run + "/checkpoints/step-00000001"));
  return errors;
}

}  // namespace

TEST_CASE("what ranks send to save does not grow with the number of values", "[agreement]") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero2, ShardingStrategy::zero3,
        ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    for (const int ranks : {2, 4}) {
      CAPTURE(name(strategy), ranks);
      const int64_t few = bytes_of_save(strategy, ranks, 2),
                    many = bytes_of_save(strategy, ranks, 50);
      // the sizes of two files a rank are written with more digits
      CHECK(many - few <= 2 * 4 * ranks * (ranks - 1));
      CHECK(few > 0);
    }
  }
}

namespace {

// Bytes that all ranks send in a second save, and in the first one, of a GPT with tensor
// parallelism.
std::pair<int64_t, int64_t> bytes_of_saves(int ranks, int layers) {
  const TempDir dir;
  std::pair<int64_t, int64_t> sent;
  std::mutex mutex;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    nn::GPT model({.vocab_size = 16, .block_size = 4, .n_layer = layers, .n_head = 4, .n_embd = 8});
    dist::tensor_parallel(model, world);
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", model);
    const auto bytes_of = [&](int64_t step) {
      world.traffic().reset();
      checkpoint.save(step);
      return world.traffic().bytes();
    };
    const int64_t first = bytes_of(1), second = bytes_of(2);
    const std::lock_guard<std::mutex> lock(mutex);
    sent.first += first;
    sent.second += second;
  });
  return sent;
}

}  // namespace

TEST_CASE("ranks tell each other what they hold of cut values once, not in each save",
          "[agreement]") {
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const auto few = bytes_of_saves(ranks, 1), many = bytes_of_saves(ranks, 6);
    // of each value at least a line to every other rank, in the first save
    CHECK(many.first - few.first > 5 * 12 * 10 * ranks * (ranks - 1));
    // the sizes of two files a rank are written with more digits
    CHECK(many.second - few.second <= 2 * 4 * ranks * (ranks - 1));
    CHECK(few.second > 0);
  }
}

TEST_CASE("values that are cut at other places than in the save before are saved as they are",
          "[agreement]") {
  const TempDir dir;
  manual_seed(3);
  nn::Linear whole(8, 8);
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::Linear model(8, 8);
    int64_t step = 0;
    const auto cut_all = [&](int dim, int64_t share) {  // rank 0's; the rest is rank 1's
      for (const auto& [name, leaf] : model.named_parameters()) {
        const Array values = (whole.get_parameter(name).detach() + step).array();
        set_part(leaf, values, nullptr);
        const int along = std::min(dim, leaf.ndim() - 1);
        Partition place = {leaf.shape(), {{Shape::filled(leaf.ndim(), 0), leaf.shape()}}, 0, {}};
        Box& box = place.boxes[0];
        box.offset[along] = world.rank() == 0 ? 0 : share;
        box.extent[along] = world.rank() == 0 ? share : 8 - share;
        cut(leaf, place, along);
      }
    };
    dist::Checkpointer checkpoint(dir / "run", world, {.keep = 0});
    checkpoint.track("model", model);
    for (const auto& [dim, share] : {std::pair(0, 4), {0, 4}, {1, 4}, {1, 2}, {0, 6}}) {
      ++step;
      cut_all(dim, share);
      checkpoint.save(step);
    }
  });
  for (int step = 1; step <= 5; ++step) {
    nn::Linear loaded(8, 8);
    dist::load_full(dir / ("run/checkpoints/step-0000000" + std::to_string(step)), {}, loaded);
    for (const auto& [name, leaf] : loaded.named_parameters()) {
      CHECK(same(leaf.array(), (whole.get_parameter(name).detach() + step).array()));
    }
  }
}

TEST_CASE("a rank with another layout is named on all ranks before anything is written",
          "[agreement]") {
  for (const bool full : {false, true}) {
    CAPTURE(full);
    const auto units = errors_of_save(3, full, [](nn::Module& model, dist::Communicator& world) {
      dist::FSDPOptions options;
      if (world.rank() < 2) options.unit = dist::each<nn::Linear>();
      dist::fully_shard(model, world, options);
    });
    for (const std::string& error : units) {
      CHECK_THAT(error,
                 ContainsSubstring("checkpoint: ranks hold different parts: rank 0 has fc1.weight "
                                   "float32 40@0 of 13,7 on rank 0, rank 2 has fc1.weight "
                                   "float32 91@0 of 13,7 on rank 0; build the same module"));
    }
    const auto whole = errors_of_save(3, full, [](nn::Module& model, dist::Communicator& world) {
      const dist::Communicator two = world.split(world.rank() < 2 ? 0 : -1, world.rank());
      if (two.defined()) dist::fully_shard(model, two);
    });
    for (const std::string& error : whole) {
      CHECK_THAT(error, ContainsSubstring("ranks hold different parts: rank 0 has") &&
                            ContainsSubstring(", rank 2 has fc"));
    }
  }
}

TEST_CASE("a shard that somebody else cut is an error that names the rank", "[agreement]") {
  const auto errors = errors_of_save(2, true, [](nn::Module& model, dist::Communicator& world) {
    dist::fully_shard(model, world);
    if (world.rank() == 0) return;
    const Tensor leaf = model.parameters().back();
    Partition other = *partition(leaf);
    other.first = 0;
    set_part(leaf, Array::zeros({2}), std::make_shared<const Partition>(other));
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("'fc3.bias' holds 2@0 of 5, which is no shard") &&
                          ContainsSubstring("(rank 1)"));
  }
}

TEST_CASE("optimizers with other states are an error on all ranks, and nothing is left",
          "[agreement]") {
  const TempDir dir;
  const std::string run = dir / "run";
  const auto errors = errors_of(3, [&](dist::Communicator& world) {
    SmallMLP model;
    dist::fully_shard(model, world);
    const auto optimizer =
        make_method(world.rank() == 1 ? Method::sgd : Method::adamw, model.parameters());
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", *optimizer);
    checkpoint.save(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("checkpoint: ranks' optimizers differ: rank 0 has "
                                        "optimizer: group.0.lr float64 0.01, rank 1 has "
                                        "optimizer: group.0.lr float64 0.05") &&
                          ContainsSubstring("make the same optimizers"));
  }
  CHECK(std::filesystem::is_empty(run + "/checkpoints"));
}

TEST_CASE("a rank with another rate, or whose states are of fewer steps, is named when it is saved",
          "[agreement]") {
  for (const bool async : {false, true}) {
    for (const bool left_out : {false, true}) {
      CAPTURE(async, left_out);
      const TempDir dir;
      const std::string run = dir / "run";
      const auto errors = errors_of(3, [&](dist::Communicator& world) {
        SmallMLP model;
        dist::DDP(model, world);
        const bool odd = world.rank() == 1;
        optim::AdamW adamw(model.parameters(), {.lr = 0.5});
        for (const Tensor& p : model.parameters()) p.set_grad(Tensor(Array::ones(p.shape())));
        adamw.step();
        const optim::StateDict once = adamw.state_dict();
        adamw.step();  // in which ranks that differ are told so: see test_same_on_ranks.cpp
        if (odd && left_out) adamw.load_state_dict(once);
        if (odd && !left_out) adamw.set_lr(0.25);
        dist::Checkpointer checkpoint(run, world);
        checkpoint.track("model", model);
        checkpoint.track("adamw", adamw);
        checkpoint.save(1, {.async = async});
      });
      const std::string expected =
          left_out ? "rank 0 has adamw: 2 steps, rank 1 has adamw: 1 steps; "
                   : "rank 0 has adamw: group.0.lr float64 0.5, rank 1 has adamw: group.0.lr "
                     "float64 0.25; ";
      for (const std::string& error : errors) {
        CHECK_THAT(error, ContainsSubstring("checkpoint: ranks' optimizers differ: " + expected));
      }
      CHECK(std::filesystem::is_empty(run + "/checkpoints"));
    }
  }
}

TEST_CASE("ranks that call different functions of a checkpointer are told which", "[agreement]") {
  const TempDir dir;
  using Call = void (*)(dist::Checkpointer&);
  const std::map<std::string, Call> calls = {
      {"save a checkpoint", [](dist::Checkpointer& c) { c.save(1); }},
      {"load a checkpoint", [](dist::Checkpointer& c) { c.load(1); }},
      {"resume from a checkpoint", [](dist::Checkpointer& c) { c.resume(); }},
      {"checkpoint", [](dist::Checkpointer& c) { c.steps(); }}};
  int runs = 0;
  for (const auto& [some, call] : calls) {
    for (const auto& [other, odd_call] : calls) {
      if (some == other) continue;
      CAPTURE(some, other);
      const std::string run = dir / std::to_string(runs++);
      const auto errors = errors_of(3, [&](dist::Communicator& world) {
        SmallMLP model;
        dist::fully_shard(model, world);
        dist::Checkpointer checkpoint(run, world);
        checkpoint.track("model", model);
        checkpoint.save(1);
        (world.rank() == 1 ? odd_call : call)(checkpoint);
      });
      for (const std::string& error : errors) {
        CHECK_THAT(error, ContainsSubstring("ranks disagree on the unit: ranks 0, 2 say '" + some +
                                            "'; rank 1 says '" + other + "'"));
      }
    }
  }
}

TEST_CASE("each replica of a hybrid can save alone, and a part of one cannot", "[agreement]") {
  const TempDir dir;
  Whole expected, loaded;
  dist::run_ranks(6, [&](dist::Communicator& world) {
    const auto model = make_subject(Subject::odd);
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 3}});
    dist::fully_shard(*model, mesh, {.unit = units_of(Subject::odd)});
    const std::string run = dir / std::to_string(mesh.coordinate("replicate"));
    dist::Checkpointer checkpoint(run, mesh["shard"]);
    checkpoint.track("model", *model);
    checkpoint.save(1);
    CHECK_THROWS_WITH(dist::save_full(dir / "x.safetensors", mesh["replicate"], *model),
                      ContainsSubstring("checkpoint: no rank holds elements "));
  });
  for (const char* replica : {"0", "1"}) {
    const auto model = make_subject(Subject::odd);
    const nn::StateDict values = model->state_dict();
    nn::StateDict before;
    for (const auto& entry : values) before.push_back({entry.name, entry.array.clone()});
    for (const Tensor& p : model->parameters()) p.set_data(Array::zeros(p.shape()));
    const dist::Communicator alone;
    dist::load_full(dir / replica + std::string("/checkpoints/step-00000001"), alone, *model);
    CHECK(same_state(model->state_dict(), before));
  }
}

TEST_CASE("the pieces that every rank computes are what the ranks hold", "[agreement]") {
  for (const auto& [strategy, ranks] : {std::pair(ShardingStrategy::zero1, 3),
                                        {ShardingStrategy::zero3, 5},
                                        {ShardingStrategy::fsdp, 8},
                                        {ShardingStrategy::hybrid, 6},
                                        {ShardingStrategy::fsdp, 40}}) {
    CAPTURE(name(strategy), ranks);
    std::map<std::string, std::map<std::string, int>> held, computed;  // lowest rank of each range
    std::mutex mutex;
    dist::run_ranks(ranks, [&, r = strategy](dist::Communicator& world) {
      const auto model = make_subject(Subject::odd);
      climb(r, Subject::odd, *model, world);
      std::vector<dist::ShardedValue> values = dist::sharded_values(*model);
      dist::ExchangedPieces exchanged;
      dist::divide_work(world, values, "checkpoint", ValueUse::checkpoint, exchanged);
      const std::lock_guard<std::mutex> lock(mutex);
      for (const dist::ShardedValue& value : values) {
        if (value.range.count > 0) {
          const auto [at, fresh] =
              held[value.name()].emplace(dist::part_text(value.range), world.rank());
          if (!fresh) at->second = std::min(at->second, world.rank());
        }
        for (const dist::Piece& piece : value.pieces) {
          computed[value.name()][dist::part_text(piece.range)] = piece.rank;
        }
      }
    });
    CHECK(held.size() == 10);  // one parameter has no elements
    CHECK(held == computed);
  }
}

TEST_CASE("ranks that name different files or folders are told so before anything is written") {
  const TempDir dir;
  const auto refused = [&](const std::string& what, const auto& save) {
    for (const std::string& error : errors_of(3, [&](dist::Communicator& world) {
           SmallMLP model;
           dist::fully_shard(model, world);
           save(world, model, dir / (world.rank() == 1 ? "later" : "run"));
         })) {
      CHECK_THAT(error, ContainsSubstring(what));
      CHECK_THAT(error, ContainsSubstring("run"));
      CHECK_THAT(error, ContainsSubstring("(ranks 0, 2)"));
      CHECK_THAT(error, ContainsSubstring("later"));
      CHECK_THAT(error, ContainsSubstring("(rank 1)"));
    }
    CHECK(std::filesystem::is_empty(dir / ""));
  };
  for (const char* ending : {"", ".safetensors"}) {
    refused("save_full: ranks ask for different files",
            [&](dist::Communicator& world, nn::Module& model, const std::string& path) {
              dist::save_full(path + ending, world, model);
            });
  }
  refused("save_full: ranks ask for different files",
          [&](dist::Communicator& world, nn::Module& model, const std::string& path) {
            dist::save_full(path + (world.rank() == 1 ? ".safetensors" : ""), world, model);
          });
  const auto with_checkpoint = [&](const auto& act) {
    refused("checkpoint: ranks name different folders of a run: ",
            [&](dist::Communicator& world, nn::Module& model, const std::string& run) {
              dist::Checkpointer checkpoint(run, world);
              checkpoint.track("model", model);
              act(checkpoint);
            });
  };
  with_checkpoint([](dist::Checkpointer& checkpoint) { checkpoint.save(1); });
  with_checkpoint([](dist::Checkpointer& checkpoint) { checkpoint.save(1, {.async = true}); });
  with_checkpoint([](dist::Checkpointer& checkpoint) { checkpoint.resume(); });
  with_checkpoint([](dist::Checkpointer& checkpoint) { checkpoint.load(1); });
}
