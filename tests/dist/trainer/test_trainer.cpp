// Trainer against the same program by hand, to the bit.
#include <map>
#include <optional>

#include "dist/ranks.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/dist.h>
#include <hero/dist/trainer.h>
#include <hero/dist/trainer/methods.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

constexpr int kSteps = 3, kMicro = 2;

nn::GPT make_model() {
  manual_seed(4);
  return nn::GPT({.vocab_size = 24, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
}

// What data rank `part` takes as its n-th micro-batch: one sequence.
Tensor tokens_of(int64_t n, int part) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 8; ++i) tokens.push_back((7 * n + 5 * part + i * i) % 24);
  return Tensor(Array::from(tokens, {1, 8}));
}

struct Ended {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  bool operator==(const Ended&) const = default;
};

void add_values(Ended& ended, const nn::StateDict& dict) {
  for (const auto& [name, values] : dict) ended.values[name] = values.to_vector<float>();
}

// AdamW with warm-up and clipping on DDP, line by line.
Ended by_hand(int ranks) {
  Ended ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = make_model();
    const DDP ddp(model, world);
    optim::AdamW adamw(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    optim::Schedule schedule(adamw, [](double, int64_t t) {
      return t == 0 ? 0.001 : 0.001 + 0.009 * std::min(1.0, static_cast<double>(t - 1) / 4);
    });
    int64_t n = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (int micro = 0; micro < kMicro; ++micro, ++n) {
        ddp.set_requires_gradient_sync(micro + 1 == kMicro);
        const Tensor tokens = tokens_of(n, world.rank());
        const Tensor loss = model.loss(tokens, tokens);
        if (world.rank() == 0) ended.losses.push_back(loss.item());
        (loss / 2.0).backward();
      }
      optim::clip_grad_norm(model.parameters(), 0.5);
      adamw.step();
      adamw.zero_grad();
      schedule.step();
    }
    if (world.rank() == 0) add_values(ended, model.state_dict());
  });
  return ended;
}

const char* kMethods = R"("gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01,
                                               "warmup_num_steps": 4, "warmup_type": "linear"}})";

Ended by_trainer(int ranks, const std::string& rung, int tensor = 1,
                 const TrainerOptions& options = {}) {
  const Config config = Config::parse(std::string("{") + kMethods + ", " + rung + "}");
  Ended ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = make_model();
    Trainer trainer(model, world, config, options);
    const int part = world.rank() / tensor;
    for (int64_t n = 0; n < kSteps * kMicro; ++n) {
      const Tensor tokens = tokens_of(n, part);
      const Tensor loss = trainer.forward([&] { return model.loss(tokens, tokens); });
      if (world.rank() == 0) ended.losses.push_back(loss.item());
      expect(trainer.is_gradient_accumulation_boundary() == (n % 2 == 1), "boundary of ", n);
      trainer.backward(loss);
      expect(trainer.step() == (n % 2 == 1), "step of ", n);
    }
    expect(trainer.global_steps() == kSteps && trainer.micro_steps() == kSteps * kMicro, "counts");
    expect(trainer.global_grad_norm() > 0.5, "a norm that was clipped");
    if (tensor > 1) return;
    const nn::StateDict whole = trainer.full_state_dict();
    if (world.rank() == 0) add_values(ended, whole);
  });
  return ended;
}

TEST_CASE("trainer: every rung ends with the bits of the program by hand", "[threads]") {
  const Ended expected = by_hand(4);
  CHECK(expected.losses.size() == 6);
  CHECK(expected.losses.front() != expected.losses.back());
  for (const char* rung :
       {R"("zero_optimization": {"stage": 0})", R"("zero_optimization": {"stage": 1})",
        R"("zero_optimization": {"stage": 2, "reduce_bucket_size": 900})",
        R"("zero_optimization": {"stage": 3})",
        R"("zero_optimization": {"stage": 3, "overlap_comm": false, "reshard": false})",
        R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
                                 "offload_param": {"device": "cpu"}})",
        R"("zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme",
                                                                   "nvme_path": "/tmp"}})",
        R"("zero_optimization": {"stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"},
            "offload_param": {"device": "nvme", "nvme_path": "/tmp"}})"}) {
    CAPTURE(rung);
    CHECK(by_trainer(4, rung) == expected);
  }
  const TrainerOptions blocks = {.unit = each<nn::Block>()};
  for (const char* rung : {R"("zero_optimization": {"stage": 3})",
                           R"("zero_optimization": {"stage": 3, "mics_shard_size": 2})"}) {
    CAPTURE(rung);
    CHECK(by_trainer(4, rung, 1, blocks) == expected);
  }
}

