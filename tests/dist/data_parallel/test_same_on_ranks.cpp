// What ranks must do alike beside the collectives: limits of norms, steps of optimizers, line
// searches, the strategy that a module is given to once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::hybrid};

// Two steps of an optimizer under a strategy; `act` stands between backward and the next forward.
template <class Act>
std::vector<std::string> errors_of_steps(ShardingStrategy strategy, const Act& act) {
  return errors_of(4, [&](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    climb(strategy, Subject::mlp, *model, world);
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    for (int step = 0; step < 2; ++step) {
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      act(world, *model, sgd);
      sgd.zero_grad();
    }
  });
}

void check_all(const std::vector<std::string>& errors, const std::vector<std::string>& parts) {
  for (const std::string& error : errors) {
    for (const std::string& part : parts) CHECK_THAT(error, ContainsSubstring(part));
  }
}

/// Least squares, of which each rank has rows of its own.
struct Rows {
  nn::Linear model{3, 1};
  Tensor x, y;
  explicit Rows(int rank) {
    const NoGrad no_grad;
    model.weight.copy_(Tensor(noise({1, 3}, kFloat32, 3)));
    model.bias.fill_(0.5);
    x = Tensor(noise({5, 3}, kFloat32, static_cast<uint64_t>(10 + rank)));
    y = Tensor(noise({5, 1}, kFloat32, static_cast<uint64_t>(20 + rank))) * (1.0 + 3.0 * rank);
  }
  Tensor loss() { return square(sin(model(x)) * 3.0 - y).mean(); }
};

}  // namespace

TEST_CASE("ranks that clip to different limits are told so by their next collective") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    check_all(errors_of_steps(strategy,
                              [](Communicator& world, nn::Module& model, optim::Optimizer&) {
                                const double limit = world.rank() == 1 ? 2.0 : 0.5;
                                optim::clip_grad_norm(model.parameters(), limit);
                              }),
              {"ranks disagree on what they did before", "clip_grad_norm to 0.5",
               "rank 1 says clip_grad_norm to 2"});
    check_all(
        errors_of_steps(strategy,
                        [](Communicator& world, nn::Module& model, optim::Optimizer&) {
                          if (world.rank() == 3) return;
                          optim::clip_grad_value(model.parameters(), 0.5);
                        }),
        {"ranks disagree on what they did before", "clip_grad_value to 0.5; rank 3 says nothing"});
  }
}

TEST_CASE("ranks of shards that ask for different norms are told so") {
  for (const ShardingStrategy strategy : {ShardingStrategy::zero1, ShardingStrategy::zero3,
                                          ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    for (const double p : {1.0, 3.0, std::numeric_limits<double>::infinity()}) {
      CAPTURE(name(strategy), p);
      check_all(errors_of_steps(strategy,
                                [&](Communicator& world, nn::Module& model, optim::Optimizer&) {
                                  const double mine = world.rank() == 2 ? p : 2.0;
                                  optim::grad_norm(model.parameters(), mine);
                                }),
                {"ranks disagree on what they did before", "the norm of gradients with p 2"});
    }
  }
}

TEST_CASE("a limit that all ranks share costs no collective, and one rank may ask for the norm") {
  run_ranks(4, [](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    climb(ShardingStrategy::ddp, Subject::mlp, *model, world);
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      const int64_t calls = world.traffic().calls();
      optim::clip_grad_norm(model->parameters(), 0.5);
      if (world.rank() == 0) optim::grad_norm(model->parameters());
      if (world.rank() == 1) optim::clip_grad_norm(model->parameters(), HUGE_VAL);
      sgd.step();
      expect(world.traffic().calls() == calls, "no call of its own");
      sgd.zero_grad();
    }
  });
}

