// Sharded modules within a sharded module, and what is said of parts of one by their paths.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::Module& child(nn::Module& model, const std::string& path) {
  for (const auto& [name, module] : model.named_modules()) {
    if (name == path) return *module;
  }
  fail("no module ", path);
}

// Three steps of a module that `shard` puts under its strategy.
template <class Shard>
void train_as(Subject subject, int ranks, Whole& whole, const Shard& shard) {
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    const auto model = make_subject(subject);
    shard(*model, world);
    const auto adamw = make_method(Method::adamw, model->parameters());
    train(subject, *model, *adamw, world, 3, 0.5);
    add_state(whole, *model, *adamw);
  });
}

std::vector<std::string> names_of(const std::vector<dist::UnitInfo>& units) {
  std::vector<std::string> names;
  for (const dist::UnitInfo& unit : units) names.push_back(unit.name);
  return names;
}

}  // namespace

TEST_CASE("sharded modules within a sharded module end with the bits of one", "[threads]") {
  for (const Subject subject : {Subject::gpt, Subject::gpt_loss, Subject::gpt_untied}) {
    Whole flat, nested, mixed;
    train_as(subject, 4, flat, [&](nn::Module& model, const dist::Communicator& world) {
      dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    });
    train_as(subject, 4, nested, [&](nn::Module& model, const dist::Communicator& world) {
      for (const char* path : {"transformer.h.0", "transformer.h.1"}) {
        dist::fully_shard(child(model, path), world);
      }
      dist::fully_shard(model, world);
    });
    // one over a mesh of its own, kept between forward and backward; a module within it on its own
    train_as(subject, 4, mixed, [&](nn::Module& model, const dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
      dist::fully_shard(child(model, "transformer.h.1.mlp"), world);
      dist::fully_shard(child(model, "transformer.h.1"), mesh, {.reshard_after_forward = false});
      dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    });
    CHECK(flat.size() >= 4);
    CHECK(flat.difference(nested) == "");
    CHECK(flat.difference(mixed) == "");
  }
}

TEST_CASE("the handle of a module speaks for the sharded modules within it") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::gpt);
    const nn::StateDict before = make_subject(Subject::gpt)->state_dict();
    dist::fully_shard(child(*model, "transformer.h.0"), world);
    const auto outer = dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
    const std::vector<std::string> names = names_of(outer.units());
    expect(std::count(names.begin(), names.end(), "transformer.h.0") == 1, "the inner unit's name");
    expect(same_state(outer.full_state_dict(), before), "whole values of all");
    expect(outer.parameters().size() == model->parameters().size(), "all leaves");
    {
      const auto local = outer.no_sync();
      subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
      expect(world.traffic().bytes_of_unit("transformer.h.0") > 0, "gathered");
      for (const Tensor& p : model->parameters()) expect(!p.grad().defined(), "not yet averaged");
    }
    subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
    for (const Tensor& p : model->parameters()) expect(p.grad().defined(), "averaged");
    for (const Tensor& p : model->parameters()) expect(partition(p) != nullptr, "a shard");
    expect(current_ledger().live(MemoryTag::communication) == 0, "nothing is gathered");
  });
}

TEST_CASE("scopes of no_sync() of handles within each other may end in any order") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::gpt);
    const auto inner = dist::fully_shard(child(*model, "transformer.h.0"), world);
    const auto outer = dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
    {
      std::optional<dist::NoSync> first, second;
      first.emplace(inner.no_sync());
      second.emplace(outer.no_sync());
      subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
      for (const Tensor& p : model->parameters()) expect(!p.grad().defined(), "not yet averaged");
      first.reset();
      outer.set_requires_gradient_sync(true);  // the scope that is left counts
      subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
      for (const Tensor& p : model->parameters()) expect(!p.grad().defined(), "not yet averaged");
    }
    subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
    for (const Tensor& p : model->parameters()) expect(p.grad().defined(), "averaged");
  });
}

TEST_CASE("what cannot be sharded within another is named") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    dist::fully_shard(child(*model, "fc2"), world);
    CHECK_THROWS_WITH(dist::fully_shard(child(*model, "fc2"), world),
                      ContainsSubstring("is a shard already"));
    CHECK_THROWS_WITH(dist::ZeRO(*model, world), ContainsSubstring("is a shard already"));
    dist::fully_shard(*model, world);
    CHECK_THROWS_WITH(dist::fully_shard(*model, world), ContainsSubstring("is a shard already"));
    const auto gpt = make_subject(Subject::gpt);  // whose head is tied to its embedding
    dist::fully_shard(child(*gpt, "lm_head"), world);
    CHECK_THROWS_WITH(dist::fully_shard(*gpt, world),
                      ContainsSubstring("'transformer.wte.weight' and 'lm_head.weight' are one "
                                        "parameter, which is a shard of the module"));
  });
}

