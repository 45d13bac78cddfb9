// Checkpoints whose files a thread writes while the program goes on.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/fork.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/linear.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/optim.h>

using Catch::Matchers::ContainsSubstring;
using hero::MemoryTag, hero::Tensor;
using hero::core::Array, hero::core::NamedArray;
using hero::nn::Checkpointer, hero::nn::Resume;
using hero::test::error_of, hero::test::hash;
using hero_test::run_forked, hero_test::slurp, hero_test::SmallDisk, hero_test::TempDir;
namespace fs = std::filesystem;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr nn::SaveOptions kAsync{.async = true};

// A run whose states take some time to write.
struct LongRun {
  nn::Linear model;
  optim::AdamW adamw{model.parameters(), {.lr = 0.1}};
  hero::Generator order{7};
  int64_t epoch = 0;
  double best = 1.0;
  std::unique_ptr<Checkpointer> checkpoint;

  explicit LongRun(const std::string& folder, int64_t width = 64, int keep = 2)
      : model(width, width),
        checkpoint(std::make_unique<Checkpointer>(folder, nn::CheckpointerOptions{.keep = keep})) {
    checkpoint->track("model", model);
    checkpoint->track("optimizer", adamw);
    checkpoint->track("order", order);
    checkpoint->track("epoch", epoch);
    checkpoint->track("best", best);
  }
  void step() {
    adamw.zero_grad();
    const Tensor loss = square(model(hero::randn({2, model.weight.size(1)}))).mean();
    loss.backward();
    adamw.step();
    order.next();
    ++epoch;
    best *= 0.5;
  }
  uint64_t bits() const {
    uint64_t all = order.state().offset + static_cast<uint64_t>(epoch) * 1001 +
                   hero::default_generator().state().offset * 31 +
                   static_cast<uint64_t>(best * 1e15);
    for (const auto& [name, array] : adamw.state_dict()) all = all * 31 + hash(array);
    for (const auto& [name, array] : model.state_dict()) all = all * 31 + hash(array);
    return all;
  }
  int64_t bytes() const {
    int64_t all = 0;
    for (const auto& [name, array] : adamw.state_dict()) all += array.nbytes();
    for (const auto& [name, array] : model.state_dict()) all += array.nbytes();
    return all;
  }
};

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = slurp(entry.path().string());
  }
  return files;
}

int64_t entries(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

}  // namespace

TEST_CASE("a save in the background writes the bytes of a save", "[async][threads]") {
  const TempDir dir;
  hero::manual_seed(3);
  LongRun run(dir / "at once");
  Checkpointer other(dir / "later", {.keep = 2});
  other.track("model", run.model);
  other.track("optimizer", run.adamw);
  other.track("order", run.order);
  other.track("epoch", run.epoch);
  other.track("best", run.best);
  run.step();
  run.checkpoint->save(1);
  other.save(1, kAsync);
  other.wait();
  CHECK(other.steps() == std::vector<int64_t>{1});
  CHECK(files_of(other.folder(1)) == files_of(run.checkpoint->folder(1)));
  CHECK(files_of(other.folder(1)).size() == 4);
}

TEST_CASE("training goes on while a checkpoint of the bits before is written", "[async][threads]") {
  const TempDir dir;
  hero::manual_seed(3);
  LongRun run(dir / "run", 512, 0);
  std::vector<uint64_t> bits = {0};
  for (int64_t step = 1; step <= 6; ++step) {
    run.step();
    bits.push_back(run.bits());
    run.checkpoint->save(step, kAsync);
  }
  for (int i = 0; i < 3; ++i) run.step();
  const uint64_t last = run.bits();
  run.checkpoint->wait();
  CHECK(run.bits() == last);
  run.checkpoint.reset();
  LongRun again(dir / "run", 512, 0);
  for (int64_t step = 1; step <= 6; ++step) {
    again.checkpoint->load(step);
    CHECK(again.bits() == bits[static_cast<size_t>(step)]);
  }
  for (int i = 0; i < 3; ++i) again.step();
  CHECK(again.bits() == last);
}

TEST_CASE("a save waits for the one before and prunes after its rename", "[async][threads]") {
  const TempDir dir;
  LongRun run(dir / "run");
  for (int64_t step = 1; step <= 5; ++step) {
    run.checkpoint->save(step, kAsync);
    // whatever is under way, those that are complete are complete
    const auto steps = Checkpointer(dir / "run").steps();
    CHECK(steps.size() <= 3);
    CHECK(std::all_of(steps.begin(), steps.end(), [&](int64_t s) { return s >= step - 3; }));
  }
  CHECK(run.checkpoint->steps() == std::vector<int64_t>{4, 5});
  run.checkpoint->save(5, kAsync);  // in place of the one of that step
  CHECK(run.checkpoint->resume() == 5);
  CHECK(run.checkpoint->steps() == std::vector<int64_t>{4, 5});
}

TEST_CASE("a save in the background takes the states' bytes once more while it lasts",
          "[async][threads]") {
  const TempDir dir;
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  LongRun run(dir / "run", 256);
  run.step();
  const int64_t before = ledger.live(), bytes = run.bytes();
  for (int64_t step = 1; step <= 3; ++step) {
    ledger.reset_peak();
    run.checkpoint->save(step, kAsync);
    run.checkpoint->wait();
    CHECK(ledger.peak(MemoryTag::other) == bytes);
    CHECK(ledger.peak() == before + bytes);
    CHECK(ledger.live() == before);
  }
}