// In bfloat16 with float32 masters, with a step of one backward or more.
Ended halves_by_hand(int ranks, const std::string& rung, int micro, bool each) {
  Ended ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = make_model();
    model.to(kBFloat16);
    std::optional<DataParallel> parallel;
    if (rung == "ddp") parallel = DDP(model, world);
    if (rung == "zero2") parallel = ZeRO(model, world, {.stage = 2});
    optim::MasterWeights<optim::AdamW> adamw(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    for (int64_t n = 0; n < int64_t{kSteps} * micro; ++n) {
      const bool last = (n + 1) % micro == 0;
      parallel->set_requires_gradient_sync(each || last);
      const Tensor tokens = tokens_of(n, world.rank());
      const Tensor loss = model.loss(tokens, tokens);
      if (world.rank() == 0) ended.losses.push_back(loss.item());
      (micro == 1 ? loss : loss / static_cast<double>(micro)).backward();
      if (!last) continue;
      optim::clip_grad_norm(model.parameters(), 0.5);
      adamw.step();
      adamw.zero_grad();
    }
    const nn::StateDict whole = parallel->full_state_dict();
    if (world.rank() == 0) {
      for (const auto& [name, values] : whole) {
        ended.values[name] = values.to(kFloat32).to_vector<float>();
      }
    }
  });
  return ended;
}

TEST_CASE("trainer: bf16 is parameters of bfloat16 with float32 masters", "[threads]") {
  for (const auto& [rung, stage] : {std::pair{"ddp", 0}, {"zero2", 2}}) {
    for (const auto& [micro, each] : {std::pair{1, false}, {2, false}, {2, true}}) {
      if (each && stage < 2) continue;
      CAPTURE(rung, micro, each);
      std::string keys = R"({"bf16": {"enabled": true}, "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
        "gradient_accumulation_steps": )" +
                         std::to_string(micro) + R"(, "zero_optimization": {"stage": )" +
                         std::to_string(stage) + (each ? R"(, "reduce_each": true}})" : "}}");
      const Config config = Config::parse(keys);
      Ended ended;
      run_ranks(2, [&](Communicator& world) {
        nn::GPT model = make_model();
        Trainer trainer(model, world, config);
        expect(model.parameters().front().dtype() == kBFloat16, "parameters");
        expect(trainer.optimizer().parameters().front().dtype() == kFloat32, "masters");
        for (int64_t n = 0; n < int64_t{kSteps} * micro; ++n) {
          const Tensor tokens = tokens_of(n, world.rank());
          const Tensor loss = trainer.forward([&] { return model.loss(tokens, tokens); });
          if (world.rank() == 0) ended.losses.push_back(loss.item());
          trainer.backward(loss);
          trainer.step();
        }
        const nn::StateDict whole = trainer.full_state_dict();
        if (world.rank() > 0) return;
        for (const auto& [name, values] : whole) {
          ended.values[name] = values.to(kFloat32).to_vector<float>();
        }
      });
      CHECK(ended == halves_by_hand(2, rung, micro, each));
    }
  }
}

