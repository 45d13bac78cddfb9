// Trainer against the same program by hand, to the bit.
#include "dist/trainer/small_gpt.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/dist/trainer.h>
#include <hero/dist/trainer/optimizers.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

constexpr int kSteps = 3, kMicro = 2;

// AdamW with warm-up and clipping on DDP, line by line.
GPTRun by_hand(int ranks) {
  GPTRun ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = make_small_gpt();
    const DDP ddp(model, world);
    optim::AdamW adamw(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    optim::Schedule schedule(adamw, [](double, int64_t t) {
      return t == 0 ? 0.001 : 0.001 + 0.009 * std::min(1.0, static_cast<double>(t - 1) / 4);
    });
    int64_t n = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (int micro = 0; micro < kMicro; ++micro, ++n) {
        ddp.set_requires_gradient_sync(micro + 1 == kMicro);
        const Tensor tokens = small_tokens(n, world.rank());
        const Tensor loss = model.loss(tokens, tokens);
        if (world.rank() == 0) ended.losses.push_back(loss.item());
        (loss / 2.0).backward();
      }
      optim::clip_grad_norm(model.parameters(), 0.5);
      adamw.step();
      adamw.zero_grad();
      schedule.step();
    }
    if (world.rank() == 0) add_trained(ended, model.state_dict());
  });
  return ended;
}

const char* kMethods = R"("gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01,
                                               "warmup_num_steps": 4, "warmup_type": "linear"}})";

GPTRun by_trainer(int ranks, const std::string& strategy, int tensor = 1,
                  const TrainerOptions& options = {}) {
  const Config config = Config::parse(std::string("{") + kMethods + ", " + strategy + "}");
  GPTRun ended;
  run_ranks(ranks, [&](Communicator& world) {
    nn::GPT model = make_small_gpt();
    Trainer trainer(model, world, config, options);
    const int part = world.rank() / tensor;
    for (int64_t n = 0; n < kSteps * kMicro; ++n) {
      const Tensor tokens = small_tokens(n, part);
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
    if (world.rank() == 0) add_trained(ended, whole);
  });
  return ended;
}

TEST_CASE("trainer: every strategy ends with the bits of the program by hand", "[threads]") {
  const GPTRun expected = by_hand(4);
  CHECK(expected.losses.size() == 6);
  CHECK(expected.losses.front() != expected.losses.back());
  for (const char* strategy :
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
    CAPTURE(strategy);
    CHECK(by_trainer(4, strategy) == expected);
  }
  const TrainerOptions blocks = {.unit = each<nn::Block>()};
  for (const char* strategy : {R"("zero_optimization": {"stage": 3})",
                               R"("zero_optimization": {"stage": 3, "mics_shard_size": 2})"}) {
    CAPTURE(strategy);
    CHECK(by_trainer(4, strategy, 1, blocks) == expected);
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
    nn::GPT model = make_small_gpt();
    {
      Trainer trainer(model, world, config_of("AdamW", "/tmp"), {.unit = each<nn::Block>()});
      const Tensor tokens = small_tokens(0, world.rank());
      trainer.backward(trainer.forward([&] { return model.loss(tokens, tokens); }));
      trainer.step();
      expect(current_ledger().live(MemoryTag::optimizer) == 0, "states");
      expect(current_ledger().live(MemoryTag::parameter) == 0, "shards");
    }
    model.loss(small_tokens(1, 0), small_tokens(1, 0));  // the shards are still there to be read
  });
  const auto error = [&](const Config& config) {
    return error_of([&] {
      run_ranks(1, [&](Communicator& world) {
        nn::GPT model = make_small_gpt();
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
  const GPTRun two = by_trainer(4, R"("zero_optimization": {"stage": 1}, "tensor": 2)", 2);
  const GPTRun shards = by_trainer(4, R"("zero_optimization": {"stage": 3}, "tensor": 2)", 2);
  CHECK(two == shards);
  const GPTRun whole = by_hand(2);
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    CHECK(two.losses[i] == Approx(whole.losses[i]).epsilon(1e-4));
  }
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
  const auto steps = [](Trainer& trainer, nn::GPT& model, int rank, int64_t from, int64_t to,
                        std::vector<double>& losses) {
    for (int64_t n = from; n < to; ++n) {
      const Tensor tokens = small_tokens(n, rank);
      const Tensor loss = trainer.forward([&] { return model.loss(tokens, tokens); });
      if (rank == 0) losses.push_back(loss.item());
      trainer.backward(loss);
      trainer.step();
    }
  };
  const auto [whole, resumed] = whole_and_resumed(config, 4, 8, steps, [](const Trainer& trainer) {
    expect(trainer.global_steps() == 2 && trainer.micro_steps() == 4, "of step 2");
  });
  CHECK(whole.losses.size() == 4);
  CHECK(whole == resumed);
}

TEST_CASE("trainer: a rank with another file is named before anything is trained", "[threads]") {
  const auto errors_with = [](const std::string& odd) {
    return errors_of(3, [&](Communicator& world) {
      nn::Linear model(2, 1);
      Trainer(model, world,
              Config::parse("{" + (world.rank() == 1 ? odd : std::string()) +
                            R"("optimizer": {"type": "SGD", "params": {"lr": 0.5}}})"));
    });
  };
  using Catch::Matchers::ContainsSubstring;
  for (const std::string& error : errors_with(R"("gradient_clipping": 0.25, )")) {
    CHECK_THAT(error, ContainsSubstring("trainer: ranks have different configurations: rank 0 has "
                                        "optimizer/params/lr 0.5, rank 1 has gradient_clipping "
                                        "0.25; give every rank the same Config"));
  }
  for (const std::string& error : errors_with(R"("gradient_accumulation_steps": 2, )")) {
    CHECK_THAT(error, ContainsSubstring("rank 1 has gradient_accumulation_steps 2; "));
  }
  // what rank 0 alone prints, and where each host has its files
  for (const std::string& error : errors_with(R"("steps_per_print": 3, )")) CHECK(error.empty());
  for (const std::string& error : errors_with("")) CHECK(error.empty());
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
                      ContainsSubstring("train_batch() is for an nn::PipelineModel"));
    config.checkpoint_blocks = false;
    nn::GPT gpt = make_small_gpt();
    Trainer batches(gpt, alone, config);
    CHECK_THROWS_WITH(batches.train_batch(small_tokens(0, 0), small_tokens(0, 0)),
                      ContainsSubstring("2 micro-batches of 1"));
  });
}

// Two layers of which the forward of a rank uses one.
struct TwoLayers : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 3, 1);
  nn::Linear& second = add<nn::Linear>("second", 3, 1);
  bool is_first = true;
  Tensor forward(const Tensor& x) override { return is_first ? first(x) : second(x); }
};

