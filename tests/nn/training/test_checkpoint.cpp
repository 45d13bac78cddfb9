#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/functions/codec.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/optim.h>

using Catch::Matchers::ContainsSubstring;
using hero::Tensor;
using hero::nn::Checkpointer, hero::nn::Resume;
using hero::test::error_of, hero::test::hash;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;
using StateDict = Checkpointer::StateDict;
namespace fs = std::filesystem;
namespace optim = hero::optim;

namespace {

// Two parameters under names, as a module has them.
struct Weights {
  Tensor w = hero::randn({3, 4}).requires_grad_();
  Tensor b = hero::randn({4}).requires_grad_();

  StateDict state_dict() const { return {{"w", w.array()}, {"b", b.array()}}; }
  void load_state_dict(const StateDict& dict) {
    hero::check(dict.size() == 2 && dict[0].array.shape() == w.shape() &&
                    dict[1].array.shape() == b.shape(),
                "weights: load_state_dict: does not fit");
    const hero::NoGrad no_grad;
    w.copy_(Tensor(dict[0].array));
    b.copy_(Tensor(dict[1].array));
  }
};

// A run with all that a run has.
struct Run {
  Weights model;
  optim::Adam adam{{model.w, model.b}, {.lr = 0.1}};
  optim::Schedule schedule{adam, optim::ExponentialLR{.gamma = 0.9}};
  hero::Generator order{7};
  int64_t epoch = 0;
  double best = std::numeric_limits<double>::infinity();
  Checkpointer checkpoint;

  explicit Run(const std::string& folder, int keep = 0) : checkpoint(folder, {.keep = keep}) {
    checkpoint.track("model", model);
    checkpoint.track("optimizer", adam);
    checkpoint.track("schedule", schedule);
    checkpoint.track("order", order);
    checkpoint.track("epoch", epoch);
    checkpoint.track("best", best);
  }
  void step() {
    adam.zero_grad();
    const Tensor x = hero::randn({5, 3});
    const Tensor loss = square(matmul(x, model.w) + model.b).mean();
    loss.backward();
    adam.step();
    schedule.step();
    order.next();
    ++epoch;
    best = std::min(best, loss.item());
  }
  uint64_t bits() const {
    return hash(model.w.array()) * 31 + hash(model.b.array()) * 17 + order.state().offset +
           static_cast<uint64_t>(epoch) * 1001 + static_cast<uint64_t>(best * 1e9);
  }
};

void flip_byte(const std::string& file, size_t at) {
  std::string bytes = slurp(file);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x10);
  spill(file, bytes);
}

}  // namespace

TEST_CASE("checkpoint: an object's arrays are kept in a codec where that is asked for") {
  const TempDir dir;
  hero::manual_seed(3);
  Tensor w = hero::randn({40, 50});
  double best = 2.0;
  Checkpointer checkpoint(dir / "run");
  checkpoint.track(
      "model",
      [&] {
        return StateDict{{"w", w.array()}};
      },
      [&](const StateDict& dict) { w = Tensor(dict.at(0).array); });
  checkpoint.track("best", best);
  CHECK_THROWS_WITH(checkpoint.encode("best", {.all = hero::core::Codec::int8}),
                    "checkpoint: encode: no object 'best' is tracked; track it before");
  checkpoint.encode("model", {.all = hero::core::Codec::int8});
  const Tensor before = w;
  checkpoint.save(1);
  checkpoint.save(2, {.async = true});
  checkpoint.wait();
  CHECK(hash(w.array()) == hash(before.array()));
  CHECK(slurp(dir / "run/checkpoints/step-00000001/model.safetensors") ==
        slurp(dir / "run/checkpoints/step-00000002/model.safetensors"));
  CHECK(fs::file_size(dir / "run/checkpoints/step-00000002/model.safetensors") < 2400);
  w = hero::zeros({40, 50});
  checkpoint.resume();
  CHECK(hash(w.array()) != hash(before.array()));
  // half of a step of the block's largest magnitude over 127
  CHECK(amax(abs(w - before)).item() <= amax(abs(before)).item() / 127.0 * 0.5000001);
}

TEST_CASE("a run that resumes goes on bit for bit") {
  const TempDir dir;
  hero::manual_seed(5);
  Run whole(dir / "run");
  for (int step = 1; step <= 8; ++step) {
    whole.step();
    if (step % 3 == 0) whole.checkpoint.save(step);
  }
  hero::manual_seed(99);
  Run again(dir / "run");
  REQUIRE(again.checkpoint.steps() == std::vector<int64_t>{3, 6});
  REQUIRE(again.checkpoint.resume() == 6);
  CHECK(again.epoch == 6);
  for (int step = 7; step <= 8; ++step) again.step();
  CHECK(again.bits() == whole.bits());
  again.checkpoint.load(3);
  for (int step = 4; step <= 8; ++step) again.step();
  CHECK(again.bits() == whole.bits());
}

