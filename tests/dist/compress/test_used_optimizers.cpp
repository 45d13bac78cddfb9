// Optimizers that stepped before their model was cut or converted: the bits of one process that
// goes on.
#include "dist/parallel/axes.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/device/planned_device.h>
#include <hero/core/swap_file.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/gather_parameter.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

// A model whose optimizer has taken two steps in one process, each with the micro-batches of
// `ranks`.
struct Used {
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;

  Used(Subject subject, Method method, int ranks, DType dtype = kFloat32, bool masters = false)
      : model(make_subject(subject)) {
    model->to(dtype);
    optimizer = make_method(method, model->parameters(), masters);
    train_alone(subject, *model, *optimizer, ranks, 2, 0.0);
  }
};

// `to`: what the model is converted to, before it climbs or on the strategy.
struct Case {
  ShardingStrategy strategy = ShardingStrategy::fsdp;
  Subject subject = Subject::mlp;
  Method method = Method::adamw;
  int ranks = 2;
  DType from = kFloat32, to = kFloat32;
  bool under_strategy = false;
  bool masters = false;
  bool on_disk = false;  // shards lie in a file
};

std::string difference(const Case& c) {
  Whole expected, got;
  Used alone(c.subject, c.method, c.ranks, c.from, c.masters);
  alone.model->to(c.to);
  train_alone(c.subject, *alone.model, *alone.optimizer, c.ranks, 3, 0.0);
  add_state(expected, *alone.model, *alone.optimizer);
  run_ranks(c.ranks, [&](Communicator& world) {
    core::SwapFile file("/tmp", {.bytes = int64_t{1} << 20});
    Used used(c.subject, c.method, c.ranks, c.from, c.masters);
    if (!c.under_strategy) used.model->to(c.to);
    climb(c.strategy, c.subject, *used.model, world, Order::tree, 2,
          {.disk = c.on_disk ? &file : nullptr});
    if (c.under_strategy) used.model->to(c.to);
    train(c.subject, *used.model, *used.optimizer, world, 3, 0.0);
    add_state(got, *used.model, *used.optimizer);
  });
  return expected.size() < 4 ? "too few names" : expected.difference(got);
}

constexpr Method kMethods[] = {Method::sgd, Method::adamw, Method::lamb, Method::adafactor,
                               Method::muon};

}  // namespace

TEST_CASE(
    "an optimizer that has stepped goes on with the bits of one process under every strategy") {
  for (const Subject subject : {Subject::mlp, Subject::odd}) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
          ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
          ShardingStrategy::hybrid}) {
      for (const Method method : kMethods) {
        for (const int ranks : {1, 3, 4}) {
          if (strategy == ShardingStrategy::hybrid && ranks != 4) continue;
          CAPTURE(static_cast<int>(subject), name(strategy), static_cast<int>(method), ranks);
          CHECK(difference({strategy, subject, method, ranks}) == "");
        }
      }
    }
  }
}

TEST_CASE("states follow conversions under a strategy, and shards that are converted") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero3,
        ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    for (const auto& [from, to] :
         {std::pair(kFloat32, kFloat64), {kFloat64, kFloat32}, {kBFloat16, kFloat32}}) {
      for (const bool under_strategy : {false, true}) {
        for (const Method method : {Method::sgd, Method::adamw, Method::lamb, Method::adafactor}) {
          CAPTURE(name(strategy), hero::name(from), hero::name(to), under_strategy,
                  static_cast<int>(method));
          CHECK(difference({strategy, Subject::mlp, method, 4, from, to, under_strategy}) == "");
        }
      }
    }
  }
}

TEST_CASE("masters that have stepped are cut with their parameters, under every strategy") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    for (const DType to : {kBFloat16, kFloat32}) {
      CAPTURE(name(strategy), hero::name(to));
      CHECK(difference({strategy, Subject::mlp, Method::adamw, 4, kBFloat16, to, true, true}) ==
            "");
    }
  }
}