TEST_CASE(
    "trainer: nvme keeps no state in memory between steps, and a shard's file with its module",
    "[threads]") {
  const std::string nvme = R"({"device": "nvme", "nvme_path": "/tmp"})";
  const auto config_of = [&](const std::string& type, const std::string& path) {
    return Config::parse(R"({"optimizer": {"type": ")" + type + R"("}, "zero_optimization":
      {"stage": 3, "offload_optimizer": )" +
                         nvme + R"(, "offload_param": {"device": "nvme", "nvme_path": ")" + path +
                         R"("}}})");
  };
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = make_model();
    {
      Trainer trainer(model, world, config_of("AdamW", "/tmp"), {.unit = each<nn::Block>()});
      const Tensor tokens = tokens_of(0, world.rank());
      trainer.backward(trainer.forward([&] { return model.loss(tokens, tokens); }));
      trainer.step();
      expect(current_ledger().live(MemoryTag::optimizer) == 0, "states");
      expect(current_ledger().live(MemoryTag::parameter) == 0, "shards");
    }
    model.loss(tokens_of(1, 0), tokens_of(1, 0));  // the shards are still there to be read
  });
  const auto error = [&](const Config& config) {
    return error_of([&] {
      run_ranks(1, [&](Communicator& world) {
        nn::GPT model = make_model();
        const Trainer trainer(model, world, config);
      });
    });
  };
  CHECK(error(config_of("Lamb", "/tmp")).find("Lamb steps by norms of whole parameters") !=
        std::string::npos);
  CHECK(error(config_of("AdamW", "/no/such/folder")).find("swap file: cannot make a file in") !=
        std::string::npos);
}

TEST_CASE("trainer: slices of layers beside shards", "[threads]") {
  const Ended two = by_trainer(4, R"("zero_optimization": {"stage": 1}, "tensor": 2)", 2);
  const Ended shards = by_trainer(4, R"("zero_optimization": {"stage": 3}, "tensor": 2)", 2);
  CHECK(two == shards);
  const Ended whole = by_hand(2);
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    CHECK(two.losses[i] == Approx(whole.losses[i]).epsilon(1e-4));
  }
}

TEST_CASE("trainer: float16 skips what overflows and lowers the scale as DeepSpeed does") {
  const Config config = Config::parse(R"({"optimizer": {"type": "SGD", "params": {"lr": 0.01}},
    "fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2, "hysteresis": 2}})");
  run_ranks(1, [&](Communicator& alone) {
    manual_seed(1);
    nn::Linear model(4, 2);
    Trainer trainer(model, alone, config);
    const auto take = [&](double size) {
      const Tensor x = full({3, 4}, size);
      trainer.backward(trainer.forward([&] { return mean(model(x)); }));
      return trainer.step();
    };
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(take(1.0));
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(take(1.0));
    CHECK(trainer.loss_scale() == 32.0);
    const std::vector<float> before = model.weight.array().to_vector<float>();
    CHECK_FALSE(take(60000.0));           // 32 * 60000 / 2 is no float16
    CHECK(trainer.loss_scale() == 32.0);  // the first of two
    CHECK_FALSE(take(60000.0));
    CHECK(trainer.loss_scale() == 16.0);
    CHECK(trainer.skipped_steps() == 2);
    CHECK(trainer.global_steps() == 4);
    CHECK(model.weight.array().to_vector<float>() == before);
    CHECK(take(1.0));
  });
}

TEST_CASE("trainer: rates are DeepSpeed's") {
  const auto curve = [](const std::string& scheduler) {
    return make_curve(Config::parse(R"({"scheduler": )" + scheduler + "}").scheduler);
  };
  const auto log = curve(R"({"type": "WarmupLR", "params": {"warmup_max_lr": 0.1,
                                                            "warmup_num_steps": 5}})");
  // 0.1 log(t) / log(5), and one step later than its t
  for (const auto& [t, rate] : std::vector<std::pair<int64_t, double>>{{0, 0.0},
                                                                       {1, 0.0},
                                                                       {2, 0.0430676558},
                                                                       {3, 0.0682606194},
                                                                       {5, 0.1},
                                                                       {6, 0.1},
                                                                       {99, 0.1}}) {
    CHECK(log(1.0, t) == Approx(rate));
  }
  const auto decay =
      curve(R"({"type": "WarmupDecayLR", "params": {"warmup_max_lr": 1.0, "warmup_num_steps": 4,
                "warmup_type": "linear", "total_num_steps": 12}})");
  CHECK(decay(1.0, 3) == 0.5);
  CHECK(decay(1.0, 5) == 1.0);
  CHECK(decay(1.0, 9) == 0.5);
  CHECK(decay(1.0, 40) == 0.0);
  const auto cosine =
      curve(R"({"type": "WarmupCosineLR", "params": {"warmup_num_steps": 4, "total_num_steps": 12,
                "warmup_type": "linear", "cos_min_ratio": 0.2}})");
  CHECK(cosine(3.0, 0) == 0.0);
  CHECK(cosine(3.0, 3) == 1.5);
  CHECK(cosine(3.0, 8) == Approx(3.0 * 0.6));  // half of the way down
  CHECK(cosine(3.0, 12) == Approx(0.6));
  CHECK(cosine(3.0, 90) == Approx(0.6));
}