TEST_CASE("parameters of ignored modules stay whole and are not averaged") {
  const std::vector<std::string> ignored = {"transformer.h.1"};
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto alone = make_subject(Subject::gpt);
    subject_loss(Subject::gpt, *alone, 0, world.rank()).backward();
    for (const int strategy : {0, 1, 2, 3, 4}) {
      const auto model = make_subject(Subject::gpt);
      if (strategy == 0) dist::DDP(*model, world, {.ignored_modules = ignored});
      if (strategy == 4) dist::fully_shard(*model, world, {.ignored_modules = ignored});
      if (strategy > 0 && strategy < 4) {
        dist::ZeRO(*model, world, {.stage = strategy, .ignored_modules = ignored});
      }
      subject_loss(Subject::gpt, *model, 0, world.rank()).backward();
      for (const auto& [name, p] : model->named_parameters()) {
        const Tensor own = alone->get_parameter(name).grad();
        const bool left = name.starts_with("transformer.h.1.");
        expect((partition(p) == nullptr) == (left || strategy == 0), strategy, name);
        expect(p.grad().defined(), strategy, name);
        expect(!left || same(p.grad().array(), own.array()), "its own gradient: ", strategy, name);
        expect(left || strategy != 0 || !same(p.grad().array(), own.array()), "a mean: ", name);
      }
    }
    const auto refused = [&](const auto& climb_on, const char* text) {
      const std::string error = error_of(climb_on);
      expect(error.find(text) != std::string::npos, error);
    };
    const auto mlp = make_subject(Subject::mlp);
    refused([&] { dist::fully_shard(*mlp, world, {.ignored_modules = {"fc9"}}); },
            "fully_shard: there is no module 'fc9' to ignore");
    refused([&] { dist::DDP(*mlp, world, {.ignored_modules = {"fc9"}}); },
            "ddp: there is no module 'fc9' to ignore");
    refused([&] { dist::ZeRO(*mlp, world, {.ignored_modules = {"fc9"}}); },
            "zero: there is no module 'fc9' to ignore");
  });
}

TEST_CASE("gradients are divided by what is asked for under every strategy") {
  for (const int ranks : {1, 2, 4}) {
    for (const double divisor : {1.0, 3.0}) {
      const auto model = make_subject(Subject::mlp);
      optim::Accumulator sum(model->parameters());
      for (int rank = 0; rank < ranks; ++rank) {
        subject_loss(Subject::mlp, *model, 0, rank).backward();
        sum.add();
      }
      sum.sum();
      std::map<std::string, std::vector<float>> expected;
      for (const auto& [name, p] : model->named_parameters()) {
        if (divisor != 1.0) p.grad().div_(divisor);
        expected[name] = p.grad().to_vector<float>();
      }
      for (const int strategy : {0, 1, 2, 3, 4, 5}) {
        if (strategy == 5 && ranks % 2 != 0) continue;
        CAPTURE(ranks, divisor, strategy);
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          const auto own = make_subject(Subject::mlp);
          if (strategy == 0) {
            dist::DDP(*own, world, {.divide_by = divisor});
          } else if (strategy < 4) {
            dist::ZeRO(*own, world, {.stage = strategy, .divide_by = divisor});
          } else if (strategy == 4) {
            dist::fully_shard(*own, world, {.divide_by = divisor});
          } else {
            const dist::Mesh mesh(world, {{"replicate", ranks / 2}, {"shard", 2}});
            dist::fully_shard(*own, mesh, {.divide_by = divisor});
          }
          subject_loss(Subject::mlp, *own, 0, world.rank()).backward();
          for (const auto& [name, p] : own->named_parameters()) {
            const std::vector<float>& all = expected.at(name);
            const Partition* part = partition(p);
            const auto first = all.begin() + (part ? part->first : 0);
            expect(p.grad().to_vector<float>() == std::vector<float>(first, first + p.numel()),
                   name);
          }
        });
      }
    }
  }
  dist::run_ranks(2, [](dist::Communicator& world) {
    CHECK_THROWS_WITH(dist::DDP(*make_subject(Subject::mlp), world, {.divide_by = -1.0}),
                      ContainsSubstring("divide_by must be positive"));
    const Array x = Array::ones({2});
    CHECK_THROWS_WITH(world.all_reduce(x, {.divide_by = 2.0}),
                      ContainsSubstring("divide_by is of a mean"));
  });
}

