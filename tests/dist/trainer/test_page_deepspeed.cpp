// The program of docs/coming_from.md, from DeepSpeed.
#include <fstream>
#include <optional>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/dist.h>
#include <hero/dist/trainer.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>

namespace {

using namespace hero;

constexpr const char* kConfig = R"({
  "train_batch_size": 8,
  "gradient_accumulation_steps": 1,
  "optimizer": {
    "type": "Adam",
    "params": {
      "lr": 0.00015
    }
  },
  "fp16": {
    "enabled": true
  },
  "zero_optimization": true
})";

// [snippet: program]
void train(dist::Communicator& world, const std::string& config_file) {
  nn::GPT model({.vocab_size = 256, .block_size = 32, .n_layer = 2, .n_head = 4, .n_embd = 64});
  dist::Trainer trainer(model, world, dist::Config::load(config_file));
  for (int step = 0; step < 10; ++step) {
    const Tensor data = randint(0, 256, {trainer.train_micro_batch_size_per_gpu(), 32});
    const Tensor loss = trainer.forward([&] { return model.loss(data, data); });
    trainer.backward(loss);
    trainer.step();
  }
}
// [end]

void train_and_report(dist::Communicator& world, dist::Trainer& trainer, nn::GPT& model,
                      const std::string& path) {
  std::optional<nn::Report> report;
  if (world.rank() == 0) report.emplace(path, nn::ReportOptions{.title = "GPT on ranks"});
  for (int step = 0; step < 3; ++step) {
    const Tensor data = randint(0, 256, {trainer.train_micro_batch_size_per_gpu(), 32});
    const Tensor loss = trainer.forward([&] { return model.loss(data, data); });
    trainer.backward(loss);
    trainer.step();
    if (report) report->write(step, {{"train/loss", loss.item()}, {"rate", trainer.lr()}});
  }
  if (report) report->finish();
}

TEST_CASE("the report page: rank 0 writes") {
  const hero_test::TempDir folder;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::GPT model({.vocab_size = 256, .block_size = 32, .n_layer = 1, .n_head = 2, .n_embd = 16});
    dist::Trainer trainer(model, world, dist::Config::parse(R"({"optimizer": {"type": "AdamW"}})"));
    train_and_report(world, trainer, model, folder / "run.html");
  });
  CHECK(hero_test::slurp(folder / "run.html").find(">finished</span>, step 2") !=
        std::string::npos);
}

TEST_CASE("the DeepSpeed page: the program of the slides on four ranks", "[threads]") {
  const hero_test::TempDir folder;
  std::ofstream(folder / "ds_config.json") << kConfig;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    train(world, folder / "ds_config.json");
    check(world.traffic().calls(dist::Collective::reduce_scatter) > 0, "gradients were divided");
  });
}

}  // namespace