TEST_CASE("trainer: a run that was saved goes on with the same bits", "[threads]") {
  const Config config =
      Config::parse(std::string("{") + kMethods + R"(, "zero_optimization": {"stage": 2}})");
  const auto steps = [&](Trainer& trainer, nn::GPT& model, int rank, int64_t from, int64_t to) {
    for (int64_t n = from; n < to; ++n) {
      const Tensor tokens = tokens_of(n, rank);
      trainer.backward(trainer.forward([&] { return model.loss(tokens, tokens); }));
      trainer.step();
    }
  };
  const hero_test::TempDir folder;
  Ended whole, resumed;
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = make_model();
    Trainer trainer(model, world, config);
    steps(trainer, model, world.rank(), 0, 4);
    Checkpointer checkpoint(folder / "run", world);
    trainer.track(checkpoint);
    checkpoint.save(trainer.global_steps());
    steps(trainer, model, world.rank(), 4, 8);
    const nn::StateDict dict = trainer.full_state_dict();
    if (world.rank() == 0) add_values(whole, dict);
  });
  run_ranks(2, [&](Communicator& world) {
    nn::GPT model = make_model();
    Trainer trainer(model, world, config);
    Checkpointer checkpoint(folder / "run", world);
    trainer.track(checkpoint);
    expect(checkpoint.resume() == 2 && trainer.global_steps() == 2, "of step 2");
    steps(trainer, model, world.rank(), 4, 8);
    const nn::StateDict dict = trainer.full_state_dict();
    if (world.rank() == 0) add_values(resumed, dict);
  });
  CHECK(whole == resumed);
}

TEST_CASE("trainer: misuse is one line") {
  run_ranks(1, [&](Communicator& alone) {
    nn::Linear model(2, 1);
    using Catch::Matchers::ContainsSubstring;
    CHECK_THROWS_WITH(Trainer(model, alone, Config()), ContainsSubstring("no \"optimizer\""));
    Config config = Config::parse(R"({"optimizer": {"type": "SGD"}, "train_batch_size": 2,
                                    "gradient_accumulation_steps": 2})");
    Trainer trainer(model, alone, config);
    CHECK_THROWS_WITH(trainer.step(), ContainsSubstring("without a backward"));
    CHECK_THROWS_WITH(trainer.backward(ones({2})), ContainsSubstring("one element"));
    trainer.backward(mean(model(ones({1, 2}))));
    CHECK_THROWS_WITH(trainer.backward(mean(model(ones({1, 2})))), ContainsSubstring("twice"));
    config.tensor = 2;
    nn::Linear other(2, 1);
    CHECK_THROWS_WITH(Trainer(other, alone, config), ContainsSubstring("does not divide 1 ranks"));
    config.tensor = 1;
    config.checkpoint_blocks = true;
    CHECK_THROWS_WITH(Trainer(other, alone, config), ContainsSubstring("is for an nn::GPT"));
    trainer.step();
    CHECK_THROWS_WITH(trainer.train_batch(ones({2, 2}), ones({2})),
                      ContainsSubstring("train_batch() is for an nn::Chain"));
    config.checkpoint_blocks = false;
    nn::GPT gpt = make_model();
    Trainer batches(gpt, alone, config);
    CHECK_THROWS_WITH(batches.train_batch(tokens_of(0, 0), tokens_of(0, 0)),
                      ContainsSubstring("2 micro-batches of 1"));
  });
}

}  // namespace