TEST_CASE("states that have stepped are those of shards in a file") {
  for (const ShardingStrategy strategy : {ShardingStrategy::zero1, ShardingStrategy::zero3,
                                          ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    for (const bool masters : {false, true}) {
      const DType from = masters ? kBFloat16 : kFloat32;
      for (const DType to : {from, kFloat32, kFloat64}) {
        CAPTURE(name(strategy), masters, hero::name(to));
        CHECK(difference({.strategy = strategy,
                          .ranks = 4,
                          .from = from,
                          .to = to,
                          .under_strategy = true,
                          .masters = masters,
                          .on_disk = true}) == "");
      }
    }
  }
}

namespace {

// The state that an optimizer of parts of whole parameters has: each leaf's own elements of it.
optim::StateDict own_state(const optim::StateDict& whole, const std::vector<Tensor>& leaves) {
  optim::StateDict own;
  for (const auto& [name, array] : whole) {
    const bool is_array = name.rfind("state.", 0) == 0 && array.ndim() > 0;
    const size_t index = is_array ? static_cast<size_t>(std::stoi(name.substr(6))) : 0;
    own.push_back({name, is_array ? optim::own_part(leaves[index], array) : array});
  }
  return own;
}

using Step = std::function<void(int step, optim::Optimizer& optimizer)>;
using PlaceModel = std::function<Step(nn::GPT& model, const Communicator& world)>;

// Ranks train whole models, place them, and go on: with the optimizer that they had, or with one
// that is made there and loads the parts of its state.
std::string placed_difference(int ranks, const PlaceModel& place) {
  const auto run = [&](bool anew, Whole& whole) {
    run_ranks(ranks, [&](Communicator& world) {
      manual_seed(5);
      nn::GPT model(axes_gpt());
      const std::vector<Tensor> leaves = model.parameters();
      std::optional<optim::AdamW> adamw(std::in_place, leaves, optim::AdamWOptions{.lr = 0.01});
      for (int step = 0; step < 2; ++step) {
        const auto [x, y] = axes_batch(step, 0);
        model.loss(x, y).backward();
        adamw->step();
        adamw->zero_grad();
      }
      const optim::StateDict before = adamw->state_dict();
      const Step step = place(model, world);
      if (anew) {
        adamw.emplace(leaves);
        adamw->load_state_dict(own_state(before, leaves));
      }
      for (int i = 2; i < 5; ++i) step(i, *adamw);
      add_state(whole, model, *adamw);
    });
  };
  Whole used, made;
  run(false, used);
  run(true, made);
  return used.size() < 8 ? "too few names" : used.difference(made);
}

Step by_loss(nn::GPT& model, int replica) {
  return [&model, replica](int step, optim::Optimizer& optimizer) {
    const auto [x, y] = axes_batch(step, replica);
    model.loss(x, y).backward();
    finish_step(model, optimizer, 1.0);
  };
}

}  // namespace

TEST_CASE("a slice of a tensor-parallel layer is cut again with its states") {
  CHECK(placed_difference(2, [](nn::GPT& model, const Communicator& world) {
          tensor_parallel(model, world);
          return by_loss(model, 0);
        }) == "");
  for (const bool zero : {false, true}) {
    CAPTURE(zero);
    CHECK(placed_difference(4, [&](nn::GPT& model, const Communicator& world) {
            const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
            tensor_parallel(model, mesh["tensor"]);
            if (zero) {
              ZeRO(model, mesh["data"], {.stage = 2, .bucket_bytes = 700});
            } else {
              fully_shard(model, mesh["data"], {.unit = each<nn::Block>()});
            }
            return by_loss(model, mesh.coordinate("data"));
          }) == "");
  }
}

TEST_CASE("states stay on the stage of a pipeline that has their parameters, and in its shards") {
  CHECK(placed_difference(4, [](nn::GPT& model, const Communicator& world) -> Step {
          const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
          const auto pipe = std::make_shared<Pipeline>(
              model, mesh["pipe"], PipelineOptions{.micro_batches = kAxesMicroBatches});
          fully_shard(model, mesh["data"], {.unit = each<nn::Block>()});
          return [pipe, replica = mesh.coordinate("data")](int step, optim::Optimizer& optimizer) {
            const auto [x, y] = axes_batch(step, replica);
            pipe->step(x, y);
            std::vector<double> norms;
            finish_pipe_step(pipe->parameters(), optimizer, norms);
          };
        }) == "");
}

TEST_CASE("averages of a model that is then sharded are the shards'") {
  const auto average = [](nn::Module& model, optim::EMA& ema, optim::Optimizer& sgd, int ranks,
                          const Communicator* world) {
    for (int step = 0; step < 2; ++step) {
      world != nullptr ? train(Subject::mlp, model, sgd, *world, 1, 0.0)
                       : train_alone(Subject::mlp, model, sgd, ranks, 1, 0.0);
      ema.step();
    }
  };
  Whole expected, got;
  {
    Used alone(Subject::mlp, Method::sgd, 3);
    optim::EMA ema(alone.model->parameters(), {.decay = 0.5});
    average(*alone.model, ema, *alone.optimizer, 3, nullptr);
    average(*alone.model, ema, *alone.optimizer, 3, nullptr);
    const optim::EMA::Scope scope(ema);
    add_state(expected, *alone.model, ema);
  }
  run_ranks(3, [&](Communicator& world) {
    Used used(Subject::mlp, Method::sgd, 3);
    optim::EMA ema(used.model->parameters(), {.decay = 0.5});
    average(*used.model, ema, *used.optimizer, 3, nullptr);
    climb(ShardingStrategy::fsdp, Subject::mlp, *used.model, world);
    average(*used.model, ema, *used.optimizer, 3, &world);
    const optim::EMA::Scope scope(ema);
    add_state(got, *used.model, ema);
  });
  CHECK(expected.size() > 4);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("a checkpoint between sharding and the next step has the states of shards") {
  const hero_test::TempDir dir;
  Whole expected, got;
  for (const bool resumed : {false, true}) {
    run_ranks(3, [&](Communicator& world) {
      Checkpointer checkpoint(dir / "run", world);
      if (!resumed) {
        Used used(Subject::mlp, Method::adamw, 3);
        climb(ShardingStrategy::fsdp, Subject::mlp, *used.model, world);
        checkpoint.track("model", *used.model);
        checkpoint.track("optimizer", *used.optimizer);
        checkpoint.save(2);
        train(Subject::mlp, *used.model, *used.optimizer, world, 2, 0.0);
        return add_state(expected, *used.model, *used.optimizer);
      }
      const auto model = make_subject(Subject::mlp);
      climb(ShardingStrategy::zero3, Subject::mlp, *model, world);
      const auto optimizer = make_method(Method::adamw, model->parameters());
      checkpoint.track("model", *model);
      checkpoint.track("optimizer", *optimizer);
      checkpoint.resume();
      train(Subject::mlp, *model, *optimizer, world, 2, 0.0);
      add_state(got, *model, *optimizer);
    });
  }
  CHECK(expected.size() > 4);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("states of simulated ranks are as large as their shards, and lie where these do") {
  for (const bool offloaded : {false, true}) {
    CAPTURE(offloaded);
    const core::PlannedDevice planned(offloaded ? DeviceType::cuda : DeviceType::cpu);
    simulate_ranks(8, [&](Communicator& world) {
      nn::Linear model(64, 64, {.bias = false});
      model.to(kMeta);
      optim::AdamW adamw(model.parameters());
      model.weight.set_grad(Tensor(Array::empty({64, 64}, kFloat32, kMeta)));
      adamw.step();
      expect(adamw.state_dict().back().array.device() == kMeta, "not on meta");
      fully_shard(model, world, {.offload = {.optimizer = offloaded, .parameters = offloaded}});
      const Tensor& leaf = model.weight;
      expect(leaf.device() == (offloaded ? core::kPlannedHost : kMeta), "the shard's device");
      leaf.set_grad(Tensor(Array::empty(leaf.shape(), kFloat32, leaf.device())));
      adamw.step();
      for (const auto& [name, array] : adamw.state_dict()) {
        if (array.ndim() == 0) continue;
        expect(array.numel() == 64 * 64 / 8, name, " is not a shard's");
        expect(array.device() == leaf.device(), name, " lies elsewhere");
      }
    });
  }
}

TEST_CASE("an optimizer that sends bits follows the module's dtype, and refuses float64") {
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    model->to(kBFloat16);
    const DDP ddp(*model, world);
    OneBitAdam adam(ddp, model->parameters(), {.lr = 0.01, .freeze_step = 2});
    train(Subject::mlp, *model, adam, world, 1, 0.0);
    model->to(kFloat32);
    train(Subject::mlp, *model, adam, world, 3, 0.0);
    expect(adam.frozen(), "frozen");
    const optim::StateDict before = adam.state_dict();
    model->to(kFloat64);
    subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
    std::string error;
    try {
      adam.step();
    } catch (const Error& refused) {
      error = refused.what();
    }
    expect(error.find("one_bit_adam: parameter 'fc1.weight' is float64, and bits stand for "
                      "float32; convert the module") == 0,
           error);
    model->to(kFloat32);
    expect(same_state(adam.state_dict(), before), "another state");
    adam.step();
  });
}
