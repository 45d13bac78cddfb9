// What a checkpoint of several ranks holds beside float32 parameters and elementwise states.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/nn/data/data.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

// A step of a bfloat16 model with float32 masters and a scaled loss; every micro-batch is the same,
// and its gradients are sums of few bits, so that their mean is exact on 2 and on 4 ranks.
struct HalfRun {
  nn::Sequential model{nn::Linear(5, 7), nn::Linear(7, 3)};
  std::unique_ptr<optim::MasterWeights<optim::AdamW>> adamw;
  optim::GradScaler scaler{{.init_scale = 1024.0, .growth_interval = 3}};
  dist::Checkpointer checkpoint;

  HalfRun(const dist::Communicator& world, const std::string& run, int seed)
      : checkpoint(run, world) {
    manual_seed(static_cast<uint64_t>(seed));
    model.reset_parameters();
    model.to(kBFloat16);
    dist::fully_shard(model, world);
    using Masters = optim::MasterWeights<optim::AdamW>;
    adamw = std::make_unique<Masters>(model.parameters(), optim::AdamWOptions{.lr = 0.01});
    checkpoint.track("model", model);
    checkpoint.track("optimizer", *adamw);
    checkpoint.track("scaler", scaler);
  }
  void step(int number) {
    const Tensor x =
        Tensor(noise({2, 5}, kFloat32, static_cast<uint64_t>(number) + 1).to(kBFloat16));
    scaler.scale(square(model(x)).mean()).backward();
    scaler.step(*adamw);
    scaler.update();
    adamw->zero_grad();
  }
  void add_to(Whole& whole) const {
    const auto named = model.named_parameters();
    const std::vector<Tensor> masters = adamw->parameters();
    for (size_t i = 0; i < named.size(); ++i) {
      const Partition* part = partition(named[i].second);
      whole.add(named[i].first, part->whole.numel(), part->first,
                named[i].second.array().to(kFloat32));
      whole.add("master." + named[i].first, part->whole.numel(), part->first, masters[i].array());
    }
    whole.add("scale", 1, 0, Array::full({1}, scaler.get_scale()));
  }
};

}  // namespace

TEST_CASE("bfloat16 parameters, their masters and a loss scale go on on twice as many ranks") {
  const TempDir dir;
  Whole saved, loaded, undisturbed, resumed;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    HalfRun run(world, dir / "run", 1);
    for (int i = 0; i < 4; ++i) run.step(i);
    run.checkpoint.save(4);
    run.add_to(saved);
    for (int i = 4; i < 7; ++i) run.step(i);
    run.add_to(undisturbed);
  });
  dist::run_ranks(4, [&](dist::Communicator& world) {
    HalfRun run(world, dir / "run", 2);
    expect(run.checkpoint.resume() == 4, "step 4");
    run.add_to(loaded);
    for (int i = 4; i < 7; ++i) run.step(i);
    run.add_to(resumed);
  });
  CHECK(saved.size() == 9);
  CHECK(saved.difference(loaded) == "");
  CHECK(undisturbed.difference(resumed) == "");
}

TEST_CASE("a state that is a number of a scalar float64 parameter is told from an array of it") {
  struct Scalars : nn::Module {
    Tensor& a = parameter("a", Shape{}, nn::init::ones(), kFloat64);
    Tensor& b = parameter("b", Shape{3}, nn::init::ones(), kFloat64);
    Tensor forward(const Tensor& x) override { return sum(x * a * b); }
  };
  const TempDir dir;
  const auto states = [&](int ranks, bool save) {
    double total = 0.0;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      Scalars model;
      dist::fully_shard(model, world);
      optim::NAdam nadam(model.parameters(), {.lr = 0.1});
      dist::Checkpointer checkpoint(dir / "run", world);
      checkpoint.track("model", model);
      checkpoint.track("optimizer", nadam);
      if (save) {
        model(Tensor(Array::ones({3}, kFloat64))).backward();
        nadam.step();
        checkpoint.save(1);
      } else {
        checkpoint.resume();
      }
      double mine = 0.0;
      for (const auto& [name, array] : nadam.state_dict()) {
        if (!name.starts_with("state.") || array.ndim() == 0) continue;
        for (const double value : array.to_vector<double>()) mine += value;
      }
      const Array all = Array::full({1}, mine, kFloat64);
      world.all_reduce(all);
      if (world.rank() == 0) total = all.item();
    });
    return total;
  };
  const double saved = states(1, true);
  CHECK(saved != 0.0);
  for (const int ranks : {2, 3, 5}) CHECK(states(ranks, false) == saved);
}

