// What the strategies can do beside: whole parameters on request, mixed precision, buffers.
#include <array>
#include <mutex>

#include "dist/data_parallel/strategies.h"
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/accumulator.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("while whole parameters are summoned, nothing else shows or computes with others") {
  const auto error_of = [](const std::function<void(DataParallel&, nn::Module&)>& body) {
    return errors_of(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      auto parallel = fully_shard(*model, world, {.unit = each<nn::Linear>()});
      const FullParameters full = parallel.summon_full_parameters();
      body(parallel, *model);
    });
  };
  using Body = std::function<void(DataParallel&, nn::Module&)>;
  for (const Body& body :
       {Body([](auto&parallel, auto&) { const auto again = parallel.summon_full_parameters(); }),
        Body([](auto&parallel, auto&) { parallel.full_state_dict(); }), Body([](auto&, auto&model) {
          model(ones({1, 7}));
        })}) {
    {
      const std::string error = error_of(body)[0];
      CHECK_THAT(error,
                 ContainsSubstring("are summoned; end the scope of summon_full_parameters()"));
    }
  }
}

TEST_CASE("a step while whole parameters are summoned is kept") {
  const auto train = [](bool summons, bool writes) {
    nn::StateDict state;
    run_ranks(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const auto parallel = fully_shard(*model, world, {.unit = each<nn::Linear>()});
      const auto sgd = make_method(Method::sgd, model->parameters());
      subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
      if (summons) {
        const FullParameters full = parallel.summon_full_parameters();
        const NoGrad no_grad;
        if (writes)
          model->get_parameter("fc1.bias").fill_(0.5);  // this unit's step is written over
        sgd->step();
      } else {
        sgd->step();
      }
      const nn::StateDict whole = parallel.full_state_dict();
      if (world.rank() == 0) state = whole;
    });
    return state;
  };
  const nn::StateDict stepped = train(false, false), written = train(true, true);
  CHECK(same_state(train(true, false), stepped));
  for (size_t i = 0; i < stepped.size(); ++i) {
    CAPTURE(stepped[i].name);
    CHECK(same(written[i].array, stepped[i].array) == !stepped[i].name.starts_with("fc1"));
  }
}

TEST_CASE("whole parameters can be summoned, read and written") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    run_ranks(3, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      const nn::StateDict expected = make_subject(Subject::mlp)->state_dict();
      const auto check_values = [&](const DataParallel& parallel) {
        {
          const FullParameters full = parallel.summon_full_parameters();
          expect(same_state(model->state_dict(), expected), "whole, with the module's names");
          const NoGrad no_grad;
          model->get_parameter("fc2.weight").fill_(3.0);
        }
        expect(partition(model->get_parameter("fc2.weight")) != nullptr, "a shard again");
        {
          const FullParameters full = parallel.summon_full_parameters({.writeback = false});
          const Tensor w = model->get_parameter("fc2.weight");
          expect(w.shape() == Shape{11, 13} && w.to_vector<float>()[142] == 3.0f, "kept");
          const NoGrad no_grad;
          w.fill_(4.0);
        }
        const nn::StateDict after = parallel.full_state_dict();
        expect(after[2].name == "fc2.weight" && after[2].array.to_vector<float>()[0] == 3.0f,
               "without writeback nothing is kept");
        const NoGrad no_grad;
        (*model)(ones({1, 7}));  // stages 1 and 2 gather what the others wrote
        const Tensor y = (*model)(ones({1, 7}));
        const Array ys = y.array().clone();
        world.broadcast(ys, 0);
        expect(hash(ys) == hash(y.array()), "all ranks compute the same");
      };
      if (strategy == ShardingStrategy::fsdp || strategy == ShardingStrategy::fsdp_kept) {
        check_values(fully_shard(*model, world, {.unit = each<nn::Linear>()}));
      } else {
        check_values(ZeRO(*model, world, {.stage = static_cast<int>(strategy) - 1}));
      }
    });
  }
}

TEST_CASE("mixed precision: gathered and computed in bfloat16, added up and stepped in float32") {
  const FSDPOptions options = {
      .unit = each<nn::Block>(),
      .mixed_precision = {.parameters = kBFloat16, .reduce = kFloat32, .output = kFloat32}};
  Whole expected, got;
  const auto step_all = [&](nn::Module& model, int rank, int count) {
    for (int i = 0; i < count; ++i) {
      subject_loss(Subject::gpt, model, 0, count > 1 ? i : rank).backward();
    }
  };
  // one rank with two micro-batches, then two ranks with one each
  run_ranks(1, [&](Communicator& world) {
    auto model = make_subject(Subject::gpt);
    fully_shard(*model, world, options);
    auto optimizer = make_method(Method::sgd, model->parameters());
    step_all(*model, 0, 2);
    for (const Tensor& p : model->parameters()) p.grad().div_(2.0);
    optimizer->step();
    add_state(expected, *model, *optimizer);
  });
  run_ranks(2, [&](Communicator& world) {
    auto model = make_subject(Subject::gpt);
    const DataParallel parallel = fully_shard(*model, world, options);
    bool seen = false;
    static_cast<nn::GPT&>(*model).transformer.h[0].register_forward_pre_hook(
        [&](nn::Module& block, const nn::Tensors& in) {
          seen = block.parameters()[0].dtype() == kBFloat16 && in[0].dtype() == kBFloat16;
        });
    auto optimizer = make_method(Method::sgd, model->parameters());
    world.traffic().reset();
    step_all(*model, world.rank(), 1);
    expect(seen, "blocks compute in bfloat16");
    int64_t psi = 0, root = 0;
    for (const UnitInfo& unit : parallel.units()) {
      psi += unit.flat_numel;
      if (unit.name == "root") root = unit.flat_numel;
    }
    const Array bytes = Array::from(std::vector<int64_t>{world.traffic().bytes()}, {1});
    world.all_reduce(bytes);
    expect(bytes.item<int64_t>() == 2 * (2 * psi - root) + 4 * psi, "2 bytes gathered, 4 reduced");
    for (const Tensor& p : model->parameters()) expect(p.dtype() == kFloat32, "float32 shards");
    optimizer->step();
    add_state(got, *model, *optimizer);
  });
  CHECK(expected.difference(got) == "");
}