TEST_CASE(
    "trainer: ignore_unused_parameters lets parameters be without a gradient at stages 0 to 2",
    "[threads]") {
  for (const char* stage : {"0", "1", "2"}) {
    for (const bool ignored : {false, true}) {
      const Config config =
          Config::parse(std::string(R"({"optimizer": {"type": "sgd", "params": {"lr": 0.5}}, )") +
                        R"("zero_optimization": {"stage": )" + stage +
                        ", \"ignore_unused_parameters\": " + (ignored ? "true" : "false") + "}}");
      const auto train = [&] {
        run_ranks(2, [&](Communicator& world) {
          TwoLayers model;
          model.is_first = world.rank() == 0;
          for (const Tensor& leaf : model.parameters()) nn::init::constant_(leaf, 1.0);
          Trainer trainer(model, world, config);
          const Tensor loss = trainer.forward([&] { return sum(model(ones({1, 3}))); });
          trainer.backward(loss);
          trainer.step();
          const nn::StateDict state = trainer.full_state_dict();
          // the mean of a gradient of 1 and of none, times the rate
          for (const auto& [name, value] : state) {
            if (world.rank() == 0 && name.ends_with("weight")) {
              expect(hero::equal(Tensor(value), full({1, 3}, 0.75)), name, " is stepped");
            }
          }
        });
      };
      if (ignored) {
        train();
      } else {
        CHECK_THROWS_WITH(train(), Catch::Matchers::ContainsSubstring(
                                       "(in a file \"ignore_unused_parameters\": true)"));
      }
    }
  }
}

}  // namespace
