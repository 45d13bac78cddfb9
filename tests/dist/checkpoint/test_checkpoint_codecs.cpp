// Checkpoints whose arrays are kept in codecs where asked: what comes back, on any number of ranks
// and any strategy, what it takes, and what is refused.
#include <filesystem>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/functions/codec.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using core::Codec;
using hero_test::slurp, hero_test::TempDir;
namespace fs = std::filesystem;

namespace {

// 2257, 61, 1403 and 23 elements.
struct Wide : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 37, 61);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 61, 23);
  Tensor forward(const Tensor& x) override { return fc2(tanh(fc1(x))); }
};

const core::Encoding kStates = {
    .named = {{"exp_avg", Codec::int8}, {"exp_avg_sq", Codec::fp8_e5m2}}};

struct Training {
  const dist::Communicator& world;
  Wide model = made();
  std::unique_ptr<optim::AdamW> adamw = nullptr;

  Training(const dist::Communicator& of, ShardingStrategy strategy) : world(of) {
    climb(strategy, Subject::mlp, model, world);
    adamw = std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.01});
  }
  static Wide made() {
    manual_seed(5);
    return {};
  }
  double step(int number) {
    const auto seed = static_cast<uint64_t>(100 * number + world.rank());
    const Tensor loss = mean(square(model(Tensor(noise({4, 37}, kFloat32, seed)))));
    loss.backward();
    adamw->step();
    adamw->zero_grad();
    return loss.item();
  }
  dist::Checkpointer checkpointer(const std::string& run) {
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", *adamw);
    return checkpoint;
  }
};

// The part of an array that a rank saves, after its way through the codec.
Array through(Codec codec, const Array& part) {
  const int64_t n = part.numel(), bytes = core::encoded_bytes(codec, n);
  if (bytes >= part.nbytes()) return part;
  const Array codes = Array::empty({1, bytes}, kUInt8), back = Array::empty({n});
  core::encode(codec, part.reshape({n}), n, codes);
  core::decode(codec, codes, n, back);
  return back;
}

// Parameters, and states as the codecs leave them.
void add_encoded_state(Whole& whole, Training& training) {
  const auto parameters = training.adamw->parameters();
  const auto part = [](const Tensor& leaf) {
    const Partition* place = partition(leaf);
    return place != nullptr ? place->first : 0;
  };
  for (const auto& [name, leaf] : training.model.named_parameters()) {
    whole.add(name, whole_shape(leaf).numel(), part(leaf), leaf.array());
  }
  for (const auto& entry : training.adamw->state_dict()) {
    if (entry.name.rfind("state.", 0) != 0 || entry.name.ends_with(".step")) continue;
    const Tensor& leaf = parameters.at(static_cast<size_t>(entry.name[6] - '0'));
    const Codec codec = entry.name.ends_with("_sq") ? Codec::fp8_e5m2 : Codec::int8;
    whole.add(entry.name, whole_shape(leaf).numel(), part(leaf), through(codec, entry.array));
  }
}

int64_t bytes_of(const std::string& folder, const std::string& object) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(object, 0) == 0) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

}  // namespace

TEST_CASE("checkpoint: states in codecs are loaded on any number of ranks and any strategy") {
  const TempDir dir;
  const std::string run = dir / "run", exact = dir / "exact";
  Whole expected;
  dist::run_ranks(3, [&](dist::Communicator& world) {
    Training training(world, ShardingStrategy::fsdp);
    for (int i = 0; i < 4; ++i) training.step(i);
    training.checkpointer(exact).save(4);
    dist::Checkpointer checkpoint = training.checkpointer(run);
    // [snippet: encode]
    checkpoint.encode("optimizer",
                      {.named = {{"exp_avg", Codec::int8}, {"exp_avg_sq", Codec::fp8_e5m2}}});
    checkpoint.save(4);
    // [end]
    add_encoded_state(expected, training);
  });
  REQUIRE(expected.size() == 12);
  const std::string folder = "/checkpoints/step-00000004";
  CHECK(bytes_of(run + folder, "model") == bytes_of(exact + folder, "model"));
  // 29952 bytes of states become 7.7 thousand, and three files' metadata 2.4 thousand more
  CHECK(bytes_of(run + folder, "optimizer") < bytes_of(exact + folder, "optimizer") - 19000);
  for (const auto& [strategy, ranks] :
       std::vector<std::pair<ShardingStrategy, int>>{{ShardingStrategy::fsdp, 3},
                                                     {ShardingStrategy::fsdp, 2},
                                                     {ShardingStrategy::ddp, 2},
                                                     {ShardingStrategy::zero1, 4},
                                                     {ShardingStrategy::zero3, 5},
                                                     {ShardingStrategy::hybrid, 4}}) {
    CAPTURE(name(strategy), ranks);
    Whole loaded;
    dist::run_ranks(ranks, [&, on = strategy](dist::Communicator& world) {
      Training training(world, on);
      training.step(9);                                               // states that must go
      expect(training.checkpointer(run).resume() == 4, "of step 4");  // without an Encoding
      add_state(loaded, training.model, *training.adamw);
    });
    CHECK(expected.difference(loaded) == "");
  }
}