TEST_CASE("each rank's random numbers go on, and a rank that is new gets others") {
  const TempDir dir;
  const auto draws = [&](int ranks, bool own_seeds, const std::string& run, bool save) {
    std::vector<uint64_t> seeds(static_cast<size_t>(ranks)), offsets(seeds.size());
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto rank = static_cast<uint64_t>(world.rank());
      manual_seed(own_seeds ? 50 + rank : 50);
      Generator other(9);
      int64_t epoch = 4;
      double best = -std::numeric_limits<double>::infinity();
      dist::Checkpointer checkpoint(dir / run, world);
      checkpoint.track("other", other);
      checkpoint.track("epoch", epoch);
      checkpoint.track("best", best);
      if (save) {
        default_generator().next();
        checkpoint.save(1);
      } else {
        epoch = 0;
        best = 0.0;
        other.next();
        checkpoint.resume();
        expect(epoch == 4 && best < -1e300 && other.state() == Generator(9).state(), "restored");
      }
      seeds[rank] = default_generator().state().seed;
      offsets[rank] = default_generator().state().offset;
    });
    for (const uint64_t offset : offsets) CHECK(offset == 1);
    return seeds;
  };
  using Seeds = std::vector<uint64_t>;
  draws(2, true, "own", true);
  CHECK(draws(2, true, "own", false) == Seeds{50, 51});
  CHECK(draws(4, true, "own", false) == Seeds{50, 51, 52, 53});
  draws(2, false, "one", true);
  CHECK(draws(3, true, "one", false) == Seeds{50, 50, 50});
}

TEST_CASE("a loader goes on where it stood, and two modules with one optimizer each way") {
  const TempDir dir;
  const auto run = [&](int ranks, int64_t batches, bool resume) {
    std::vector<int64_t> seen;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      nn::Linear a(3, 4), b(4, 2);
      dist::fully_shard(a, world);
      dist::ZeRO(b, world, {.stage = 1});
      std::vector<Tensor> parameters = a.parameters();
      for (const Tensor& p : b.parameters()) parameters.push_back(p);
      optim::SGD sgd(parameters, {.lr = 0.1, .momentum = 0.9});
      const nn::data::TensorDataset data(
          {Tensor(Array::from(std::vector<float>(60, 1.0f), {20, 3})), arange(20)});
      nn::data::DataLoader loader(data, {.batch_size = 2, .shuffle = true, .seed = 5});
      dist::Checkpointer checkpoint(dir / "run", world);
      checkpoint.track("first", a);
      checkpoint.track("second", b);
      checkpoint.track("optimizer", sgd);
      checkpoint.track("loader", loader);
      if (resume) checkpoint.resume();
      int64_t step = 0;
      for (const auto& [x, y] : loader) {
        b(a(x)).sum().backward();
        sgd.step();
        sgd.zero_grad();
        if (world.rank() == 0) {
          for (const int64_t id : y.array().to_vector<int64_t>()) seen.push_back(id);
        }
        if (++step == batches) break;
      }
      if (!resume) checkpoint.save(step);
    });
    return seen;
  };
  std::vector<int64_t> all = run(2, 4, false);
  for (const int64_t id : run(3, 100, true)) all.push_back(id);
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(20);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int64_t>(i);
  CHECK(all == expected);
}

