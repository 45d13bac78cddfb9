// "bf16" and "fp16" of a Trainer: parameters of 16 bits with float32 masters, and the loss scale.
#include <algorithm>
#include <optional>

#include "dist/trainer/small_gpt.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/dist/trainer.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

constexpr int kHalfSteps = 3;
constexpr double kMostNorm = 0.05;

// What a step of halves is made of.
struct Halves {
  DType dtype = kBFloat16;
  int stage = 0;
  int micro = 1;      // backwards
  bool each = false;  // gradients are averaged in each of them
  bool clips = true;

  std::string keys() const {
    return std::string(dtype == kFloat16
                           ? R"({"fp16": {"enabled": true, "initial_scale_power": 10})"
                           : R"({"bf16": {"enabled": true})") +
           (clips ? R"(, "gradient_clipping": 0.05)" : "") +
           R"(, "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
           "gradient_accumulation_steps": )" +
           std::to_string(micro) + R"(, "zero_optimization": {"stage": )" + std::to_string(stage) +
           (each ? R"(, "reduce_each": true}})" : "}}");
  }
};

// The program by hand, with the calls of torch.amp where there is a scale.
GPTRun halves_by_hand(const Halves& h) {
  GPTRun run;
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = make_small_gpt();
    model.to(h.dtype);
    std::optional<DataParallel> parallel;
    if (h.stage == 0) parallel = DDP(model, world);
    if (h.stage > 0) parallel = ZeRO(model, world, {.stage = h.stage});
    optim::MasterWeights<optim::AdamW> adamw(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    optim::GradScaler scaler({.init_scale = 1024.0, .enabled = h.dtype == kFloat16});
    for (int64_t n = 0; n < int64_t{kHalfSteps} * h.micro; ++n) {
      const bool last = (n + 1) % h.micro == 0;
      parallel->set_requires_gradient_sync(h.each || last);
      const Tensor tokens = small_tokens(n, world.rank());
      const Tensor loss = model.loss(tokens, tokens);
      if (world.rank() == 0) run.losses.push_back(loss.item());
      scaler.scale(h.micro == 1 ? loss : loss / static_cast<double>(h.micro)).backward();
      if (!last) continue;
      if (h.clips) {
        scaler.unscale_(adamw);
        optim::clip_grad_norm(scaler.is_enabled() ? adamw.parameters() : model.parameters(),
                              kMostNorm);
      }
      expect(scaler.step(adamw), "a step");
      scaler.update();
      adamw.zero_grad();
    }
    const nn::StateDict whole = parallel->full_state_dict();
    if (world.rank() == 0) add_trained(run, whole);
  });
  return run;
}

GPTRun halves_by_trainer(const Halves& h) {
  const Config config = Config::parse(h.keys());
  GPTRun run;
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = make_small_gpt();
    Trainer trainer(model, world, config);
    expect(model.parameters().front().dtype() == h.dtype, "parameters");
    expect(trainer.optimizer().parameters().front().dtype() == kFloat32, "masters");
    for (int64_t n = 0; n < int64_t{kHalfSteps} * h.micro; ++n) {
      const Tensor tokens = small_tokens(n, world.rank());
      const Tensor loss = trainer.forward([&] { return model.loss(tokens, tokens); });
      if (world.rank() == 0) run.losses.push_back(loss.item());
      trainer.backward(loss);
      expect(trainer.step() == ((n + 1) % h.micro == 0), "steps at the end of micro-batches");
    }
    if (h.clips) expect(trainer.global_grad_norm() > kMostNorm, "a norm that was clipped");
    const nn::StateDict whole = trainer.full_state_dict();
    if (world.rank() == 0) add_trained(run, whole);
  });
  return run;
}

// Backwards of one product of float16; the gradient of a large input is no float16.
bool take_halves(Trainer& trainer, nn::Linear& model, double size) {
  const Tensor x = full({3, 4}, size, {.dtype = kFloat16});
  trainer.backward(trainer.forward([&] { return mean(model(x)); }));
  return trainer.step();
}

std::vector<float> weights_of(const nn::Linear& model) {
  return model.weight.array().to(kFloat32).to_vector<float>();
}

}  // namespace

