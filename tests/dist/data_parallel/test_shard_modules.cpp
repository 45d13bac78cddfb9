// What a program asks of a module whose parameters are shards: another dtype, its state, the shapes
// of the whole. Either it gets what one process gets, or an Error that says what to ask instead.
#include <filesystem>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/training/checkpoint.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

// The message of what `body` throws; "" for nothing.
template <class F>
std::string message_of(const F& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Conversion {
  std::vector<DType> dtypes;  // one after the other
  int before = 0;             // steps before it
  bool early = false;         // the optimizer is made before the module is put under its strategy
};

// Two micro-batches a step, by two ranks or by one process.
void train_converted(const Conversion& c, ShardingStrategy strategy, Whole& whole,
                     const Communicator* world) {
  auto model = make_subject(Subject::mlp);
  std::unique_ptr<optim::Optimizer> optimizer;
  const auto make = [&] {
    optimizer = std::make_unique<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.05});
  };
  if (c.early) make();
  if (world != nullptr) climb(strategy, Subject::mlp, *model, *world);
  if (!c.early) make();
  for (int step = 0; step < c.before + 3; ++step) {
    if (step == c.before) {
      for (const DType dtype : c.dtypes) model->to(dtype);
    }
    if (world != nullptr) {
      subject_loss(Subject::mlp, *model, step, world->rank()).backward();
      finish_step(*model, *optimizer, 0.5);
    } else {
      train_alone(Subject::mlp, *model, *optimizer, 2, 0, 0.0);
      for (int r = 0; r < 2; ++r) subject_loss(Subject::mlp, *model, step, r).backward();
      for (const Tensor& p : model->parameters()) p.grad().div_(2.0);
      finish_step(*model, *optimizer, 0.5);
    }
  }
  for (const Tensor& p : model->parameters()) {
    expect(p.dtype() == c.dtypes.back(), "the dtype asked for");
  }
  add_state(whole, *model, *optimizer);
}

}  // namespace

TEST_CASE("a module that changes its dtype under any strategy trains on as one process does") {
  for (const std::vector<DType>& dtypes :
       {std::vector{kBFloat16}, {kFloat64}, {kFloat16}, {kBFloat16, kFloat32}, {kFloat32}}) {
    for (const int before : {0, 2}) {
      for (const bool early : {false, true}) {
        const Conversion c = {dtypes, before, early};
        Whole expected;
        train_converted(c, ShardingStrategy::single, expected, nullptr);
        for (const ShardingStrategy strategy : kAll) {
          CAPTURE(name(strategy), dtypes.front(), dtypes.size(), before, early);
          Whole got;
          run_ranks(2, [&](Communicator& world) { train_converted(c, strategy, got, &world); });
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}

TEST_CASE("one rank alone converts what it gathers in another dtype") {
  run_ranks(1, [](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    fully_shard(*model, world,
                {.unit = each<nn::Linear>(), .mixed_precision = {.parameters = kBFloat16}});
    optim::SGD optimizer(model->parameters(), {.lr = 0.05});
    double last = 1e9;
    for (const DType dtype : {kFloat32, kBFloat16, kFloat64, kFloat32}) {
      model->to(dtype);
      for (int step = 0; step < 3; ++step) {
        const Tensor loss = subject_loss(Subject::mlp, *model, 0, 0);
        expect(loss.item() < last, "the loss falls: ", loss.item(), " after ", last);
        last = loss.item();
        loss.backward();
        finish_step(*model, optimizer, 0.0);
      }
    }
  });
}

TEST_CASE("gradients that are there are converted with the shards, whole ones too") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    Whole expected, got;
    for (const bool converts : {false, true}) {
      run_ranks(2, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        auto optimizer = make_method(Method::sgd, model->parameters());
        subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
        if (converts) {
          model->to(kFloat64);
          for (const Tensor& p : model->parameters()) {
            expect(p.grad().dtype() == kFloat64, "the gradient, too");
          }
          model->to(kFloat32);
        }
        optimizer->step();
        add_state(converts ? got : expected, *model, *optimizer);
      });
    }
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("a module can be converted between steps only, and a unit only as a whole") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    run_ranks(2, [&](Communicator& world) {
      SmallMLP model;
      const auto put = [&]() -> DataParallel {
        if (strategy == ShardingStrategy::zero1) return ZeRO(model, world, {.stage = 1});
        if (strategy == ShardingStrategy::zero2) return ZeRO(model, world, {.stage = 2});
        if (strategy == ShardingStrategy::zero3) {
          return ZeRO(model, world, {.stage = 3, .unit = [](const Candidate&) { return false; }});
        }
        return fully_shard(model, world,
                           {.reshard_after_forward = strategy == ShardingStrategy::fsdp});
      };
      const DataParallel parallel = put();
      const auto unchanged = [&] {
        for (const Tensor& p : model.parameters()) expect(p.dtype() == kFloat32, "as before");
      };
      const std::string part = message_of([&] { model.fc2.to(kBFloat16); });
      expect(holds(part, "SmallMLP") && holds(part, "unit"), part);
      unchanged();
      std::string inside;
      const HookHandle hook =
          model.fc2.register_forward_hook([&](nn::Module&, const nn::Tensors&, const nn::Tensors&) {
            inside = message_of([&] { model.to(kBFloat16); });
          });
      const Tensor loss = subject_loss(Subject::mlp, model, 0, world.rank());
      expect(holds(inside, "between two steps"), inside);
      loss.backward();
      unchanged();
      {
        const FullParameters full = parallel.summon_full_parameters();
        const std::string shown = message_of([&] { model.to(kBFloat16); });
        expect(holds(shown, "summon_full_parameters"), shown);
      }
      unchanged();
      expect(holds(message_of([&] { model.to(kMeta); }), "meta"), "no way to meta");
    });
  }
}

TEST_CASE("a graph recorded before a sharded module was converted is refused") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    const auto errors = errors_of(2, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, world);
      const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
      model->to(kFloat64);
      loss.backward();
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK((holds(error, "run forward again") || holds(error, "changed in place")));
    }
  }
}