TEST_CASE("a rank that leaves out a step, or steps by another rate, is named") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    check_all(
        errors_of_steps(strategy,
                        [](Communicator& world, nn::Module&, optim::Optimizer& sgd) {
                          if (world.rank() != 2) sgd.step();
                        }),
        {"ranks disagree on what they did before", "sgd step with lr 0.1", "rank 2 says nothing"});
    check_all(errors_of_steps(strategy,
                              [](Communicator& world, nn::Module&, optim::Optimizer& sgd) {
                                if (world.rank() == 0) sgd.set_option("momentum", 0.5);
                                sgd.step();
                              }),
              {"ranks disagree on what they did before", "sgd step with lr 0.1 (options of hash"});
  }
}

TEST_CASE(
    "ranks whose steps differ in members, numbers of steps, a rate or gradients are told so") {
  enum class Other { members, steps, rate, gradients };
  for (const ShardingStrategy strategy : kAll) {
    for (const Other other : {Other::members, Other::steps, Other::rate, Other::gradients}) {
      CAPTURE(name(strategy), static_cast<int>(other));
      const auto errors = errors_of(4, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        const bool differs = world.rank() == 1;
        nn::Tensors first = model->get_submodule("fc1").parameters();
        nn::Tensors second = model->get_submodule("fc2").parameters();
        if (differs && other == Other::members) std::swap(first, second);
        const double lr = differs && other == Other::rate ? 0.1 * (1.0 + 3e-8) : 0.1;
        const std::vector<optim::AdamW::Group> groups = {{first, {.lr = lr}},
                                                         {second, {.lr = 0.01}}};
        std::optional<optim::AdamW> adamw(groups);
        for (int step = 0; step < 3; ++step) {
          subject_loss(Subject::mlp, *model, step, world.rank()).backward();
          if (step == 1 && differs && other == Other::steps) adamw.emplace(groups);
          if (step == 1 && other == Other::gradients) {
            model->get_submodule(differs ? "fc1" : "fc2").zero_grad();  // as many as the others
          }
          adamw->step();
          model->zero_grad();
        }
      });
      check_all(errors, {"ranks disagree on what they did before", "adamw step with lr 0.1",
                         "members of groups"});
    }
  }
}

TEST_CASE("the text of a step says which of its parts differ") {
  const auto error = errors_of(2, [](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    nn::Tensors order = model->parameters();
    if (world.rank() == 1) std::reverse(order.begin(), order.end());  // which changes no step
    optim::SGD sgd(order, {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      if (step == 2 && world.rank() == 1) sgd.set_lr(0.1 + 1e-9);
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      sgd.step();
      sgd.zero_grad();
    }
    world.barrier();
  })[0];
  const auto after = [&](const std::string& what, size_t from) {
    return error.substr(error.find(what, from) + what.size(), 8);
  };
  const size_t second = error.find("rank 1 says");
  REQUIRE(second != std::string::npos);
  CHECK_THAT(error, ContainsSubstring("sgd step with lr 0.100000001"));
  CHECK(after("options of hash ", 0) != after("options of hash ", second));
  for (const std::string same : {"members of groups ", "numbers of steps ", "gradients "}) {
    CHECK(after(same, 0) == after(same, second));
  }
}

TEST_CASE("ranks whose losses are scaled by different factors are told so") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    check_all(errors_of_steps(strategy,
                              [](Communicator& world, nn::Module&, optim::Optimizer& sgd) {
                                const double scale = world.rank() == 1 ? 512.0 : 1024.0;
                                optim::GradScaler scaler({.init_scale = scale});
                                scaler.step(sgd);
                              }),
              {"ranks disagree on what they did before", "rank 1 says unscale gradients by 512"});
  }
}

