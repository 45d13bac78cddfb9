// Trainer::train_batch(), pipelines, the page that a Trainer writes, and what keys of a Config do.
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "dist/ranks.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/ledger.h>
#include <hero/dist/dist.h>
#include <hero/dist/plan.h>
#include <hero/dist/trainer.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr int kSteps = 3, kMicro = 4;

const nn::GPTConfig kPlanned = {.vocab_size = 24,
                                .block_size = 8,
                                .n_layer = 4,
                                .n_head = 2,
                                .n_embd = 16,
                                .tie_weights = false};

nn::GPT untied_model() {
  manual_seed(4);
  return nn::GPT(kPlanned);
}

// All micro-batches of a step of data rank `part`, a sequence each.
Tensor batch_of(int64_t step, int part) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 8 * kMicro; ++i) tokens.push_back((7 * step + 5 * part + i * i) % 24);
  return Tensor(Array::from(tokens, {kMicro, 8}));
}

const std::string kMethods = R"("gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}})";

Config config_of(const std::string& more) {
  return Config::parse("{" + kMethods + (more.empty() ? "" : ", " + more) + "}");
}

struct Ended {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  bool operator==(const Ended&) const = default;
};

// A run by train_batch(): rank 0's losses and the whole model at its end.
Ended by_batches(int ranks, const std::string& keys, const TrainerOptions& options = {}) {
  const Config config = config_of(keys);
  const hero_test::TempDir folder;
  const std::string file = folder / "model.safetensors";
  Ended ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, config, options);
    const int data = world.size() / config.tensor / config.pipe;
    const int part = world.rank() / config.tensor % data;
    for (int step = 0; step < kSteps; ++step) {
      const Tensor tokens = batch_of(step, part);
      const double loss = trainer.train_batch(tokens, tokens);
      if (world.rank() == 0) ended.losses.push_back(loss);
    }
    expect(trainer.global_steps() == kSteps && trainer.micro_steps() == kSteps * kMicro, "counts");
    expect(trainer.global_grad_norm() > 0.5, "a norm that was clipped");
    save_full(file, world, model);
  });
  nn::GPT whole = untied_model();
  whole.load(file);
  for (const auto& [name, values] : whole.state_dict()) {
    ended.values[name] = values.to_vector<float>();
  }
  return ended;
}

TEST_CASE("trainer: a batch at once is its micro-batches one after the other", "[threads]") {
  const Ended batches = by_batches(2, R"("zero_optimization": {"stage": 2})");
  Ended steps;
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, config_of(""));
    for (int step = 0; step < kSteps; ++step) {
      const Tensor tokens = batch_of(step, world.rank());
      double sum = 0.0;
      for (int64_t i = 0; i < kMicro; ++i) {
        const Tensor part = tokens.slice(0, i, i + 1);
        const Tensor loss = trainer.forward([&] { return model.loss(part, part); });
        sum += loss.item();
        trainer.backward(loss);
        trainer.step();
      }
      if (world.rank() == 0) steps.losses.push_back(sum / kMicro);
    }
    const nn::StateDict dict = trainer.full_state_dict();
    if (world.rank() > 0) return;
    for (const auto& [name, values] : dict) steps.values[name] = values.to_vector<float>();
  });
  CHECK(batches == steps);
  CHECK(batches.losses.front() != batches.losses.back());
}

TEST_CASE("trainer: a pipeline has the bits of the same run without stages", "[threads]") {
  const Ended whole = by_batches(2, "");
  const TrainerOptions blocks = {.unit = each<nn::Block>()};
  CHECK(by_batches(4, R"("pipe": 2)") == whole);
  CHECK(by_batches(4, R"("pipe": 2, "schedule": "zero_bubble", "zero_optimization": true)") ==
        whole);
  CHECK(by_batches(4, R"json("pipe": 2, "schedule": "interleaved(2)",
                         "zero_optimization": {"stage": 3, "reshard": false})json",
                   blocks) == whole);
  CHECK(by_batches(8, R"("pipe": 4, "checkpoint_blocks": true, "zero_optimization": {"stage": 3})",
                   blocks) == whole);
  const Ended slices = by_batches(4, R"("tensor": 2)");
  CHECK(by_batches(8, R"("pipe": 2, "tensor": 2, "zero_optimization": {"stage": 2})") == slices);
}