TEST_CASE("a checkpoint is a folder of plain files") {
  const TempDir dir;
  Run run(dir / "run");
  run.step();
  run.checkpoint.save(500);
  const std::string folder = dir / "run/checkpoints/step-00000500";
  CHECK(run.checkpoint.folder(500) == folder);
  const auto model = hero::core::load_safetensors(folder + "/model.safetensors");
  CHECK(hash(model.at("w")) == hash(run.model.w.array()));
  CHECK(model.metadata.at("format") == "pt");
  CHECK(fs::exists(folder + "/optimizer.safetensors"));
  CHECK(fs::exists(folder + "/schedule.safetensors"));
  CHECK_THAT(slurp(folder + "/trainer_state.json"), ContainsSubstring("\"step\": 500"));
  CHECK_THAT(slurp(folder + "/COMPLETE"), ContainsSubstring("trainer_state.json"));
  CHECK(dir.entries() == 1);
}

TEST_CASE("numbers that JSON lacks come back") {
  const TempDir dir;
  Run run(dir / "run");
  run.checkpoint.save(0);  // best is infinite
  run.best = 1.0;
  REQUIRE(run.checkpoint.resume() == 0);
  CHECK(run.best == std::numeric_limits<double>::infinity());
  run.best = std::numeric_limits<double>::quiet_NaN();
  run.checkpoint.save(0);
  run.best = 1.0;
  run.checkpoint.load(0);
  CHECK(std::isnan(run.best));
}

TEST_CASE("old checkpoints go when the new one is complete, and abandoned ones with them") {
  const TempDir dir;
  Run run(dir / "run", 2);
  for (int64_t step : {10, 20, 30, 40}) run.checkpoint.save(step);
  CHECK(run.checkpoint.steps() == std::vector<int64_t>{30, 40});
  run.checkpoint.load(30);
  run.checkpoint.save(35);
  CHECK(run.checkpoint.steps() == std::vector<int64_t>{30, 35});
  CHECK(dir.entries() == 1);
}

TEST_CASE("a checkpoint of the same step is replaced, also after being killed in between") {
  const TempDir dir;
  Run run(dir / "run", 1);
  run.checkpoint.save(10);
  run.epoch = 77;
  run.checkpoint.save(10);
  run.epoch = 0;
  REQUIRE(run.checkpoint.resume() == 10);
  CHECK(run.epoch == 77);
  const std::string folder = run.checkpoint.folder(10);
  fs::rename(folder, folder + ".old");  // killed before the new one had its name
  Run other(dir / "run", 1);
  REQUIRE(other.checkpoint.resume() == 10);
  CHECK(other.epoch == 77);
}

TEST_CASE("what is incomplete is not a checkpoint, and goes with the next save") {
  const TempDir dir;
  Run run(dir / "run");
  run.checkpoint.save(10);
  const std::string root = dir / "run/checkpoints/";
  fs::copy(root + "step-00000010", root + "step-00000020");
  fs::remove(root + "step-00000020/COMPLETE");
  fs::copy(root + "step-00000010", root + "step-00000030.tmp");
  fs::create_directory(root + "step-40");  // not a name of ours
  spill(root + "notes.txt", "mine");
  Run other(dir / "run");
  REQUIRE(other.checkpoint.resume() == 10);
  other.checkpoint.save(50);
  CHECK(other.checkpoint.steps() == std::vector<int64_t>{10, 50});
  CHECK_FALSE(fs::exists(root + "step-00000030.tmp"));
  CHECK(fs::exists(root + "step-40"));
  CHECK(slurp(root + "notes.txt") == "mine");
}

