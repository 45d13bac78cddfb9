// Graphs that are walked more than once: gradients of gradients, several backward passes a step,
// tensors used on both sides of a unit's edge.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

/// What a rank does for one step's gradients.
using Backward = std::function<void(nn::Module& model, int step, int rank)>;

Tensor inputs(int step, int rank, bool requires_grad = false) {
  const auto seed = static_cast<uint64_t>(100 * step + rank + 1);
  return Tensor(noise({2, 7}, kFloat32, seed), requires_grad);
}

// The loss, and how steep the model is at its inputs.
void penalized(nn::Module& model, int step, int rank) {
  const Tensor x = inputs(step, rank, true);
  const Tensor y = sum(square(model(x)));
  const Tensor slope = grad(y, x, {.create_graph = true});
  (y + sum(square(slope))).backward();
}

// Several forwards, as of a critic: real, generated, and between them.
void critic(nn::Module& model, int step, int rank) {
  const Tensor real = model(inputs(step, rank)), made = model(inputs(step, rank + 50));
  const Tensor between = inputs(step, rank + 90, true);
  const Tensor slope = grad(sum(model(between)), between, {.create_graph = true});
  const Tensor norm = sqrt(sum(square(slope), {1}) + 1e-6);
  (mean(made) - mean(real) + mean(square(norm - 1.0))).backward();
}

std::string difference(Subject subject, ShardingStrategy strategy, int ranks,
                       const Backward& backward) {
  Whole expected, got;
  {
    auto model = make_subject(subject);
    auto sgd = make_method(Method::sgd, model->parameters());
    for (int step = 0; step < 3; ++step) {
      for (int r = 0; r < ranks; ++r) backward(*model, step, r);
      for (const Tensor& p : model->parameters()) {
        if (p.grad().defined()) p.grad().div_(static_cast<double>(ranks));
      }
      finish_step(*model, *sgd, 0.0);
    }
    add_state(expected, *model, *sgd);
  }
  run_ranks(ranks, [&](Communicator& world) {
    auto model = make_subject(subject);
    climb(strategy, subject, *model, world);
    auto sgd = make_method(Method::sgd, model->parameters());
    for (int step = 0; step < 3; ++step) {
      backward(*model, step, world.rank());
      expect(current_ledger().live(MemoryTag::communication) == 0, "all is freed after backward");
      finish_step(*model, *sgd, 0.0);
    }
    add_state(got, *model, *sgd);
  });
  return expected.difference(got);
}

}  // namespace

TEST_CASE("a gradient penalty has the bits of one process under every strategy") {
  for (const ShardingStrategy strategy : kAll) {
    for (const Subject subject : {Subject::mlp, Subject::odd, Subject::encoder}) {
      for (const int ranks : {1, 2, 3}) {
        if (strategy == ShardingStrategy::hybrid && ranks != 2) continue;
        CAPTURE(name(strategy), static_cast<int>(subject), ranks);
        CHECK(difference(subject, strategy, ranks, penalized) == "");
        CHECK(difference(subject, strategy, ranks, critic) == "");
      }
    }
  }
}

TEST_CASE(
    "a penalty on the slope at a GPT's first block has the bits of one process under every "
    "strategy") {
  for (const Subject subject : {Subject::gpt, Subject::gpt_loss, Subject::gpt_untied}) {
    const Backward steep = [subject](nn::Module& model, int step, int rank) {
      Tensor seen;
      HookHandle hook = model.get_submodule("transformer.h.0")
                            .register_forward_pre_hook([&](nn::Module&, const nn::Tensors& in) {
                              if (!seen.defined()) seen = in[0];
                            });
      const Tensor loss = subject_loss(subject, model, step, rank);
      hook.remove();
      const Tensor slope = grad(loss, seen, {.create_graph = true});
      (loss + sum(square(slope))).backward();
    };
    for (const ShardingStrategy strategy : kAll) {
      CAPTURE(name(strategy), static_cast<int>(subject));
      CHECK(difference(subject, strategy, 2, steep) == "");
    }
  }
}

