// What happens to the strategies off the straight path: modules made on meta, parameters nobody
// used, errors, evaluation, accumulation.
#include <mutex>
#include <optional>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a module made on meta gets its values shard by shard, the bits of the whole") {
  for (const Subject subject : {Subject::mlp, Subject::gpt, Subject::odd}) {
    for (const int ranks : {1, 3, 8}) {
      CAPTURE(static_cast<int>(subject), ranks);
      auto whole = make_subject(subject);
      const nn::StateDict expected = whole->state_dict();
      run_ranks(ranks, [&](Communicator& world) {
        const auto on_meta = [&] {
          const nn::DeviceScope meta(kMeta);
          return make_subject(subject);
        };
        auto model = on_meta();
        const DataParallel parallel = fully_shard(*model, world, {.unit = units_of(subject)});
        expect(same_state(parallel.full_state_dict(), expected), "the same first values");
        subject_loss(subject, *model, 0, world.rank()).backward();
      });
    }
  }
}

TEST_CASE("an optimizer made before sharding goes on with the shards") {
  Whole before, after;
  for (const bool early : {false, true}) {
    run_ranks(3, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      std::unique_ptr<optim::Optimizer> optimizer;
      if (early) optimizer = make_method(Method::adamw, model->parameters());
      climb(ShardingStrategy::fsdp, Subject::mlp, *model, world);
      if (!early) optimizer = make_method(Method::adamw, model->parameters());
      for (int step = 0; step < 2; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        optimizer->step();
        optimizer->zero_grad();
      }
      add_state(early ? before : after, *model, *optimizer);
    });
  }
  CHECK(before.difference(after) == "");
}