TEST_CASE("trainer: a pipeline in float16 scales, skips and goes on as one without stages",
          "[threads]") {
  const std::string half = R"("fp16": {"enabled": true, "initial_scale_power": 40,
                                       "hysteresis": 1})";
  for (const std::string& keys : {half, half + R"(, "pipe": 2)"}) {
    CAPTURE(keys);
    run_ranks(2, [&](Communicator& world) {
      nn::GPT model = untied_model();
      Trainer trainer(model, world, config_of(keys));
      const Tensor tokens = batch_of(0, 0);
      trainer.train_batch(tokens, tokens);
      expect(trainer.skipped_steps() == 1, "the first scale is too large");
      while (trainer.skipped_steps() == trainer.global_steps()) trainer.train_batch(tokens, tokens);
      expect(trainer.loss_scale() < 1e12 && trainer.global_steps() < 40, "a scale that fits");
    });
  }
}

TEST_CASE("trainer: a pipeline is trained by batches alone", "[threads]") {
  run_ranks(2, [](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, config_of(R"("pipe": 2)"));
    const auto line = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    const std::string forward = line([&] { trainer.forward([] { return Tensor(); }); });
    const std::string backward = line([&] { trainer.backward(ones({1})); });
    expect(forward.find("call train_batch()") != std::string::npos, forward);
    expect(backward.find("call train_batch()") != std::string::npos, backward);
  });
}

// What a run of one batch on four ranks sends and holds, on rank 0.
struct Cost {
  int64_t calls = 0, bytes = 0, activations = 0;
  std::map<std::string, int64_t> axes, calls_of;
};

Cost cost_of(const std::string& keys, const TrainerOptions& options = {}) {
  const Config config = config_of(keys);
  Cost cost;
  run_ranks(4, [&](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, config, options);
    const Tensor tokens = batch_of(0, 0);
    trainer.train_batch(tokens, tokens);
    world.traffic().reset();
    current_ledger().reset_peak();
    trainer.train_batch(tokens, tokens);
    if (world.rank() > 0) return;
    cost.calls = world.traffic().calls();
    cost.bytes = world.traffic().bytes();
    cost.activations = current_ledger().peak(MemoryTag::activation);
    for (const Traffic::Row& row : world.traffic().rows()) {
      cost.axes[row.axis] += row.bytes;
      cost.calls_of[name(row.op)] += row.calls;
    }
  });
  return cost;
}

TEST_CASE("trainer: keys change what a step sends and holds", "[threads]") {
  const TrainerOptions blocks = {.unit = each<nn::Block>()};
  const Cost ddp = cost_of(""), zero1 = cost_of(R"("zero_optimization": {"stage": 1})");
  CHECK(ddp.calls_of.contains("all_reduce"));
  CHECK(zero1.calls_of.contains("reduce_scatter"));
  const Cost small = cost_of(R"("zero_optimization": {"stage": 1, "reduce_bucket_size": 900})");
  CHECK(small.calls_of.at("reduce_scatter") > zero1.calls_of.at("reduce_scatter"));
  const Cost fsdp = cost_of(R"("zero_optimization": {"stage": 3})", blocks);
  const Cost kept = cost_of(R"("zero_optimization": {"stage": 3, "reshard": false})", blocks);
  CHECK(fsdp.calls_of.at("all_gather") > kept.calls_of.at("all_gather"));
  CHECK(fsdp.bytes > kept.bytes);
  const Cost hybrid = cost_of(R"("zero_optimization": {"stage": 3, "mics_shard_size": 2})", blocks);
  CHECK(hybrid.axes.contains("shard"));
  CHECK(hybrid.axes.contains("replicate"));
  CHECK(cost_of(R"("tensor": 2)").axes.contains("tensor"));
  CHECK(cost_of(R"("pipe": 2)").axes.contains("pipe"));
  CHECK(cost_of(R"("checkpoint_blocks": true)").activations < ddp.activations);
  CHECK(cost_of(R"("bf16": {"enabled": true})").activations != ddp.activations);
  // fewer backwards of more samples keep more, and reduce as often
  const std::string one = R"({"gradient_accumulation_steps": 1, "train_batch_size": 16,
                              "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})";
  run_ranks(4, [&](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, Config::parse(one));
    expect(trainer.train_micro_batch_size_per_gpu() == 4, "4 samples at a time");
    current_ledger().reset_peak();
    trainer.train_batch(batch_of(0, 0), batch_of(0, 0));
    const int64_t held = current_ledger().peak(MemoryTag::activation);
    expect(held > 2 * ddp.activations, held, " bytes, and ", ddp.activations, " one by one");
  });
}

