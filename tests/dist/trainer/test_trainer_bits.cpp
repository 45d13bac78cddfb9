// A Trainer's optimizers in bits and quantised collectives against the same program by hand, to the
// bit.
#include "dist/compress/one_bit.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/trainer.h>
#include <hero/dist/zero.h>
#include <hero/optim/clip.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr int kSteps = 7, kMicro = 2;

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const DataParallel&,
                                                                      const std::vector<Tensor>&)>;
using PutOn = std::function<DataParallel(nn::Module&, const Communicator&)>;

// Rank 0's parameters and losses after two micro-batches a step, by hand.
Floats by_hand(int ranks, const PutOn& put_on, const MakeOptimizer& make, double clip) {
  Floats ended;
  run_ranks(ranks, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DataParallel strategy = put_on(*model, world);
    const auto optimizer = make(strategy, model->parameters());
    Floats mine;
    for (int n = 0; n < kSteps * kMicro; ++n) {
      strategy.set_requires_gradient_sync(n % kMicro + 1 == kMicro);
      const Tensor loss = subject_loss(Subject::mlp, *model, n, world.rank());
      mine.push_back(static_cast<float>(loss.item()));
      (loss / double{kMicro}).backward();
      if (n % kMicro + 1 < kMicro) continue;
      if (clip > 0.0) optim::clip_grad_norm(model->parameters(), clip);
      optimizer->step();
      optimizer->zero_grad();
    }
    const auto whole = strategy.summon_full_parameters();
    const Floats values = flat_of(model->parameters());
    mine.insert(mine.end(), values.begin(), values.end());
    if (world.rank() == 0) ended = mine;
  });
  return ended;
}

void steps(Trainer& trainer, nn::Module& model, int rank, int begin, int end, Floats& losses) {
  for (int n = begin * kMicro; n < end * kMicro; ++n) {
    const Tensor loss = trainer.forward([&] { return subject_loss(Subject::mlp, model, n, rank); });
    losses.push_back(static_cast<float>(loss.item()));
    trainer.backward(loss);
    expect(trainer.step() == (n % kMicro + 1 == kMicro), "step of ", n);
  }
}

Floats by_trainer(int ranks, const std::string& text) {
  const Config config = Config::parse("{\"gradient_accumulation_steps\": 2, " + text + "}");
  Floats ended;
  run_ranks(ranks, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    Trainer trainer(*model, world, config);
    Floats mine;
    steps(trainer, *model, world.rank(), 0, kSteps, mine);
    const nn::StateDict whole = trainer.full_state_dict();
    std::vector<Array> values;
    for (const auto& entry : whole) values.push_back(entry.array);
    const Floats parameters = flat_of(values);
    mine.insert(mine.end(), parameters.begin(), parameters.end());
    if (world.rank() == 0) ended = mine;
  });
  return ended;
}

DataParallel on_ddp(nn::Module& model, const Communicator& world) { return DDP(model, world); }

}  // namespace

TEST_CASE("trainer: optimizers in bits end with the bits of the program by hand", "[threads]") {
  const auto adam = [](const DataParallel& strategy, const std::vector<Tensor>& parameters) {
    return std::unique_ptr<optim::Optimizer>(std::make_unique<OneBitAdam>(
        strategy, parameters,
        OneBitAdamOptions{.lr = 0.01, .eps = 1e-5, .weight_decay = 0.1, .freeze_step = 3}));
  };
  const std::string text = R"("optimizer": {"type": "OneBitAdam", "params":
    {"lr": 0.01, "eps": 1e-5, "weight_decay": 0.1, "freeze_step": 3}})";
  CHECK(unlike(by_trainer(3, text), by_hand(3, on_ddp, adam, 0.0)).empty());
  CHECK(unlike(by_trainer(2, text + R"(, "gradient_clipping": 0.5)"), by_hand(2, on_ddp, adam, 0.5))
            .empty());
  const auto lamb = [](const DataParallel& strategy, const std::vector<Tensor>& parameters) {
    return std::unique_ptr<optim::Optimizer>(std::make_unique<OneBitLAMB>(
        strategy, parameters,
        OneBitLAMBOptions{.lr = 0.01, .eps = 1e-5, .freeze_step = 3, .max_coeff = 0.3}));
  };
  CHECK(unlike(by_trainer(2, R"("optimizer": {"type": "OneBitLamb", "params":
                 {"lr": 0.01, "eps": 1e-5, "freeze_step": 3, "max_coeff": 0.3}})"),
               by_hand(2, on_ddp, lamb, 0.0))
            .empty());
  // the last step ends with a mean, so that ranks have the same parameters
  const auto zero_one = [](const DataParallel& strategy, const std::vector<Tensor>& parameters) {
    return std::unique_ptr<optim::Optimizer>(
        std::make_unique<ZeroOneAdam>(strategy, parameters,
                                      ZeroOneAdamOptions{.lr = 0.01,
                                                         .eps = 1e-5,
                                                         .var_freeze_step = 3,
                                                         .var_update_scaler = 2,
                                                         .local_step_scaler = 2,
                                                         .local_step_clipper = 2}));
  };
  CHECK(unlike(by_trainer(2, R"("optimizer": {"type": "ZeroOneAdam", "params":
                 {"lr": 0.01, "eps": 1e-5, "var_freeze_step": 3, "var_update_scaler": 2,
                  "local_step_scaler": 2, "local_step_clipper": 2}})"),
               by_hand(2, on_ddp, zero_one, 0.0))
            .empty());
}