TEST_CASE("gradients accumulated without communication give the same bits under every strategy") {
  Whole expected;
  const auto accumulate = [](ShardingStrategy strategy, Communicator& world, Whole& whole) {
    auto model = make_subject(Subject::gpt);
    const auto run = [&](const DataParallel& parallel) {
      auto optimizer = make_method(Method::sgd, model->parameters());
      for (int step = 0; step < 3; ++step) {
        {
          const NoSync local = parallel.no_sync();
          subject_loss(Subject::gpt, *model, 2 * step, world.rank()).backward();
          for (const Tensor& p : model->parameters()) {
            expect(strategy == ShardingStrategy::ddp || !p.grad().defined(),
                   "no gradient has travelled");
          }
        }
        subject_loss(Subject::gpt, *model, 2 * step + 1, world.rank()).backward();
        optimizer->step();
        optimizer->zero_grad();
      }
      add_state(whole, *model, *optimizer);
    };
    if (strategy == ShardingStrategy::ddp) return run(DDP(*model, world, {.bucket_bytes = 500}));
    if (strategy == ShardingStrategy::fsdp)
      return run(fully_shard(*model, world, {.unit = each<nn::Block>()}));
    run(ZeRO(*model, world,
             {.stage = strategy == ShardingStrategy::zero1   ? 1
                       : strategy == ShardingStrategy::zero2 ? 2
                                                             : 3}));
  };
  run_ranks(3, [&](Communicator& world) { accumulate(ShardingStrategy::ddp, world, expected); });
  for (const ShardingStrategy strategy : {ShardingStrategy::zero1, ShardingStrategy::zero2,
                                          ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    Whole got;
    run_ranks(3, [&](Communicator& world) { accumulate(strategy, world, got); });
    CHECK(expected.difference(got) == "");
  }
}

namespace {

/// One of two branches runs, or both.
struct Branches : nn::Module {
  nn::Linear& a = add<nn::Linear>("a", 4, 3);
  nn::Linear& b = add<nn::Linear>("b", 4, 3);
  bool use_a = true, use_b = true;
  Tensor forward(const Tensor& x) override {
    if (use_a && use_b) return a(x) + b(x);
    return use_a ? a(x) : b(x);
  }
};

Tensor four() { return ones({2, 4}); }

}  // namespace

TEST_CASE("a parameter without a gradient is an error of DDP and ZeRO that names it") {
  for (const int stage : {0, 1, 2}) {
    const auto errors = errors_of(2, [&](Communicator& world) {
      Branches model;
      model.use_b = false;
      if (stage == 0) {
        DDP(model, world);
      } else {
        ZeRO(model, world, {.stage = stage});
      }
      sum(model(four())).backward();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("without a gradient") && ContainsSubstring("b.weight") &&
                            ContainsSubstring("find_unused_parameters"));
    }
  }
}

TEST_CASE("ranks that use different parameters agree when asked to look for them") {
  for (const int stage : {0, 1, 2}) {
    run_ranks(3, [&](Communicator& world) {
      manual_seed(1);
      Branches model;
      model.use_a = world.rank() != 1;
      model.use_b = world.rank() == 1;
      if (stage == 0) {
        DDP(model, world, {.find_unused_parameters = true});
      } else {
        ZeRO(model, world, {.stage = stage, .find_unused_parameters = true});
      }
      for (int step = 0; step < 2; ++step) {
        model.zero_grad();
        sum(model(four())).backward();
      }
      // d sum / d weight is 2 on the ranks that ran the branch, 0 on the others
      for (const auto& [name, p] : model.named_parameters()) {
        const float third = name[0] == 'a' ? 4.0f / 3.0f : 2.0f / 3.0f;
        for (const float g : p.grad().to_vector<float>()) {
          expect(g == third, name, ": ", g, ", expected ", third);
        }
      }
    });
  }
}

TEST_CASE("fully_shard leaves alone what no rank used, and names what only some used") {
  run_ranks(2, [](Communicator& world) {
    Branches model;
    model.use_b = false;
    fully_shard(model, world, {.unit = each<nn::Linear>()});
    for (int step = 0; step < 2; ++step) sum(model(four())).backward();
    expect(model.a.weight.grad().defined() && !model.b.weight.grad().defined(), "a alone");
    model.use_b = true;
    sum(model(four())).backward();
    expect(model.b.weight.grad().defined(), "b, too");
  });
  const auto errors = errors_of(2, [](Communicator& world) {
    Branches model;
    fully_shard(model, world);  // both in the root's unit
    model.use_a = world.rank() == 0;
    sum(model(four())).backward();
  });
  for (const std::string& error : errors) CHECK_THAT(error, ContainsSubstring("without a.weight"));
}

TEST_CASE("an error in forward leaves every strategy between two steps") {
  struct Bomb {};
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    Whole expected, got;
    for (const bool throws : {false, true}) {
      run_ranks(2, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        auto optimizer = make_method(Method::sgd, model->parameters());
        bool armed = false;
        model->get_submodule("fc2").register_forward_pre_hook([&](nn::Module&, const nn::Tensors&) {
          if (armed) throw Bomb();
        });
        for (int step = 0; step < 4; ++step) {
          armed = throws && step == 2;
          try {
            if (armed) subject_loss(Subject::mlp, *model, 9, world.rank()).backward();
          } catch (const Bomb&) {
          }
          armed = false;
          for (const Tensor& p : model->parameters()) {
            expect(partition(p) != nullptr, "between two steps there are shards");
          }
          subject_loss(Subject::mlp, *model, step, world.rank()).backward();
          optimizer->step();
          optimizer->zero_grad();
        }
        add_state(throws ? got : expected, *model, *optimizer);
      });
    }
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("an error in backward leaves every strategy between two steps") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    Whole expected, got;
    for (const bool throws : {false, true}) {
      run_ranks(2, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        auto optimizer = make_method(Method::sgd, model->parameters());
        for (int step = 0; step < 3; ++step) {
          if (throws && step == 1) {
            const Tensor x = ones({2, 7}, {.requires_grad = true});
            const Tensor y = (*model)(x);
            x.register_hook([](const Tensor&) -> Tensor { fail("stop here"); });
            try {
              sum(y).backward();
              fail("no error");
            } catch (const Error& error) {
              expect(std::string(error.what()).find("stop here") == 0, error.what());
            }
            optimizer->zero_grad();
          }
          subject_loss(Subject::mlp, *model, step, world.rank()).backward();
          optimizer->step();
          optimizer->zero_grad();
        }
        add_state(throws ? got : expected, *model, *optimizer);
      });
    }
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("evaluation computes what one process computes, keeps nothing and disturbs nothing") {
  const auto whole = make_subject(Subject::gpt);
  const NoGrad no_grad;
  const Tensor tokens(Array::from(std::vector<int64_t>{1, 5, 2, 7, 0, 3}, {1, 6}));
  const uint64_t expected = hash((*whole)(tokens).array());
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    run_ranks(3, [&](Communicator& world) {
      auto model = make_subject(Subject::gpt);
      climb(strategy, Subject::gpt, *model, world);
      const NoGrad no_grad_here;
      expect(hash((*model)(tokens).array()) == expected, "the same logits");
      expect(current_ledger().live(MemoryTag::communication) == 0, "freed");
      for (const Tensor& p : model->parameters()) expect(partition(p) != nullptr, "shards again");
    });
  }
}

TEST_CASE("a frozen unit is freed as soon as backward has passed it") {
  run_ranks(2, [](Communicator& world) {
    auto model = make_subject(Subject::odd);
    const DataParallel parallel =
        fully_shard(*model, world, {.unit = each_of({"in", "frozen", "out"}), .prefetch = 0});
    std::string log;
    subject_loss(Subject::odd, *model, 0, world.rank());
    const Tensor loss = subject_loss(Subject::odd, *model, 0, world.rank());
    parallel.on_event([&](const Event& event) {
      if (event.unit == "frozen" || event.unit == "in") {
        log += event.unit + " " + name(event.kind) + "; ";
      }
    });
    loss.backward();
    expect(log.find("frozen gather; frozen use; frozen free; in gather") == 0, log);
  });
}