TEST_CASE("trainer: bf16 and fp16 are parameters of 16 bits with float32 masters", "[threads]") {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const int stage : {0, 2}) {
      for (const auto& [micro, each] : {std::pair{1, false}, {2, false}, {2, true}}) {
        if (each && stage < 2) continue;
        for (const bool clips : {true, false}) {
          const Halves h{dtype, stage, micro, each, clips};
          CAPTURE(name(dtype), stage, micro, each, clips);
          const GPTRun run = halves_by_trainer(h);
          CHECK(run == halves_by_hand(h));
          CHECK(run.values.size() > 4);
        }
      }
    }
  }
}

TEST_CASE("trainer: float16 skips what overflows and lowers the scale as DeepSpeed does") {
  const Config config = Config::parse(R"({"optimizer": {"type": "SGD", "params": {"lr": 0.01}},
    "fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2, "hysteresis": 2}})");
  run_ranks(1, [&](Communicator& alone) {
    manual_seed(1);
    nn::Linear model(4, 2);
    Trainer trainer(model, alone, config);
    const auto take = [&](double size) { return take_halves(trainer, model, size); };
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(take(1.0));
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(take(1.0));
    CHECK(trainer.loss_scale() == 32.0);
    const std::vector<float> before = weights_of(model);
    const auto masters = trainer.optimizer().parameters().front().to_vector<float>();
    CHECK_FALSE(take(60000.0));           // 32 * 60000 / 2 is no float16
    CHECK(trainer.loss_scale() == 32.0);  // the first of two
    CHECK_FALSE(take(60000.0));
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(trainer.skipped_steps() == 2);
    CHECK(trainer.global_steps() == 4);
    CHECK(weights_of(model) == before);
    CHECK(trainer.optimizer().parameters().front().to_vector<float>() == masters);
    CHECK(take(1.0));
    CHECK(weights_of(model) != before);
  });
}

TEST_CASE("trainer: float16 that overflows on one rank is passed over by all", "[threads]") {
  for (const int stage : {0, 1, 2, 3}) {
    const Config config = Config::parse(
        R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 1.0,
            "fp16": {"enabled": true, "initial_scale_power": 4, "hysteresis": 1},
            "zero_optimization": {"stage": )" +
        std::to_string(stage) + "}}");
    run_ranks(2, [&](Communicator& world) {
      manual_seed(1);
      nn::Linear model(4, 2);
      Trainer trainer(model, world, config);
      expect(take_halves(trainer, model, 1.0), "a step");
      expect(!take_halves(trainer, model, world.rank() == 1 ? 60000.0 : 1.0), "rank 1 overflows");
      expect(trainer.loss_scale() == 8.0 && trainer.skipped_steps() == 1, "the scale is halved");
      expect(take_halves(trainer, model, 1.0), "and training goes on");
    });
  }
}

TEST_CASE("trainer: a float16 run goes on from a checkpoint with its masters and its scale",
          "[threads]") {
  const Config config = Config::parse(R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "fp16": {"enabled": true, "initial_scale_power": 14, "loss_scale_window": 3, "hysteresis": 2},
    "gradient_clipping": 0.5, "train_batch_size": 2, "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 2}})");
  // Losses of two ranks, times 200 in three of the steps, of which one is skipped before the save.
  const auto steps = [](Trainer& trainer, nn::GPT& model, int rank, int64_t from, int64_t to,
                        std::vector<double>& told) {
    for (int64_t n = from; n < to; ++n) {
      const Tensor tokens = small_tokens(n, rank);
      const double size = n == 1 || n == 6 || n == 7 ? 200.0 : 1.0;
      const Tensor loss = trainer.forward([&] { return model.loss(tokens, tokens) * size; });
      trainer.backward(loss);
      const bool stepped = trainer.step();
      if (rank > 0) continue;
      told.insert(told.end(), {loss.item(), stepped ? 1.0 : 0.0, trainer.loss_scale()});
    }
  };
  const auto [whole, resumed] = whole_and_resumed(config, 4, 10, steps, [](const Trainer& trainer) {
    expect(trainer.global_steps() == 4, trainer.global_steps(), " steps");
    expect(trainer.skipped_steps() == 1, trainer.skipped_steps(), " skipped");
  });
  CHECK(std::count(whole.losses.begin(), whole.losses.end(), 0.0) > 0);  // more that overflowed
  CHECK(whole == resumed);
}