TEST_CASE("a damaged checkpoint is named and passed over only when asked") {
  const TempDir dir;
  Run run(dir / "run");
  run.step();
  run.checkpoint.save(10);
  run.step();
  run.checkpoint.save(20);
  const std::string folder = run.checkpoint.folder(20);
  const std::string file =
      GENERATE("model.safetensors", "optimizer.safetensors", "trainer_state.json", "COMPLETE");
  const std::string path = folder + "/" + file;
  const std::string damage = GENERATE("flipped", "cut", "gone");
  if (file == "COMPLETE" && damage == "gone") return;  // then it is only incomplete
  if (damage == "flipped") flip_byte(path, slurp(path).size() - 2);
  if (damage == "cut") spill(path, slurp(path).substr(0, slurp(path).size() - 1));
  if (damage == "gone") fs::remove(path);
  INFO(file << " " << damage);
  Run other(dir / "run");
  const uint64_t before = other.bits();
  const std::string error = error_of([&] { other.checkpoint.resume(); });
  CHECK_THAT(error, ContainsSubstring(folder));
  CHECK_THAT(error, ContainsSubstring("damaged") || ContainsSubstring("missing"));
  CHECK_THAT(error, ContainsSubstring("newest_intact"));
  CHECK(other.bits() == before);
  CHECK_THROWS_WITH(other.checkpoint.load(20), ContainsSubstring(folder));
  CHECK(other.checkpoint.resume(Resume::newest_intact) == 10);
  CHECK(other.epoch == 1);
}

TEST_CASE("one error lists all that does not fit, and nothing has changed") {
  const TempDir dir;
  Run run(dir / "run");
  run.step();
  run.checkpoint.save(10);

  Run other(dir / "run");
  other.step();
  other.model.w = hero::randn({2, 2}).requires_grad_();
  const uint64_t before = other.bits();
  const uint64_t optimizer = hash(other.adam.state_dict().at(1).array);
  const std::string error = error_of([&] { other.checkpoint.resume(); });
  CHECK_THAT(error, ContainsSubstring("model: weights: load_state_dict: does not fit"));
  CHECK(other.bits() == before);
  CHECK(hash(other.adam.state_dict().at(1).array) == optimizer);
  CHECK(other.schedule.steps() == 1);

  Weights model;
  Weights second;
  optim::SGD sgd({model.w, model.b}, {.lr = 0.1});
  Checkpointer checkpoint(dir / "run");
  checkpoint.track("model", model);
  checkpoint.track("optimizer", sgd);
  checkpoint.track("schedule", second);
  double epoch = 3.0;
  checkpoint.track("epoch", epoch);
  CHECK_THROWS_WITH(checkpoint.resume(), ContainsSubstring("number epoch is missing") &&
                                             ContainsSubstring("integer epoch is not tracked") &&
                                             ContainsSubstring("number best is not tracked") &&
                                             ContainsSubstring("generator order is not tracked"));
  CHECK(epoch == 3.0);
  std::vector<double> many(20);
  for (size_t i = 0; i < many.size(); ++i) checkpoint.track("of_" + std::to_string(i), many[i]);
  // 21 numbers that are missing, one integer, one number and one generator that are not tracked
  CHECK_THROWS_WITH(checkpoint.resume(), ContainsSubstring(" .. and 16 more"));

  // both objects that do not fit are named; the model, which does, has its own values again
  Checkpointer objects(dir / "other");
  Weights saved;
  optim::Adam adam({saved.w, saved.b}, {.lr = 0.1});
  objects.track("model", saved);
  objects.track("a", adam);
  objects.track("b", adam);
  objects.save(1);
  Checkpointer wrong(dir / "other");
  wrong.track("model", model);
  wrong.track("a", sgd);
  wrong.track("b", second);
  const uint64_t values = hash(model.w.array());
  CHECK_THROWS_WITH(wrong.resume(), ContainsSubstring("a: sgd: load_state_dict") &&
                                        ContainsSubstring("b: weights: load_state_dict"));
  CHECK(hash(model.w.array()) == values);
}

TEST_CASE("a new run does not go into the folder of another by accident") {
  const TempDir dir;
  Run(dir / "run").checkpoint.save(10);
  Run other(dir / "run");
  CHECK_THROWS_WITH(other.checkpoint.resume(Resume::no), ContainsSubstring("the last of step 10"));
  CHECK_THROWS_WITH(other.checkpoint.save(1), ContainsSubstring("checkpoints of another run"));
  CHECK_THROWS_WITH(other.checkpoint.load(11), ContainsSubstring("no complete checkpoint"));
  CHECK(other.checkpoint.steps() == std::vector<int64_t>{10});
  Run fresh(dir / "fresh");
  CHECK_FALSE(fresh.checkpoint.resume(Resume::no).has_value());
  CHECK_FALSE(fresh.checkpoint.resume().has_value());
  CHECK_FALSE(fs::exists(dir / "fresh"));
}

