// Forward passes that go past the hooks by which ranks gather and average, and modules that are not
// what they were when they were put under a strategy: found and named, without false alarms.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two inputs, by an operator() of its own that runs the hooks or forgets them. The sum is computed
/// of a shard as of the whole, whatever the shard's size.
struct Matcher : nn::Module {
  nn::Linear& a = add<nn::Linear>("a", 4, 2);
  nn::Linear& b = add<nn::Linear>("b", 4, 2);
  Tensor& scale = parameter("scale", Shape{2}, nn::init::ones());
  bool hooked = true;
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& y) {
    const auto body = [this](const nn::Tensors& in) -> nn::Tensors {
      return {(a(in[0]) + b(in[1])) * sum(scale)};
    };
    return hooked ? run_hooked({x, y}, body)[0] : body({x, y})[0];
  }
  Tensor forward(const Tensor& x) override { return (a(x) + b(x)) * sum(scale); }
  Tensor loss(const Tensor& x) {
    const auto body = [this](const nn::Tensors& in) -> nn::Tensors {
      return {sum(square((a(in[0]) + b(in[0])) * sum(scale)))};
    };
    return hooked ? run_hooked({x}, body)[0] : body({x})[0];
  }
};

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

Tensor batch(int rank) { return Tensor(noise({2, 4}, kFloat32, static_cast<uint64_t>(rank) + 5)); }

}  // namespace

TEST_CASE("a forward that goes past the hooks is named on every rank, under every strategy") {
  for (const ShardingStrategy strategy : kAll) {
    for (const bool by_loss : {false, true}) {
      for (const int ranks : {1, 2, 4}) {
        if (strategy == ShardingStrategy::hybrid && ranks == 1) continue;
        CAPTURE(name(strategy), by_loss, ranks);
        const auto errors = errors_of(ranks, [&](Communicator& world) {
          Matcher model;
          climb(strategy, Subject::mlp, model, world);
          model.hooked = false;
          const Tensor x = batch(world.rank());
          (by_loss ? model.loss(x) : sum(model(x, x))).backward();
          // What is gathered by the children's own hooks computes on; the root's own scale does
          // not.
        });
        for (const std::string& error : errors) {
          CAPTURE(error);
          CHECK_THAT(error, ContainsSubstring("run_hooked()"));
          CHECK((strategy == ShardingStrategy::zero1 || strategy == ShardingStrategy::zero2 ||
                 error.find("Matcher") != std::string::npos));
        }
      }
    }
  }
}

TEST_CASE("a child called outside of the sharded module's forward speaks of shards") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    const auto errors = errors_of(2, [&](Communicator& world) {
      SmallMLP model;
      if (strategy == ShardingStrategy::zero1 || strategy == ShardingStrategy::zero2) {
        ZeRO(model, world, {.stage = strategy == ShardingStrategy::zero1 ? 1 : 2});
      } else if (strategy == ShardingStrategy::zero3) {
        ZeRO(model, world, {.stage = 3, .unit = each_of({"fc1"})});
      } else {
        fully_shard(model, world, {.unit = each_of({"fc1"})});
      }
      (void)model.fc3(zeros({2, 11}));
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("Linear: its weight is a shard") &&
                            ContainsSubstring("of a parameter of shape [5, 11]") &&
                            ContainsSubstring("in fc3"));
    }
  }
}