TEST_CASE("copies are taken only of what others can change", "[async]") {
  const Array shared = Array::ones({4, 4});
  std::vector<NamedArray> arrays = {
      {"mine", Array::ones({3})}, {"shared", shared}, {"part", Array::ones({6}).slice(0, 2, 4)}};
  const std::byte* const mine = arrays[0].array.bytes();
  nn::take_copies(arrays);
  CHECK(arrays[0].array.bytes() == mine);
  CHECK(arrays[1].array.bytes() != shared.bytes());
  CHECK(arrays[2].array.storage().bytes() == 8);
  arrays = {{"meta", Array::empty({2}, hero::kFloat32, hero::kMeta)}};
  CHECK_THROWS_WITH(nn::take_copies(arrays), ContainsSubstring("'meta' is on meta"));
}

TEST_CASE("what goes wrong in the background is the error of the next call", "[async][threads]") {
  const TempDir dir;
  LongRun run(dir / "run");
  run.checkpoint->save(10);
  const uint64_t saved = run.bits();
  run.step();
  const auto fail_at = [&](int64_t step) {
    const SmallDisk disk(4000);
    run.checkpoint->save(step, kAsync);
    (void)run.checkpoint->steps();  // has ended, while the disk is small
  };
  const auto told = [](const std::string& error) {
    return error.starts_with("checkpoint: saving step 20 in the background: write: ") &&
           error.find("File too large") != error.npos;
  };
  fail_at(20);
  CHECK(told(error_of([&] { run.checkpoint->wait(); })));
  run.checkpoint->wait();  // it is told once
  fail_at(20);
  CHECK(told(error_of([&] { run.checkpoint->save(30); })));
  CHECK(run.checkpoint->steps() == std::vector<int64_t>{10});
  fail_at(20);
  CHECK(told(error_of([&] { run.checkpoint->resume(); })));
  fail_at(20);
  CHECK(told(error_of([&] { run.checkpoint->load(10); })));
  run.checkpoint->load(10);
  CHECK(run.bits() == saved);
  CHECK(entries(dir / "run/checkpoints") == 1);  // nothing is left of the others
  run.checkpoint->save(30, kAsync);
  run.checkpoint->wait();
  CHECK(run.checkpoint->steps() == std::vector<int64_t>{10, 30});
  {
    const SmallDisk disk(4000);
    LongRun first(dir / "other");  // ends before the disk is large again
    first.checkpoint->save(1, kAsync);
  }  // said on stderr
  CHECK(Checkpointer(dir / "other").steps().empty());
}

TEST_CASE("a place that cannot be written to is named and spares the checkpoint before",
          "[async]") {
  const TempDir dir;
  LongRun run(dir / "run");
  run.checkpoint->save(1);
  // takes the name of the model's file while the states are copied
  run.checkpoint->track(
      "obstacle",
      [&] {
        fs::create_directory(dir / "run/checkpoints/step-00000002.tmp/model.safetensors");
        return Checkpointer::StateDict();
      },
      [](const auto&) {});
  run.checkpoint->save(2, kAsync);
  CHECK_THROWS_WITH(run.checkpoint->wait(),
                    ContainsSubstring("saving step 2 in the background") &&
                        ContainsSubstring("model.safetensors: is a directory"));
  CHECK(run.checkpoint->steps() == std::vector<int64_t>{1});

  // what already fails before the thread begins is save()'s own error
  LongRun other(dir / "other");
  fs::create_directories(dir / "other");
  hero_test::spill(dir / "other/checkpoints", "");
  CHECK_THROWS_WITH(other.checkpoint->save(1, kAsync), ContainsSubstring("checkpoints"));
  other.checkpoint->wait();
}

TEST_CASE("objects that give no state leave nothing under way", "[async]") {
  const TempDir dir;
  Checkpointer checkpoint(dir / "run");
  checkpoint.track(
      "bad", []() -> Checkpointer::StateDict { throw hero::Error("bad: no state today"); },
      [](const auto&) {});
  CHECK_THROWS_WITH(checkpoint.save(1, kAsync), ContainsSubstring("no state today"));
  checkpoint.wait();
  CHECK(checkpoint.steps().empty());
  CHECK(entries(dir / "run/checkpoints") == 0);
}

TEST_CASE("a program that ends while it saves ends the save first", "[async]") {
  const TempDir dir;
  const std::string run = dir / "run";
  // by exit(), with a checkpointer that nobody destroys
  REQUIRE(run_forked([&] {
            auto* const left = new LongRun(run, 512);
            left->step();
            left->checkpoint->save(1, kAsync);
          }) == 0);
  LongRun again(run, 512);
  REQUIRE(again.checkpoint->resume() == 1);
  CHECK(again.epoch == 1);
  // by an exception
  const auto thrown = [&] {
    LongRun goes(dir / "thrown", 512);
    goes.checkpoint->save(1, kAsync);
    hero::fail("the loss is NaN");
  };
  CHECK_THROWS_WITH(thrown(), "the loss is NaN");
  CHECK(LongRun(dir / "thrown", 512).checkpoint->resume() == 1);
}

TEST_CASE("a forked child has no part in its parent's save", "[async]") {
  const TempDir dir;
  LongRun run(dir / "run", 512);
  run.step();
  run.checkpoint->save(1, kAsync);
  CHECK(run_forked([&] { run.checkpoint->wait(); }) == 0);
  CHECK(run_forked([&] { run.checkpoint.reset(); }) == 0);
  CHECK(run_forked([] {}) == 0);
  run.checkpoint->wait();
  const uint64_t bits = run.bits();
  CHECK(run.checkpoint->resume() == 1);
  CHECK(run.bits() == bits);
}