TEST_CASE("checkpoints want names that can be files, once") {
  const TempDir dir;
  Run run(dir / "run");
  int64_t number = 0;
  CHECK_THROWS_WITH(run.checkpoint.track("a/b", number), ContainsSubstring("'a/b' is no name"));
  CHECK_THROWS_WITH(run.checkpoint.track("", number), ContainsSubstring("'' is no name"));
  CHECK_THROWS_WITH(run.checkpoint.track("model", number), ContainsSubstring("'model' is taken"));
  CHECK_THROWS_WITH(run.checkpoint.track("default", number), ContainsSubstring("is taken"));
  CHECK_THROWS_WITH(run.checkpoint.save(-1), ContainsSubstring("0 or more"));
  CHECK_THROWS_WITH(Checkpointer(dir / "run", {.keep = -1}), ContainsSubstring("keep"));
}

TEST_CASE("a save that fails leaves the checkpoints that were there") {
  const TempDir dir;
  Run run(dir / "run", 1);
  run.checkpoint.save(10);
  Checkpointer broken(dir / "run", {.keep = 1});
  Weights model;
  broken.track("model", model);
  broken.track(
      "bad", []() -> StateDict { throw hero::Error("bad: no state today"); },
      [](const StateDict&) {});
  const auto steps = run.checkpoint.steps();
  CHECK_THROWS_WITH(broken.load(10), ContainsSubstring("bad is missing"));
  CHECK_THROWS_WITH(broken.save(20), ContainsSubstring("another run"));
  Checkpointer second(dir / "run2", {.keep = 1});
  second.track(
      "bad", []() -> StateDict { throw hero::Error("bad: no state today"); },
      [](const StateDict&) {});
  CHECK_THROWS_WITH(second.save(20), ContainsSubstring("no state today"));
  CHECK(second.steps().empty());
  CHECK(run.checkpoint.steps() == steps);
}

TEST_CASE("averages in place of parameters are saved alone, and not as a checkpoint") {
  const TempDir dir;
  hero::nn::Sequential model{hero::nn::Linear(1, 1, {.bias = false})};
  Weights own;  // a model that is no module
  const Tensor w = model.get_parameter("0.weight");
  optim::EMA ema({w, own.w}, {.decay = 0.5});
  const auto set = [&](double value) {
    const hero::NoGrad no_grad;
    w.fill_(value);
    own.w.fill_(value);
    ema.step();
  };
  set(1.0);
  set(3.0);  // the average is 2
  optim::SGD sgd({w}, {.lr = 1.0});
  Checkpointer alone(dir / "alone"), both(dir / "both");
  alone.track("model", model);
  both.track("own", own);
  both.track("ema", ema);
  alone.save(1);
  both.save(1);
  const auto what = ContainsSubstring("is an average of optim::EMA now");
  {
    const optim::EMA::Scope averaged(ema);
    CHECK_THROWS_WITH(alone.save(2), ContainsSubstring("0.weight") && what);
    CHECK_THROWS_WITH(alone.save(2, {.async = true}), what);
    CHECK_THROWS_WITH(both.save(2), what);
    CHECK_THROWS_WITH(alone.load(1), what);
    CHECK_THROWS_WITH(model.load_state_dict({{"0.weight", hero::Array::zeros({1, 1})}}), what);
    w.set_grad(hero::ones({1, 1}));
    CHECK_THROWS_WITH(sgd.step(), ContainsSubstring("sgd: parameter 0 is an average"));
    model.save(dir / "average.safetensors");
    CHECK(w.item() == 2.0);
  }
  CHECK(alone.steps() == std::vector<int64_t>{1});
  CHECK(both.steps() == std::vector<int64_t>{1});
  CHECK(w.item() == 3.0);
  alone.save(2);
  alone.load(2);
  CHECK(w.item() == 3.0);
  sgd.step();
  CHECK(w.item() == 2.0);
  set(0.0);
  model.load(dir / "average.safetensors");
  CHECK(w.item() == 2.0);
}

TEST_CASE("parameters that look ahead have no state") {
  hero::nn::Linear layer(2, 1);
  optim::NesterovLookahead nesterov(layer.parameters(), {.lr = 0.1});
  const StateDict before = layer.state_dict();
  nesterov.lookahead();
  CHECK_THROWS_WITH(layer.state_dict(), ContainsSubstring("weight is where lookahead() has moved"));
  CHECK_THROWS_WITH(layer.load_state_dict(before), ContainsSubstring("call step() before"));
  layer(hero::ones({1, 2})).sum().backward();
  nesterov.step();
  layer.load_state_dict(layer.state_dict());
}