TEST_CASE("a third derivative has the bits of one process under every strategy") {
  const Backward third = [](nn::Module& model, int step, int rank) {
    const Tensor x = inputs(step, rank, true);
    const Tensor y = sum(tanh(model(x)));
    const Tensor first = grad(y, x, {.create_graph = true});
    const Tensor second = grad(sum(square(first)), x, {.create_graph = true});
    (y + sum(square(second))).backward();
  };
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    CHECK(difference(Subject::mlp, strategy, 2, third) == "");
  }
}

TEST_CASE("a graph that is walked twice is good under every strategy, and refused after a step") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    const auto errors = errors_of(2, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, world);
      auto sgd = make_method(Method::sgd, model->parameters());
      const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
      loss.backward({.retain_graph = true});
      std::vector<uint64_t> first;
      for (const Tensor& p : model->parameters()) first.push_back(hash(p.grad().array()));
      model->zero_grad();
      loss.backward({.retain_graph = true});
      size_t i = 0;
      for (const Tensor& p : model->parameters()) {
        expect(hash(p.grad().array()) == first[i++], "the same gradients again");
      }
      sgd->step();
      loss.backward();
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("changed in place") != std::string::npos);
    }
  }
}

TEST_CASE("grad() of what is gathered from shards, or of a shard, is an error that says so") {
  for (const ShardingStrategy strategy : kSharding) {
    for (const bool before_forward : {true, false}) {
      for (const bool allow_unused : {false, true}) {
        CAPTURE(name(strategy), before_forward, allow_unused);
        const auto errors = errors_of(2, [&](Communicator& world) {
          auto model = make_subject(Subject::mlp);
          climb(strategy, Subject::mlp, *model, world);
          // some strategies show the whole weights from a forward to the end of a backward
          const std::vector<Tensor> before = model->parameters();
          const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
          (void)grad({loss}, before_forward ? before : model->parameters(),
                     {.allow_unused = allow_unused});
        });
        REQUIRE(errors.size() == 2);
        for (const std::string& error : errors) {
          CHECK(error.find("grad: input 0 is a shard, or the whole") != std::string::npos);
          CHECK(error.find("call backward()") != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("grad() of parameters is this rank's: DDP returns it, others where it is recorded") {
  for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::zero1,
                                          ShardingStrategy::zero2, ShardingStrategy::fsdp_kept}) {
    CAPTURE(name(strategy));
    run_ranks(2, [&](Communicator& world) {
      auto alone = make_subject(Subject::mlp), model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, world);
      const auto gradients = [&](nn::Module& of) {
        const Tensor loss = subject_loss(Subject::mlp, of, 0, world.rank());
        return grad({loss}, of.parameters(), {.create_graph = strategy != ShardingStrategy::ddp});
      };
      const auto own = gradients(*alone), got = gradients(*model);
      for (size_t i = 0; i < own.size(); ++i) {
        expect(hash(own[i].array()) == hash(got[i].array()), "this rank's gradient");
      }
    });
  }
}

TEST_CASE("two backward passes a step leave the same bits under every strategy") {
  const Backward twice = [](nn::Module& model, int step, int rank) {
    sum(square(model(inputs(step, rank)))).backward();
    sum(tanh(model(inputs(step, rank + 40)))).backward();
    sum(model(inputs(step, rank + 60)) * 0.3).backward();
  };
  for (const int ranks : {2, 3, 4}) {
    Whole expected;
    const auto run = [&](ShardingStrategy strategy, Whole& whole) {
      run_ranks(ranks, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        auto sgd = make_method(Method::sgd, model->parameters());
        for (int step = 0; step < 3; ++step) {
          twice(*model, step, world.rank());
          finish_step(*model, *sgd, 0.0);
        }
        add_state(whole, *model, *sgd);
      });
    };
    run(ShardingStrategy::ddp, expected);
    for (const ShardingStrategy strategy : kSharding) {
      CAPTURE(name(strategy), ranks);
      Whole got;
      run(strategy, got);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("a second backward under DDP adds the mean to the gradients that are there") {
  run_ranks(3, [](Communicator& world) {
    nn::Linear model(2, 1, {.bias = false});
    const DDP ddp(model, world);
    const Tensor x = full({1, 2}, static_cast<double>(world.rank() + 1));
    sum(model(x)).backward();  // mean of 1, 2, 3
    sum(model(x)).backward();
    expect(model.weight.grad().to_vector<float>() == std::vector<float>{4.0f, 4.0f}, "2 + 2");
    sum(square(grad(sum(square(model(x.detach().requires_grad_()))), model.weight)));
    expect(model.weight.grad().to_vector<float>() == std::vector<float>{4.0f, 4.0f},
           "grad() changes nothing");
    {
      const NoSync local = ddp.no_sync();
      sum(model(x)).backward();
    }
    const float mine = 4.0f + static_cast<float>(world.rank() + 1);
    expect(model.weight.grad().to_vector<float>() == std::vector<float>{mine, mine}, "its own");
    sum(model(x)).backward();
    expect(model.weight.grad().to_vector<float>() == std::vector<float>{8.0f, 8.0f}, "all");
    model.zero_grad(false);
    sum(model(x)).backward();
    expect(model.weight.grad().to_vector<float>() == std::vector<float>{2.0f, 2.0f}, "anew");
  });
}

namespace {

/// Units whose inputs and outputs are used on both sides of their edges, each more than once.
struct Skips : nn::Module {
  struct Residual : nn::Module {
    nn::Linear& fc = add<nn::Linear>("fc", 7, 7);
    Tensor forward(const Tensor& x) override { return x + tanh(fc(x)) * x; }
  };
  Residual& first = add<Residual>("first");
  Residual& second = add<Residual>("second");
  Residual& third = add<Residual>("third");
  Tensor forward(const Tensor& x) override {
    const Tensor a = first(x), b = second(a), c = third(b);
    return c * a + sin(b) * a + tanh(a) + b * x;
  }
};

}  // namespace

TEST_CASE(
    "tensors used inside and outside of units have gradients of the same bits under every "
    "strategy") {
  for (const bool captures : {false, true}) {
    for (const int ranks : {2, 3}) {
      Whole expected;
      const auto run = [&](nn::Module& model, int step, int rank) {
        nn::Tensors seen;
        std::vector<HookHandle> hooks;
        if (captures) {
          for (const char* path : {"first", "second", "third"}) {
            hooks.push_back(model.get_submodule(path).register_forward_hook(
                [&](nn::Module&, const nn::Tensors& in, const nn::Tensors& out) {
                  seen.push_back(in[0]);
                  seen.push_back(out[0]);
                }));
          }
        }
        Tensor loss = sum(square(model(inputs(step, rank))));
        for (const Tensor& t : seen) loss = loss + sum(t * t * t) * 0.1 + sum(abs(t)) * 0.01;
        loss.backward();
        for (HookHandle& hook : hooks) hook.remove();
      };
      manual_seed(5);
      Skips alone;
      optim::SGD sgd_alone(alone.parameters(), {.lr = 0.05});
      for (int step = 0; step < 3; ++step) {
        for (int r = 0; r < ranks; ++r) run(alone, step, r);
        for (const Tensor& p : alone.parameters()) p.grad().div_(static_cast<double>(ranks));
        finish_step(alone, sgd_alone, 0.0);
      }
      add_state(expected, alone, sgd_alone);
      for (const ShardingStrategy strategy : kAll) {
        if (strategy == ShardingStrategy::hybrid && ranks != 2) continue;
        for (const bool whole_blocks : {false, true}) {
          CAPTURE(name(strategy), captures, ranks, whole_blocks);
          Whole got;
          run_ranks(ranks, [&](Communicator& world) {
            manual_seed(5);
            Skips model;
            if (strategy == ShardingStrategy::fsdp && whole_blocks) {
              fully_shard(model, world, {.unit = each<Skips::Residual>()});
            } else {
              climb(strategy, Subject::mlp, model, world);
            }
            optim::SGD sgd(model.parameters(), {.lr = 0.05});
            for (int step = 0; step < 3; ++step) {
              run(model, step, world.rank());
              finish_step(model, sgd, 0.0);
            }
            add_state(got, model, sgd);
          });
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}