TEST_CASE("a loader with a seed for each rank goes on with it") {
  const TempDir dir;
  // Values of dropout's masks and of noisy examples, from batch `from` to batch `until`.
  const auto run = [&](const std::string& folder, int ranks, uint64_t seed, int from, int until) {
    std::vector<std::vector<float>> seen(static_cast<size_t>(ranks));
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      manual_seed(2);
      nn::Sequential model{nn::Linear(1, 6), nn::Dropout(0.5)};
      const dist::DDP ddp(model, world);
      const nn::data::MapDataset noisy(
          nn::data::TensorDataset({arange(24).to(kFloat32).unsqueeze(1)}),
          [](const nn::data::Example& one) { return nn::data::Example{one[0] + rand({1})}; });
      nn::data::DistributedSampler sampler(
          noisy, {.num_replicas = ranks, .rank = world.rank(), .turn = 2});
      nn::data::DataLoader loader(noisy, {.batch_size = 2,
                                          .seed = seed + static_cast<uint64_t>(world.rank()),
                                          .sampler = &sampler});
      dist::Checkpointer checkpoint(folder, world);
      checkpoint.track("model", model);
      checkpoint.track("loader", loader);
      if (from > 0) checkpoint.resume();
      int step = from;
      for (const nn::data::Example& batch : loader) {
        auto& mine = seen[static_cast<size_t>(world.rank())];
        for (const Tensor& values : {batch[0], model(batch[0])}) {
          for (const float value : values.to_vector<float>()) mine.push_back(value);
        }
        if (++step == until) break;
      }
      checkpoint.save(step);
    });
    return seen;
  };
  const auto whole = run(dir / "whole", 2, 7, 0, 5);
  auto parts = run(dir / "parts", 2, 7, 0, 3);
  const auto rest = run(dir / "parts", 2, 7, 3, 5);
  for (size_t rank = 0; rank < 2; ++rank) {
    parts[rank].insert(parts[rank].end(), rest[rank].begin(), rest[rank].end());
  }
  CHECK(parts == whole);
  CHECK(run(dir / "parts", 1, 7, 5, 6).size() ==
        1);  // rank 0's seed serves another number of ranks
  CHECK_THROWS_WITH(run(dir / "parts", 2, 8, 6, 7),
                    ContainsSubstring("a loader with seed 7, this one has 8"));
}

TEST_CASE("no rank holds more than one whole parameter to save a whole model") {
  const TempDir dir;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    nn::Sequential model{nn::Linear(256, 256), nn::Linear(256, 256), nn::Linear(256, 256),
                         nn::Linear(256, 256)};
    dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
    const int64_t before = current_ledger().live(DeviceType::cpu);
    current_ledger().reset_peak();
    dist::save_full(dir / "model.safetensors", world, model);
    const int64_t more = current_ledger().peak(DeviceType::cpu) - before;
    expect(more <= 256 * 256 * 4 + 4096, "one weight and a few places, got ", more);
  });
}

namespace {

// AdamW as it was before it had `maximize`.
struct OlderAdamW : optim::AdamW {
  using AdamW::AdamW;
  std::vector<Option> list_options(int group) const override {
    std::vector<Option> list = AdamW::list_options(group);
    std::erase_if(list, [](const Option& o) { return o.name == std::string("maximize"); });
    return list;
  }
};

}  // namespace

TEST_CASE("a checkpoint of an older version lacks an option, which takes its default") {
  const TempDir dir;
  std::vector<double> rates(2), flags(2), more(2);
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    nn::Linear model(3, 2);
    dist::fully_shard(model, world);
    OlderAdamW older(model.parameters(), {.lr = 0.25});
    dist::Checkpointer saving(dir / "run", world);
    saving.track("model", model);
    saving.track("optimizer", older);
    square(model(ones({4, 3}))).mean().backward();
    older.step();
    saving.save(1);
    optim::AdamW adamw(model.parameters(), {.lr = 0.5, .maximize = true});
    dist::Checkpointer loading(dir / "run", world);
    loading.track("model", model);
    loading.track("optimizer", adamw);
    loading.load(1);
    rates[rank] = adamw.lr();
    flags[rank] = adamw.option("maximize");
    more[rank] = static_cast<double>(adamw.state_dict().size() - older.state_dict().size());
  });
  CHECK(rates == std::vector<double>{0.25, 0.25});
  CHECK(flags == std::vector<double>{0, 0});
  CHECK(more == std::vector<double>{1, 1});
}