TEST_CASE("set_data on a shard is refused with the parameter's name and what to do") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    run_ranks(2, [&](Communicator& world) {
      auto model = make_subject(Subject::mlp);
      climb(strategy, Subject::mlp, *model, world);
      for (const auto& [name, p] : model->named_parameters()) {
        const uint64_t before = hash(p.array());
        const std::string error = message_of([&, leaf = p] {
          leaf.set_data(Array::zeros(leaf.shape(), leaf.dtype(), leaf.device()));
        });
        expect(holds(error, name) && holds(error, "SmallMLP") && holds(error, "copy_"), error);
        expect(hash(p.array()) == before, "nothing has changed");
      }
    });
  }
}

TEST_CASE(
    "a parameter that is replaced after its module was put under a strategy is named in forward") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    const auto errors = errors_of(2, [&](Communicator& world) {
      SmallMLP model;
      climb(strategy, Subject::mlp, model, world);
      model.fc3.weight = zeros({5, 11}, {.requires_grad = true});
      subject_loss(Subject::mlp, model, 0, world.rank()).backward();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("fc3.weight") && ContainsSubstring("another tensor"));
    }
  }
}

TEST_CASE("first values drawn again on shards are those of the whole") {
  manual_seed(11);
  SmallMLP whole;
  manual_seed(12);
  whole.reset_parameters();
  const nn::StateDict expected = whole.state_dict();
  for (const int ranks : {1, 2, 5}) {
    run_ranks(ranks, [&](Communicator& world) {
      SmallMLP model;
      const DataParallel parallel = fully_shard(model, world, {.unit = each<nn::Linear>()});
      manual_seed(12);
      model.reset_parameters();
      expect(same_state(parallel.full_state_dict(), expected), "the same values");
    });
  }
}

TEST_CASE("the state of a module of shards is refused by what would take them for wholes") {
  const TempDir dir;
  {
    manual_seed(7);
    SmallMLP whole;
    whole.save(dir / "whole.safetensors");
  }
  for (const ShardingStrategy strategy : kSharding) {
    for (const int ranks : {1, 3}) {
      CAPTURE(name(strategy), ranks);
      run_ranks(ranks, [&](Communicator& world) {
        auto model = make_subject(Subject::mlp);
        climb(strategy, Subject::mlp, *model, world);
        const std::string mine = dir / ("rank-" + std::to_string(world.rank()));
        const std::string saved = message_of([&] { model->save(mine + ".safetensors"); });
        expect(holds(saved, "fc1.weight") && holds(saved, "dist::save_full()"), saved);
        expect(!std::filesystem::exists(mine + ".safetensors"), "nothing is written");
        const std::string state = message_of([&] { (void)model->state_dict(); });
        expect(holds(state, "[13, 7]") && holds(state, "full_state_dict()"), state);
        const std::string loaded = message_of([&] { model->load(dir / "whole.safetensors"); });
        expect(holds(loaded, "dist::load_full()"), loaded);
        nn::Checkpointer checkpoint(mine);
        checkpoint.track("model", *model);
        const std::string checkpointed = message_of([&] { checkpoint.save(1); });
        expect(holds(checkpointed, "dist::Checkpointer"), checkpointed);
        expect(checkpoint.steps().empty() && std::filesystem::is_empty(mine + "/checkpoints"),
               "no checkpoint, and nothing half-written");
        std::filesystem::remove_all(mine);
        const nn::StateDict full = [&] {
          dist::save_full(dir / "full.safetensors", world, *model);
          return core::load_safetensors(dir / "full.safetensors").arrays;
        }();
        expect(full.size() == 6 && full[0].array.ndim() == 2, "what the error names works");
        world.barrier();
      });
    }
  }
}