TEST_CASE("what cannot be sharded is named") {
  const auto error_of = [](const std::function<void(Communicator&)>& program) {
    return errors_of(2, program)[0];
  };
  CHECK_THAT(error_of([](Communicator& world) {
               auto model = make_subject(Subject::odd);
               fully_shard(*model, world, {.unit = each<nn::Linear>()});
             }),
             ContainsSubstring("'twice.weight' of unit 'twice' and 'tied.weight' of unit 'tied'") &&
                 ContainsSubstring("one parameter"));
  CHECK_THAT(error_of([](Communicator& world) {
               auto model = make_subject(Subject::mlp);
               fully_shard(*model, world);
               fully_shard(*model, world);
             }),
             ContainsSubstring("shard already"));
  CHECK_THAT(error_of([](Communicator& world) {
               auto model = make_subject(Subject::mlp);
               model->get_submodule("fc2").to(kBFloat16);
               fully_shard(*model, world);
             }),
             ContainsSubstring("unit 'root' has parameters of float32") &&
                 ContainsSubstring("fc2.weight"));
  CHECK_THAT(error_of([](Communicator& world) {
               auto model = make_subject(Subject::mlp);
               ZeRO(*model, world, {.stage = 4});
             }),
             ContainsSubstring("stage must be 1, 2 or 3: 4"));
  CHECK_THAT(error_of([](Communicator& world) {
               auto model = make_subject(Subject::mlp);
               fully_shard(*model, world, {.ignored_parameters = {"fc9.weight"}});
             }),
             ContainsSubstring("no parameter 'fc9.weight'"));
  const auto mixed = [&](const MixedPrecision& dtypes) {
    return error_of([&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      fully_shard(*model, world, {.mixed_precision = dtypes});
    });
  };
  CHECK_THAT(mixed({.parameters = kInt64}),
             ContainsSubstring("mixed_precision.parameters must be a floating dtype: int64"));
  CHECK_THAT(mixed({.reduce = kBool}),
             ContainsSubstring("mixed_precision.reduce must be a floating dtype: bool"));
  CHECK_THAT(mixed({.output = kInt32}),
             ContainsSubstring("mixed_precision.output must be a floating dtype: int32"));
}

TEST_CASE("ignored parameters stay whole and are not averaged") {
  run_ranks(2, [](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    fully_shard(*model, world, {.ignored_parameters = {"fc1.bias"}});
    subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
    const Tensor bias = model->get_parameter("fc1.bias");
    expect(partition(bias) == nullptr && bias.grad().defined(), "whole");
    const Array other = bias.grad().array().clone();
    world.broadcast(other, 0);
    expect(world.rank() == 0 || hash(other) != hash(bias.grad().array()), "each its own gradient");
  });
}

TEST_CASE(
    "zero_grad() clears gradients kept under no_sync(), and those of shards after a forward") {
  constexpr Subject kSubject = Subject::mlp;
  const auto train = [](ShardingStrategy strategy, int way, Whole& whole) {
    run_ranks(2, [&](Communicator& world) {
      auto model = make_subject(kSubject);
      const auto climbed = [&]() -> DataParallel {
        if (strategy == ShardingStrategy::ddp) return DDP(*model, world);
        if (strategy == ShardingStrategy::zero1) return ZeRO(*model, world, {.stage = 1});
        return fully_shard(*model, world);
      };
      const DataParallel parallel = climbed();
      auto sgd = make_method(Method::sgd, model->parameters());
      for (int step = 0; step < 2; ++step) {
        {
          std::optional<NoSync> local;  // which can be moved
          local.emplace(parallel.no_sync());
          subject_loss(kSubject, *model, step + 9, world.rank()).backward();
          way == 0 ? sgd->zero_grad() : model->zero_grad(way == 1);
        }
        subject_loss(kSubject, *model, step + 5, world.rank()).backward();  // averaged
        const Tensor loss = subject_loss(kSubject, *model, step, world.rank());
        way == 0 ? sgd->zero_grad() : model->zero_grad(way == 1);
        loss.backward();
        sgd->step();
      }
      add_state(whole, *model, *sgd);
    });
  };
  for (const int way : {0, 1, 2}) {
    Whole expected;
    train(ShardingStrategy::ddp, way, expected);
    for (const ShardingStrategy strategy : {ShardingStrategy::zero1, ShardingStrategy::fsdp}) {
      CAPTURE(name(strategy), way);
      Whole got;
      train(strategy, way, got);
      CHECK(expected.difference(got) == "");
    }
  }
}