TEST_CASE("trainer: overlap_comm gathers the next unit before this one computes", "[threads]") {
  const auto gathered_at_first_wait = [](const char* overlap) {
    const Config config = config_of(std::string(R"("zero_optimization": {"stage": 3,
                                                   "overlap_comm": )") +
                                    overlap + "}");
    int64_t most = 0;
    run_ranks(2, [&](Communicator& world) {
      nn::GPT model = untied_model();
      Trainer trainer(model, world, config, {.unit = each<nn::Block>()});
      const Tensor tokens = batch_of(0, world.rank());
      trainer.train_batch(tokens, tokens);  // the order of units is known from here on
      current_ledger().reset_peak();
      trainer.train_batch(tokens, tokens);
      if (world.rank() == 0) most = current_ledger().peak(MemoryTag::communication);
    });
    return most;
  };
  CHECK(gathered_at_first_wait("true") > gathered_at_first_wait("false"));
}

TEST_CASE("trainer: the page of a run has losses, rates, norms, traffic and the file's keys",
          "[threads]") {
  const hero_test::TempDir folder;
  const std::string page = folder / "run.html";
  const std::string keys = R"("zero_optimization": {"stage": 2}, "fp16": {"enabled": true},
                             "report": ")" +
                           page + "\"";
  double sent = 0.0;  // in the last step
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = untied_model();
    Trainer trainer(model, world, config_of(keys));
    for (int step = 0; step < kSteps; ++step) {
      if (step == 2) world.traffic().reset();
      trainer.train_batch(batch_of(step, world.rank()), batch_of(step, world.rank()));
      if (world.rank() == 0) sent = static_cast<double>(world.traffic().bytes_of_axis("data"));
      if (step == 0 && world.rank() == 0) {
        expect(hero_test::slurp(page).find(">running</span>") != std::string::npos, "it goes on");
      }
    }
  });
  const std::string text = hero_test::slurp(page);
  CHECK_THAT(text, ContainsSubstring(">finished</span>, step 3"));
  for (const char* title : {"loss", "rate", "norm of the gradients", "loss scale", "sent, MB",
                            "samples a second", "memory, MB"}) {
    CHECK_THAT(text, ContainsSubstring(std::string("<h2>") + title + "</h2>"));
  }
  char shown[64];
  std::snprintf(shown, sizeof shown, "</i>data <b>%.4g</b>", sent / 1e6);
  CHECK_THAT(text, ContainsSubstring(shown));
  CHECK_THAT(text, ContainsSubstring("<th>gradient_clipping</th><td>0.5</td>"));
  CHECK_THAT(text, ContainsSubstring("<th>backend</th><td>local</td>"));
}

std::vector<double> train(dist::Communicator& world, const std::string& config_file) {
  nn::GPT model(kPlanned);  // with tie_weights = false
  dist::Trainer trainer(model, world, dist::Config::load(config_file));
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    const Tensor tokens = batch_of(0, trainer.data_rank());  // of this replica, in a step
    losses.push_back(trainer.train_batch(tokens, tokens));
  }
  return losses;
}

TEST_CASE("trainer: a plan's file trains a small GPT on eight threads", "[threads]") {
  PlanRequest request;
  request.model = kPlanned;
  request.global_batch = 8;
  Strategy s{.tensor = 2, .pipe = 2, .replicate = 1, .shard = 2, .sharding = PlanSharding::zero1};
  s.micro_batches = 4;
  s.schedule = Schedule::zero_bubble();
  s.checkpoint = true;
  request.dtype = kFloat32;
  const hero_test::TempDir folder;
  std::ofstream(folder / "ds_config.json") << config_text(request, s);
  run_ranks(s.ranks(), [&](Communicator& world) {
    const std::vector<double> losses = train(world, folder / "ds_config.json");
    expect(losses.back() < losses.front(), losses.back(), " after ", losses.front());
  });
}

}  // namespace