TEST_CASE("replicas that begin with different parameters are told so by the first sum") {
  const auto errors_of_step = [](const auto& make) {
    return errors_of(4, [&](Communicator& world) {
      manual_seed(1);
      SmallMLP model;
      make(model, world);
      subject_loss(Subject::mlp, model, 0, world.rank()).backward();
    });
  };
  const auto differ = [](SmallMLP& model, int rank) {
    const NoGrad no_grad;
    if (rank == 3) model.fc2.bias.fill_(0.25);
  };
  const std::vector<std::string> said = {"ranks disagree on what they did before",
                                         "rank 3 says begin with parameters of hash"};
  check_all(errors_of_step([&](SmallMLP& model, Communicator& world) {
              differ(model, world.rank());
              const DDP ddp(model, world, {.broadcast_parameters = false});
            }),
            said);
  check_all(errors_of_step([&](SmallMLP& model, Communicator& world) {
              const DDP ddp(model, world);
              differ(model, world.rank());  // as by a file that one rank has read
            }),
            said);
  const auto hybrid = [](SmallMLP& model, Communicator& world, bool sync) {
    fully_shard(model, Mesh(world, {{"replicate", 2}, {"shard", 2}}), {.sync_module_states = sync});
  };
  // the replicas of this shard are ranks 1 and 3; the others may be done before they hear of it
  const auto of_hybrid = errors_of_step([&](SmallMLP& model, Communicator& world) {
    differ(model, world.rank());
    hybrid(model, world, false);
  });
  check_all({of_hybrid[1], of_hybrid[3]}, said);
  for (const std::string& error : errors_of_step([&](SmallMLP&model, Communicator&world) {
         differ(model, world.rank());
         hybrid(model, world, true);
       })) {
    CHECK(error.empty());
  }
}

TEST_CASE("what is declared in vain for long does not grow") {
  check_all(errors_of(2,
                      [](Communicator& world) {
                        for (int i = 0; i < 1000; ++i) {
                          world.declare("this is number " + std::to_string(i));
                        }
                        world.barrier();
                        if (world.rank() == 1) world.declare("something else");
                        for (int i = 0; i < 1000; ++i) world.declare("a step");
                        world.barrier();
                      }),
            {"barrier (call 1 of 'world')", "what they did before", "what has the hash"});
}

TEST_CASE("lbfgs under DDP searches by the mean of all ranks' losses") {
  constexpr int kRanks = 3;
  Rows alone(0);
  std::vector<std::unique_ptr<Rows>> parts;
  for (int i = 0; i < kRanks; ++i) parts.push_back(std::make_unique<Rows>(i));
  const optim::LBFGSOptions wolfe = {.max_iter = 8, .line_search = optim::LineSearch::strong_wolfe};
  optim::LBFGS single(alone.model.parameters(), wolfe);
  std::vector<double> losses;
  for (int step = 0; step < 2; ++step) {
    losses.push_back(single
                         .step([&] {
                           single.zero_grad();
                           Tensor mean = zeros({});
                           for (const auto& part : parts) {
                             const Tensor out = sin(alone.model(part->x)) * 3.0;
                             mean = mean + square(out - part->y).mean() / double{kRanks};
                           }
                           mean.backward();
                           return mean;
                         })
                         .item());
  }
  const std::vector<float> expected = alone.model.weight.array().to_vector<float>();
  std::vector<std::vector<float>> weights(kRanks);
  run_ranks(kRanks, [&](Communicator& world) {
    Rows own(world.rank());
    const DDP ddp(own.model, world);
    optim::LBFGS lbfgs(own.model.parameters(), wolfe);
    for (const double loss : losses) {
      const Tensor first = lbfgs.step([&] {
        lbfgs.zero_grad();
        const Tensor mine = own.loss();
        mine.backward();
        return mine;
      });
      expect(std::fabs(first.item() - loss) < 1e-4 * loss, "the mean: ", first.item(), " ", loss);
    }
    weights[static_cast<size_t>(world.rank())] = own.model.weight.array().to_vector<float>();
  });
  for (const auto& weight : weights) {
    CHECK(weight == weights[0]);
    for (size_t i = 0; i < expected.size(); ++i) {
      // another order of additions in each of some twenty evaluations
      CHECK_THAT(weight[i], Catch::Matchers::WithinAbs(expected[i], 1e-3));
    }
  }
}