TEST_CASE(
    "a path of each_of that leads nowhere is an error on every rank, before anything is cut") {
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{"no.such.path"}, {"fc1", "fc9"}, {"fc1.weight"}, {"fc1", "Fc2"}}) {
    const auto errors = errors_of(2, [&](Communicator& world) {
      SmallMLP model;
      const std::string error =
          message_of([&] { fully_shard(model, world, {.unit = each_of(paths)}); });
      for (const Tensor& p : model.parameters()) expect(partition(p) == nullptr, "nothing is cut");
      fail(error);
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("there is no module '" + paths.back() + "'") &&
                            ContainsSubstring("SmallMLP"));
    }
  }
  CHECK_THAT(errors_of(1,
                       [](Communicator& world) {
                         nn::Linear alone(3, 2);
                         fully_shard(alone, world, {.unit = each_of({"weight"})});
                       })[0],
             ContainsSubstring("there is no module 'weight' in Linear"));
  run_ranks(2, [](Communicator& world) {
    SmallMLP model;
    const DataParallel sharded = fully_shard(model, world, {.unit = each_of({"fc1", "fc3"})});
    expect(sharded.units().size() == 3, "the root's, fc1, fc3");
  });
}

TEST_CASE("ranks whose modules differ are refused at once, under every strategy") {
  const auto differ = [](nn::Module& model, int rank, int how) {
    if (rank != 1) return;
    if (how == 0) model.to(kFloat64);
    if (how == 1) model.get_submodule("fc2").requires_grad_(false);
  };
  for (const ShardingStrategy strategy : kAll) {
    for (const int how : {0, 1, 2}) {
      CAPTURE(name(strategy), how);
      const auto errors = errors_of(4, [&](Communicator& world) {
        std::unique_ptr<nn::Module> model = make_subject(Subject::mlp);
        if (how == 2 && world.rank() == 1) model = make_subject(Subject::encoder);
        differ(*model, world.rank(), how);
        climb(strategy, how == 2 ? Subject::gpt : Subject::mlp, *model, world);
      });
      int named = 0;
      for (const std::string& error : errors) {
        named += holds(error, "ranks have different modules") &&
                 (how != 0 || (holds(error, "float32") && holds(error, "float64")));
      }
      CHECK(named == 4);
    }
  }
}

TEST_CASE(
    "weight decay for matrices alone is the same under every strategy, whenever groups are made") {
  const auto make = [](nn::Module& model) {
    std::vector<Tensor> matrices, vectors;
    for (const Tensor& p : model.parameters()) {
      (whole_shape(p).size() >= 2 ? matrices : vectors).push_back(p);
    }
    expect(!matrices.empty() && !vectors.empty(), "both kinds are found");
    using Groups = std::vector<optim::ParamGroup<optim::AdamWOptions>>;
    return std::make_unique<optim::AdamW>(Groups{{matrices, {.lr = 0.01, .weight_decay = 0.3}},
                                                 {vectors, {.lr = 0.01, .weight_decay = 0.0}}});
  };
  for (const Subject subject : {Subject::mlp, Subject::gpt_loss}) {
    for (const int ranks : {2, 3}) {
      Whole expected;
      {
        auto model = make_subject(subject);
        auto adamw = make(*model);
        train_alone(subject, *model, *adamw, ranks, 3, 0.0);
        add_state(expected, *model, *adamw);
      }
      for (const ShardingStrategy strategy : kAll) {
        for (const bool early : {false, true}) {
          if (strategy == ShardingStrategy::hybrid && ranks % 2 != 0) continue;
          CAPTURE(name(strategy), ranks, early, static_cast<int>(subject));
          Whole got;
          run_ranks(ranks, [&](Communicator& world) {
            auto model = make_subject(subject);
            std::unique_ptr<optim::AdamW> adamw;
            if (early) adamw = make(*model);
            climb(strategy, subject, *model, world);
            if (!early) adamw = make(*model);
            train(subject, *model, *adamw, world, 3, 0.0);
            add_state(got, *model, *adamw);
          });
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}

TEST_CASE("a leaf's whole shape is what the module had, on every rank and in every phase") {
  const auto shapes = [](const nn::Module& model) {
    std::vector<Shape> list;
    for (const Tensor& p : model.parameters()) list.push_back(whole_shape(p));
    return list;
  };
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    run_ranks(2, [&](Communicator& world) {
      auto model = make_subject(Subject::odd);
      const std::vector<Shape> before = shapes(*model);
      climb(strategy, Subject::odd, *model, world);
      expect(shapes(*model) == before, "after it was sharded");
      const Tensor loss = subject_loss(Subject::odd, *model, 0, world.rank());
      expect(shapes(*model) == before, "between forward and backward");
      loss.backward();
      expect(shapes(*model) == before, "after backward");
    });
  }
}