TEST_CASE("forwards that were entered raise no alarm, and give the gradients of one process") {
  using Step = std::function<void(Matcher&, int rank)>;
  const std::vector<std::pair<const char*, Step>> patterns = {
      {"own operator()", [](Matcher& m, int r) { sum(m(batch(r), batch(r))).backward(); }},
      {"own loss()", [](Matcher& m, int r) { m.loss(batch(r)).backward(); }},
      {"forward", [](Matcher& m, int r) { sum(square(m(batch(r)))).backward(); }},
      {"evaluation before",
       [](Matcher& m, int r) {
         {
           const NoGrad no_grad;
           (void)m(batch(r));
         }
         m.loss(batch(r)).backward();
       }},
      {"evaluation between forward and backward",
       [](Matcher& m, int r) {
         const Tensor loss = sum(square(m(batch(r))));
         m.eval();
         {
           const NoGrad no_grad;
           (void)m(batch(r));
         }
         m.train();
         loss.backward();
       }},
      {"two forwards, one backward",
       [](Matcher& m, int r) { (m.loss(batch(r)) + sum(m(batch(r), batch(r)))).backward(); }},
      {"a forward thrown away",
       [](Matcher& m, int r) {
         (void)m(batch(r));
         m.loss(batch(r)).backward();
       }},
      {"a frozen part",
       [](Matcher& m, int r) {
         m.b.requires_grad_(false);
         m.loss(batch(r)).backward();
       }},
      {"recomputed in backward",
       [](Matcher& m, int r) {
         const Tensor x = batch(r).requires_grad_();
         sum(square(checkpoint([&m](const Tensor& in) { return m(in); }, x))).backward();
       }},
  };
  for (const auto& [what, step] : patterns) {
    Whole expected;
    {
      manual_seed(3);
      Matcher model;
      for (int r = 0; r < 2; ++r) step(model, r);
      for (const Tensor& p : model.parameters()) {
        if (p.grad().defined()) p.grad().div_(2.0);
      }
      optim::SGD sgd(model.parameters(), {.lr = 0.1});
      sgd.step();
      add_state(expected, model, sgd);
    }
    for (const ShardingStrategy strategy : kAll) {
      CAPTURE(what, name(strategy));
      if (std::string(what) == "a frozen part" && strategy < ShardingStrategy::zero3)
        continue;  // frozen before
      Whole got;
      run_ranks(2, [&, step = step](Communicator& world) {
        manual_seed(3);
        Matcher model;
        climb(strategy, Subject::mlp, model, world);
        optim::SGD sgd(model.parameters(), {.lr = 0.1});
        step(model, world.rank());
        sgd.step();
        add_state(got, model, sgd);
      });
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("a penalty on parameters alone, after a step, raises no alarm under DDP") {
  run_ranks(2, [](Communicator& world) {
    manual_seed(3);
    Matcher model;
    const DDP ddp(model, world);
    model.loss(batch(world.rank())).backward();
    model.zero_grad();
    Tensor penalty = zeros({});
    for (const Tensor& p : model.parameters()) penalty = penalty + sum(square(p));
    penalty.backward();
    for (const Tensor& p : model.parameters()) {
      expect(hash(p.grad().array()) == hash((p.detach() * 2.0).array()), "2 p on every rank");
    }
    {
      const NoSync local = ddp.no_sync();
      model.loss(batch(world.rank())).backward();
    }
    model.loss(batch(world.rank())).backward();
  });
}

TEST_CASE("a module may move between steps, and what outlives it gets an error") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    Whole expected, got;
    for (const bool moves : {false, true}) {
      run_ranks(2, [&](Communicator& world) {
        manual_seed(7);
        auto first = std::make_unique<SmallMLP>();
        climb(strategy, Subject::mlp, *first, world);
        auto sgd = make_method(Method::sgd, first->parameters());
        subject_loss(Subject::mlp, *first, 0, world.rank()).backward();
        sgd->step();
        sgd->zero_grad();
        auto second = moves ? std::make_unique<SmallMLP>(std::move(*first)) : std::move(first);
        first.reset();
        subject_loss(Subject::mlp, *second, 1, world.rank()).backward();
        sgd->step();
        add_state(moves ? got : expected, *second, *sgd);
      });
    }
    CHECK(expected.difference(got) == "");
    const int stage = strategy == ShardingStrategy::zero1   ? 1
                      : strategy == ShardingStrategy::zero2 ? 2
                                                            : 3;
    const auto errors = errors_of(2, [&](Communicator& world) {
      auto model = std::make_unique<SmallMLP>();
      const auto climbed = [&]() -> DataParallel {
        if (strategy == ShardingStrategy::ddp) return DDP(*model, world);
        if (strategy == ShardingStrategy::fsdp) return fully_shard(*model, world);
        return ZeRO(*model, world, {.stage = stage});
      };
      const DataParallel handle = climbed();
      const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
      model.reset();
      if (strategy != ShardingStrategy::ddp) {
        std::string late;
        try {
          loss.backward();
        } catch (const Error& error) {
          late = error.what();
        }
        expect(late.find("full backward hooks would run") != std::string::npos, late);
      }
      (void)handle.parameters();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("keep it as long as their handle is used"));
    }
  }
}

TEST_CASE("a trainable parameter that its strategy does not know is named in forward") {
  const auto named = [](const std::vector<std::string>& errors, const char* parameter) {
    REQUIRE(errors.size() == 2);
    for (const std::string& error : errors) {
      CHECK_THAT(error,
                 ContainsSubstring(parameter) && ContainsSubstring("was frozen or not there"));
    }
  };
  named(errors_of(2,
                  [](Communicator& world) {
                    SmallMLP model;
                    fully_shard(model, world);  // where children are units, replace() refuses
                    model.replace("fc3", nn::Linear(11, 2));
                    model(ones({2, 7}));
                  }),
        "fc3.weight");
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2}) {
    CAPTURE(name(strategy));
    named(errors_of(2,
                    [&](Communicator& world) {
                      SmallMLP model;
                      climb(strategy, Subject::mlp, model, world);
                      model.replace("fc3", nn::Linear(11, 2));
                      model(ones({2, 7}));
                    }),
          "fc3.weight");
    named(errors_of(2,
                    [&](Communicator& world) {
                      SmallMLP model;
                      model.fc2.requires_grad_(false);
                      climb(strategy, Subject::mlp, model, world);
                      sum(model(ones({2, 7}))).backward();
                      model.fc2.requires_grad_(true);
                      {
                        const NoGrad evaluation;
                        model(ones({2, 7}));
                      }
                      model(ones({2, 7}));
                    }),
          "fc2.weight");
  }
}

TEST_CASE("a leaf hook on a shard is called once a pass, when the averaged gradient is there") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::zero1, ShardingStrategy::zero2, ShardingStrategy::zero3,
        ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    CAPTURE(name(strategy));
    run_ranks(4, [&](Communicator& world) {
      SmallMLP model;
      climb(strategy, Subject::mlp, model, world);
      const std::vector<Tensor> shards = model.parameters();
      std::vector<uint64_t> seen(shards.size());
      std::vector<int> calls(shards.size());
      for (size_t i = 0; i < shards.size(); ++i) {
        shards[i].register_leaf_hook([&, i](const Tensor& leaf) {
          expect(!grad_enabled(), "as in a backward pass");
          seen[i] = hash(leaf.grad().array());
          ++calls[i];
        });
      }
      for (int step = 1; step <= 2; ++step) {
        subject_loss(Subject::mlp, model, step, world.rank()).backward();
        for (size_t i = 0; i < shards.size(); ++i) {
          expect(calls[i] == step && seen[i] == hash(shards[i].grad().array()), "the gradient");
        }
      }
    });
  }
}

TEST_CASE("newton refuses parameters under DDP") {
  for (const std::string& error : errors_of(2, [](Communicator& world) {
         SmallMLP model;
         const DDP ddp(model, world);
         optim::Newton newton(model.parameters());
         newton.step([&] { return sum(square(model(ones({2, 7})))); });
       })) {
    CHECK_THAT(error, ContainsSubstring("as all parameters under DDP"));
  }
}