TEST_CASE("buffers of rank 0 are everybody's, before each forward in training") {
  struct Norm : nn::Module {
    nn::BatchNorm1d& bn = add<nn::BatchNorm1d>("bn", 4);
    Tensor forward(const Tensor& x) override { return bn(x); }
  };
  run_ranks(3, [](Communicator& world) {
    Norm model;
    const DDP ddp(model, world);
    for (int step = 0; step < 2; ++step) {
      sum(ddp(Tensor(noise({5, 4}, kFloat32, static_cast<uint64_t>(world.rank() + 1))))).backward();
    }
    const Array before = model.get_buffer("bn.running_mean").array().clone();
    ddp(Tensor(noise({5, 4}, kFloat32, 9)));  // broadcasts, then moves on alike
    const Array mine = model.get_buffer("bn.running_mean").array().clone();
    const Array first = mine.clone();
    world.broadcast(first, 0);
    expect(hash(first) == hash(mine), "the same running mean");
    expect(world.rank() == 0 || hash(before) != hash(mine), "it had drifted");
  });
}

TEST_CASE("ranks with fewer batches join the others' steps, and all end with the same bits") {
  const std::array<int, 3> batches = {2, 5, 0};
  for (const Method method : {Method::sgd, Method::adamw}) {
    Whole expected;
    auto alone = make_subject(Subject::mlp);
    auto optimizer = make_method(method, alone->parameters());
    for (int step = 0; step < 5; ++step) {
      for (int rank = 0; rank < 3; ++rank) {
        const bool has = step < batches[static_cast<size_t>(rank)];
        (subject_loss(Subject::mlp, *alone, step, rank) * (has ? 1.0 : 0.0)).backward();
      }
      for (const Tensor& p : alone->parameters()) p.grad().div_(3.0);
      finish_step(*alone, *optimizer, 0.1);
    }
    add_state(expected, *alone, *optimizer);
    for (const int stage : {0, 1, 2}) {
      CAPTURE(stage);
      Whole got;
      run_ranks(3, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        const auto train_joined = [&](const DataParallel& parallel) {
          auto mine = make_method(method, model->parameters());
          const auto step = [&] { finish_step(*model, *mine, 0.1); };
          parallel.join(
              [&] {
                for (int i = 0; i < batches[static_cast<size_t>(world.rank())]; ++i) {
                  subject_loss(Subject::mlp, *model, i, world.rank()).backward();
                  step();
                }
              },
              step);
          add_state(got, *model, *mine);
        };
        if (stage == 0) {
          train_joined(DDP(*model, world, {.bucket_bytes = 300}));
        } else {
          train_joined(ZeRO(*model, world, {.stage = stage, .bucket_bytes = 300}));
        }
      });
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("what is frozen after a pass under no_sync() gets the mean of that pass") {
  const auto freeze = [](nn::Module& model, bool on) {
    for (const char* name : {"fc1.bias", "fc2.weight"})
      model.get_parameter(name).requires_grad_(!on);
  };
  constexpr Subject kSubject = Subject::mlp;
  const auto alone = make_subject(kSubject);
  optim::Accumulator gradients(alone->parameters());
  for (int rank = 0; rank < 3; ++rank) {
    freeze(*alone, false);
    subject_loss(kSubject, *alone, 0, rank).backward();
    freeze(*alone, true);
    subject_loss(kSubject, *alone, 1, rank).backward();
    gradients.add();
  }
  gradients.mean();
  make_method(Method::sgd, alone->parameters())->step();
  const nn::StateDict expected = alone->state_dict();
  for (const int strategy : {0, 1, 2, 3, 4}) {
    CAPTURE(strategy);
    run_ranks(3, [&](Communicator& world) {
      const auto model = make_subject(kSubject);
      const auto climbed = [&]() -> DataParallel {
        if (strategy == 0)
          return DDP(*model, world, {.bucket_bytes = 400, .first_bucket_bytes = 40});
        if (strategy < 4) return ZeRO(*model, world, {.stage = strategy});
        return fully_shard(*model, world, {.unit = each<nn::Linear>()});
      };
      const DataParallel parallel = climbed();
      const auto sgd = make_method(Method::sgd, model->parameters());
      {
        const NoSync local = parallel.no_sync();
        subject_loss(kSubject, *model, 0, world.rank()).backward();
      }
      freeze(*model, true);
      subject_loss(kSubject, *model, 1, world.rank()).backward();
      sgd->step();
      expect(same_state(parallel.full_state_dict(), expected), "the bits of one process");
    });
  }
}