TEST_CASE("a rank that leaves out zero_grad() is told so") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    const auto errors = errors_of(4, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, world);
      optim::SGD sgd(model->parameters(), {.lr = 0.1});
      for (int step = 0; step < 3; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        sgd.step();
        if (step == 0 || world.rank() != 2) sgd.zero_grad();
      }
    });
    check_all(errors, {"ranks disagree on what they did before", "rank 2 says",
                       "backward adds to the gradients of one before"});
  }
}

TEST_CASE("one rank may evaluate alone under DDP") {
  const auto train = [](bool evaluates) {
    nn::StateDict state;
    run_ranks(3, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      climb(ShardingStrategy::ddp, Subject::mlp, *model, world);
      optim::SGD sgd(model->parameters(), {.lr = 0.1});
      for (int step = 0; step < 3; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        sgd.step();
        sgd.zero_grad();
        if (!evaluates || world.rank() != 1) continue;
        const NoGrad no_grad;
        model->eval();
        (*model)(ones({1, 7}));
        model->train();
      }
      if (world.rank() == 0) state = model->state_dict();
    });
    return state;
  };
  CHECK(same_state(train(true), train(false)));
}

TEST_CASE("lbfgs refuses parameters of which only some are averaged, and no_sync()") {
  const auto step = [](optim::LBFGS& lbfgs, Rows& rows, const Tensor& factor) {
    lbfgs.step([&] {
      lbfgs.zero_grad();
      const Tensor loss = rows.loss() * factor.sum();
      loss.backward();
      return loss;
    });
  };
  check_all(errors_of(2,
                      [&](Communicator& world) {
                        Rows rows(world.rank());
                        const DDP ddp(rows.model, world);
                        const Tensor own(Array::ones({2}), true);
                        optim::LBFGS lbfgs({rows.model.weight, own});
                        step(lbfgs, rows, own);
                      }),
            {"lbfgs: parameter 0 is averaged over the ranks by DDP of Linear, and "
             "parameter 1 by nothing"});
  check_all(errors_of(2,
                      [&](Communicator& world) {
                        Rows rows(world.rank());
                        const DDP ddp(rows.model, world);
                        optim::LBFGS lbfgs(rows.model.parameters());
                        const NoSync local = ddp.no_sync();
                        step(lbfgs, rows, Tensor(Array::ones({})));
                      }),
            {"lbfgs: the gradients of DDP of", "are not averaged now, as within no_sync()"});
}

TEST_CASE("a module is given to a strategy once") {
  const auto refused = [](const auto& again) {
    check_all(errors_of(2,
                        [&](Communicator& world) {
                          SmallMLP model;
                          const DDP ddp(model, world);
                          again(model, world);
                        }),
              {"parameter 'fc", "is averaged by DDP of", "already; give a module to DDP"});
  };
  refused([](SmallMLP& model, Communicator& world) { const DDP ddp(model, world); });
  refused([](SmallMLP& model, Communicator& world) { fully_shard(model, world); });
  for (const int stage : {1, 2, 3}) {
    refused([&](SmallMLP& model, Communicator& world) {
      const ZeRO zero(model, world, {.stage = stage});
    });
  }
  run_ranks(2, [](Communicator& world) {
    SmallMLP model;
    const DDP part(model.fc1, world);
    const DDP rest(model, world, {.ignored_modules = {"fc1"}});
    subject_loss(Subject::mlp, model, 0, world.rank()).backward();
    optim::SGD(model.parameters(), {.lr = 0.1}).step();
    const Array first = model.fc1.weight.array().clone();
    world.broadcast(first, 0);
    expect(first.to_vector<float>() == model.fc1.weight.array().to_vector<float>(),
           "the part was averaged, too");
  });
}