TEST_CASE("trainer: a file that says nothing more of 0/1 Adam has DeepSpeed's options") {
  const Config config = Config::parse(R"({"optimizer": {"type": "ZeroOneAdam"}})");
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const Trainer trainer(*model, world, config);
    const auto& options = dynamic_cast<ZeroOneAdam&>(trainer.optimizer()).options();
    expect(options.var_freeze_step == 100'000 && options.var_update_scaler == 16, "of v");
    expect(options.local_step_scaler == 32'678 && options.local_step_clipper == 16, "local steps");
  });
}

TEST_CASE("trainer: 1-bit Adam that was saved goes on with the same bits", "[threads]") {
  const Config config = Config::parse(R"({"gradient_accumulation_steps": 2, "optimizer":
    {"type": "OneBitAdam", "params": {"lr": 0.01, "eps": 1e-5, "freeze_step": 3}}})");
  const hero_test::TempDir folder;
  Floats whole, resumed;
  for (const bool resumes : {false, true}) {
    run_ranks(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      Trainer trainer(*model, world, config);
      Checkpointer checkpoint(folder / "run", world);
      trainer.track(checkpoint);
      Floats before, after;
      if (resumes) expect(checkpoint.resume() == 5, "of step 5");
      if (!resumes) {
        steps(trainer, *model, world.rank(), 0, 5, before);
        checkpoint.save(trainer.global_steps());
      }
      steps(trainer, *model, world.rank(), 5, kSteps, after);
      if (world.rank() == 1) (resumes ? resumed : whole) = after;
    });
  }
  CHECK(whole.size() == 4);
  CHECK(unlike(resumed, whole).empty());
}

TEST_CASE("trainer: a float16 gradient that overflows on one rank is passed over by all in bits") {
  const Config config = Config::parse(R"({"optimizer":
    {"type": "OneBitAdam", "params": {"lr": 0.01, "eps": 1e-5, "freeze_step": 1}},
    "fp16": {"enabled": true, "initial_scale_power": 4, "hysteresis": 1}})");
  run_ranks(2, [&](Communicator& world) {
    manual_seed(1);
    nn::Linear model(4, 2);
    Trainer trainer(model, world, config);
    const auto take = [&](double size) {
      const Tensor x = full({3, 4}, size);
      trainer.backward(trainer.forward([&] { return mean(model(x)); }));
      return trainer.step();
    };
    expect(take(1.0) && take(1.0), "two steps, the second in bits");
    const Floats before = flat_of(model.parameters());
    expect(!take(world.rank() == 1 ? 60000.0 : 1.0), "rank 1 overflows");
    expect(unlike(flat_of(model.parameters()), before).empty(), "nothing moved");
    expect(trainer.loss_scale() == 8.0 && trainer.skipped_steps() == 1, "the scale is halved");
    expect(take(1.0), "and training goes on");
  });
}

TEST_CASE("trainer: ZeRO++ has the bits of the program by hand", "[threads]") {
  const auto adamw = [](const DataParallel&, const std::vector<Tensor>& parameters) {
    return std::unique_ptr<optim::Optimizer>(std::make_unique<optim::AdamW>(
        parameters, optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.0}));
  };
  const Quantize all = {
      .weights = Codec::int8, .gradients = Codec::int4, .secondary = true, .ranks_of_host = 2};
  const PutOn zero = [&](nn::Module& model, const Communicator& world) -> DataParallel {
    return ZeRO(model, world, {.stage = 3, .quantize = all});
  };
  const std::string methods = R"("optimizer": {"type": "Adam", "params": {"lr": 0.01}}, )";
  CHECK(unlike(by_trainer(4, methods + R"("zero_optimization": {"stage": 3,
                 "zero_quantized_weights": true, "zero_quantized_gradients": true,
                 "zero_hpz_partition_size": 2})"),
               by_hand(4, zero, adamw, 0.0))
            .empty());
  CHECK_THAT(errors_of(2,
                       [&](Communicator& world) {
                         const auto model = make_subject(Subject::mlp);
                         ZeRO(*model, world, {.stage = 2, .quantize = {.weights = Codec::int8}});
                       })[0],
             ContainsSubstring("zero: quantize needs stage 3"));
}