TEST_CASE(
    "checkpoint: training goes on from states in codecs, and the one that saved is as it was") {
  const TempDir dir;
  std::vector<double> plain, saved, resumed;
  const auto train = [&](const std::string& run, bool encodes, int from, int to,
                         std::vector<double>& losses) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      Training training(world, ShardingStrategy::fsdp);
      dist::Checkpointer checkpoint = training.checkpointer(run);
      if (encodes) checkpoint.encode("optimizer", kStates);
      if (from > 0) checkpoint.resume();
      for (int i = from; i < to; ++i) {
        const double loss = training.step(i);
        if (world.rank() == 0) losses.push_back(loss);
        if (i + 1 == 10 && from == 0) checkpoint.save(10, {.async = encodes});
      }
      checkpoint.wait();
    });
  };
  train(dir / "plain", false, 0, 20, plain);
  train(dir / "encoded", true, 0, 20, saved);
  train(dir / "encoded", false, 10, 20, resumed);
  CHECK(saved == plain);
  REQUIRE(resumed.size() == 10);
  CHECK(resumed[0] == plain[10]);  // of parameters, which were kept as they are
  CHECK(resumed[9] != plain[19]);
  CHECK(resumed[9] < 0.5 * plain[0]);
  CHECK(resumed[9] == Approx(plain[19]).epsilon(0.05));  // momenta of 8 bits, for ten steps
}

TEST_CASE("checkpoint: what cannot be kept in a codec is one line, on every rank") {
  const TempDir dir;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    Training training(world, ShardingStrategy::ddp);
    int64_t epoch = 0;
    dist::Checkpointer checkpoint = training.checkpointer(dir / "run");
    checkpoint.track("epoch", epoch);
    CHECK_THROWS_WITH(checkpoint.encode("adam", kStates),
                      "checkpoint: encode: no module or optimizer 'adam' is tracked; track it "
                      "before");
    CHECK_THROWS_WITH(checkpoint.encode("epoch", kStates),
                      ContainsSubstring("no module or optimizer 'epoch'"));
    CHECK_THROWS_WITH(checkpoint.encode("model", {.all = Codec::sign1}),
                      ContainsSubstring("checkpoint: sign1 keeps signs alone"));
    if (world.rank() == 1) checkpoint.encode("model", {.all = Codec::int8});
    CHECK_THROWS_WITH(checkpoint.save(1), ContainsSubstring("ranks track different things") &&
                                              ContainsSubstring("rank 0 has model (module), rank 1 "
                                                                "has model (module, int8); track"));
    CHECK(checkpoint.steps().empty());
  });
}

TEST_CASE("checkpoint: the files of a module in a codec, and whole modules from them") {
  const TempDir dir;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    Training training(world, ShardingStrategy::zero3);
    dist::Checkpointer checkpoint = training.checkpointer(dir / "run");
    checkpoint.encode("model", {.all = Codec::int8});
    checkpoint.save(1);
  });
  Whole expected, got;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    Training training(world, ShardingStrategy::zero3);
    for (const auto& [name, leaf] : training.model.named_parameters()) {
      expected.add(name, whole_shape(leaf).numel(), partition(leaf)->first,
                   through(Codec::int8, leaf.array()));
    }
  });
  dist::run_ranks(3, [&](dist::Communicator& world) {
    Training training(world, ShardingStrategy::ddp);
    dist::load_full(dir / "run/checkpoints/step-00000001", world, training.model);
    for (const auto& [name, leaf] : training.model.named_parameters()) {
      got.add(name, leaf.numel(), 0, leaf.array());
    }
  });
  CHECK(expected.difference(got) == "");
}