TEST_CASE("a path below which gradients are not averaged keeps them whole until it is") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto expected = make_subject(Subject::mlp), model = make_subject(Subject::mlp);
    const auto loss = [&](nn::Module& of, int step) {
      return subject_loss(Subject::mlp, of, step, world.rank());
    };
    const auto all = dist::fully_shard(*expected, world, {.unit = dist::each<nn::Linear>()});
    const auto some = dist::fully_shard(*model, world, {.unit = dist::each<nn::Linear>()});
    some.set_requires_gradient_sync(false, "fc2");
    loss(*model, 0).backward();
    for (const auto& [name, p] : model->named_parameters()) {
      expect(p.grad().defined() == !name.starts_with("fc2."), name);
    }
    some.set_requires_gradient_sync(true, "fc2");
    loss(*model, 1).backward();
    {
      const auto local = all.no_sync();
      loss(*expected, 0).backward();
    }
    loss(*expected, 1).backward();
    const auto want = expected->named_parameters();
    const auto got = model->named_parameters();
    for (size_t i = 0; i < got.size(); ++i) {
      if (!got[i].first.starts_with("fc2.")) continue;
      expect(same(got[i].second.grad().array(), want[i].second.grad().array()), got[i].first);
    }
    CHECK_THROWS_WITH(some.set_requires_gradient_sync(true, "fc7"),
                      ContainsSubstring("there is no module 'fc7'"));
    const auto whole = make_subject(Subject::mlp);
    const dist::DDP ddp(*whole, world);
    CHECK_THROWS_WITH(ddp.set_requires_gradient_sync(true, "fc1"),
                      ContainsSubstring("only units of fully_shard() and ZeRO-3"));
  });
}

TEST_CASE("the next forward finds what was gathered beforehand and sees what a step wrote since") {
  for (const int ranks : {2, 5}) {  // of a bias of 5 elements every rank has one; of a scalar one
    Whole expected, got;
    const auto shard = [](nn::Module& model, const dist::Communicator& world) {
      return dist::fully_shard(model, world, {.unit = units_of(Subject::odd)});
    };
    train_as(Subject::odd, ranks, expected,
             [&](nn::Module& model, const dist::Communicator& world) { shard(model, world); });
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::odd);
      const auto fsdp = shard(*model, world);
      const auto adamw = make_method(Method::adamw, model->parameters());
      for (int step = 0; step < 3; ++step) {
        std::vector<std::string> gathered;
        fsdp.on_event([&](const dist::Event& event) {
          if (event.kind == dist::Event::Kind::gather) gathered.push_back(event.unit);
        });
        fsdp.unshard("in");
        fsdp.unshard("out");
        fsdp.reshard("out");
        expect(gathered == std::vector<std::string>{"in", "out"}, "both begin");
        const Tensor loss = subject_loss(Subject::odd, *model, step, world.rank());
        expect(std::count(gathered.begin(), gathered.end(), "in") == 1, "found");
        expect(std::count(gathered.begin(), gathered.end(), "out") == 2, "gathered anew");
        loss.backward();
        fsdp.unshard("");  // and then written
        finish_step(*model, *adamw, 0.5);
      }
      fsdp.reshard("");
      expect(current_ledger().live(MemoryTag::communication) == 0, "nothing is gathered");
      add_state(got, *model, *adamw);
    });
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("an optimizer may step each unit as soon as its gradients are there") {
  Whole expected, got;
  int64_t most = 0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    for (const bool inside : {false, true}) {
      const auto model = make_subject(Subject::mlp);
      const auto fsdp = dist::fully_shard(*model, world, {.unit = dist::each<nn::Linear>()});
      std::map<std::string, std::unique_ptr<optim::Optimizer>> steps;  // by unit
      std::vector<Tensor> parameters;
      for (const auto& [name, p] : model->named_parameters()) parameters.push_back(p);
      for (const dist::UnitInfo& unit : fsdp.units()) {
        std::vector<Tensor> own;
        for (const auto& [name, p] : model->named_parameters()) {
          if (std::count(unit.parameters.begin(), unit.parameters.end(), name) > 0) {
            own.push_back(p);
          }
        }
        steps[unit.name] = std::make_unique<optim::SGD>(own, optim::SGDOptions{.lr = 0.05});
      }
      if (inside) {
        fsdp.on_event([&](const dist::Event& event) {
          if (event.kind != dist::Event::Kind::reduced) return;
          steps.at(event.unit)->step();
          steps.at(event.unit)->zero_grad();
        });
      }
      current_ledger().reset_peak();
      for (int step = 0; step < 3; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        for (const auto& [name, optimizer] : steps) {
          if (inside) continue;
          optimizer->step();
          optimizer->zero_grad();
        }
      }
      const int64_t peak = current_ledger().peak(MemoryTag::gradient);
      if (world.rank() == 0) most = inside ? most - peak : peak;
      optim::SGD all(parameters, {.lr = 0.05});
      add_state(inside ? got : expected, *model, all);
    }
  });
  CHECK(expected.difference(got) == "");
  CHECK(most > 0);  // less was held than with gradients of all units
}
