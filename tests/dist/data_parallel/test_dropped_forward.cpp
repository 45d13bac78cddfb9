// A recorded forward without a backward: what a program does next meets the shards, whether the
// outputs were dropped or are still there. Each case is run without that forward, too, and must end
// alike.
#include <filesystem>
#include <functional>
#include <string>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/optim/ema.h>

using namespace hero;
using namespace hero::test;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept};

enum class Forward { none, dropped, kept };

struct Scene {
  nn::Module& model;
  const dist::Communicator& world;
  Forward how;
  Tensor outputs = {};
  std::vector<double> found = {};  // what the case computed

  Tensor loss(int step) const { return subject_loss(Subject::mlp, model, step, world.rank()); }
  void forward() {
    if (how == Forward::none) return;
    const Tensor y = loss(40);
    if (how == Forward::kept) outputs = y;
  }
  void train(optim::Optimizer& optimizer, int steps) {
    for (int step = 0; step < steps; ++step) {
      loss(step).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
};

// What is there in the end: all parameters, in shards, and what the case found.
nn::StateDict run(ShardingStrategy strategy, Forward how, const dist::Communicator& world,
                  const std::function<void(Scene&)>& body) {
  const auto model = make_subject(Subject::mlp);
  climb(strategy, Subject::mlp, *model, world);
  Scene scene{*model, world, how};
  body(scene);
  scene.outputs = {};
  nn::StateDict state;
  for (const auto& [name, p] : model->named_parameters()) {
    expect(strategy == ShardingStrategy::ddp || partition(p) != nullptr, "a shard: ", name);
    state.push_back({name, p.array().clone()});
  }
  const auto count = static_cast<int64_t>(scene.found.size());
  state.push_back({"found", Array::from(scene.found, {count})});
  return state;
}

void compare(const std::function<void(Scene&)>& body) {
  for (const ShardingStrategy strategy : kAll) {
    for (const int ranks : {1, 2}) {
      CAPTURE(name(strategy), ranks);
      std::string said;
      for (const std::string& error : errors_of(ranks, [&](dist::Communicator& world) {
             const nn::StateDict expected = run(strategy, Forward::none, world, body);
             for (const Forward how : {Forward::dropped, Forward::kept}) {
               const bool same = same_state(expected, run(strategy, how, world, body));
               expect(same, how == Forward::kept ? "the same with kept" : "the same with dropped",
                      " outputs");
             }
           })) {
        said += error;
      }
      CHECK(said == "");
    }
  }
}

}  // namespace

TEST_CASE("an optimizer that is made after a forward without backward trains all parameters") {
  compare([](Scene& scene) {
    scene.forward();
    optim::AdamW adamw(scene.model.parameters(), {.lr = 0.01});
    scene.train(adamw, 3);
  });
  compare([](Scene& scene) {
    scene.forward();
    optim::MasterWeights<optim::SGD> sgd(scene.model.parameters(), {.lr = 0.01});
    scene.train(sgd, 2);
  });
  using Masters = optim::MasterWeights<optim::SGD>;
  compare([](Scene& scene) {
    scene.forward();
    Masters sgd(std::vector<Masters::Group>{{scene.model.parameters(), {.lr = 0.01}}});
    scene.train(sgd, 2);
  });
}

TEST_CASE("what is frozen and trained again after a forward without backward is") {
  compare([](Scene& scene) {
    optim::SGD sgd(scene.model.parameters(), {.lr = 0.05});
    scene.train(sgd, 1);
    scene.forward();
    scene.model.get_submodule("fc2").requires_grad_(false);
    scene.outputs = {};
    scene.train(sgd, 2);
    scene.forward();
    scene.model.get_submodule("fc2").requires_grad_(true);
    scene.model.get_submodule("fc1").requires_grad_(false);
    scene.train(sgd, 2);
  });
}

TEST_CASE("a forward of a frozen module leaves nothing that a later one trains without") {
  compare([](Scene& scene) {
    optim::SGD sgd(scene.model.parameters(), {.lr = 0.05});
    scene.model.requires_grad_(false);
    scene.forward();
    scene.model.requires_grad_(true);
    scene.train(sgd, 2);
  });
}

TEST_CASE("gradients are clipped after a forward without backward") {
  compare([](Scene& scene) {
    optim::SGD sgd(scene.model.parameters(), {.lr = 0.05});
    scene.loss(0).backward();
    scene.forward();
    scene.found.push_back(optim::clip_grad_norm(scene.model.parameters(), 0.1).item());
    optim::clip_grad_value(scene.model.parameters(), 0.01);
    sgd.step();
    sgd.zero_grad();
    scene.train(sgd, 1);
  });
}

TEST_CASE("an average of parameters that is made after a forward without backward has them") {
  compare([](Scene& scene) {
    optim::SGD sgd(scene.model.parameters(), {.lr = 0.05});
    scene.forward();
    optim::EMA average(scene.model.parameters(), {.decay = 0.5});
    scene.train(sgd, 2);
    average.step();
    scene.forward();
    const optim::EMA::Scope averaged(average);
    scene.outputs = {};
    const NoGrad none;
    scene.found.push_back(scene.loss(7).item());
  });
}

TEST_CASE("values that are written after a forward without backward count") {
  compare([](Scene& scene) {
    scene.forward();
    {
      const NoGrad none;
      for (const Tensor& p : scene.model.parameters()) p.fill_(0.0625);
    }
    scene.outputs = {};
    const NoGrad none;
    scene.found.push_back(scene.loss(3).item());
  });
}

TEST_CASE("a checkpoint is saved and resumed after a forward without backward") {
  const hero_test::TempDir dir;
  compare([&](Scene& scene) {
    optim::SGD sgd(scene.model.parameters(), {.lr = 0.05});
    scene.train(sgd, 1);
    const std::string folder = dir / "of_all_runs";
    {
      dist::Checkpointer checkpoint(folder, scene.world);
      checkpoint.track("model", scene.model);
      checkpoint.track("optimizer", sgd);
      scene.forward();
      checkpoint.save(1);
      scene.train(sgd, 1);
      scene.forward();
      checkpoint.load(1);
    }
    scene.outputs = {};
    scene.train(sgd, 1);
    scene.world.barrier();
    if (scene.world.rank() == 0) std::filesystem::remove_all(folder);
    scene.world.barrier();
  });
}

TEST_CASE("a backward of outputs that were kept goes on with the parameters of its forward") {
  for (const ShardingStrategy strategy : kAll) {
    for (const int ranks : {1, 2}) {
      CAPTURE(name(strategy), ranks);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        std::vector<Array> gradients[2];
        for (const bool looks : {false, true}) {
          const auto model = make_subject(Subject::mlp);
          climb(strategy, Subject::mlp, *model, world);
          const Tensor loss = subject_loss(Subject::mlp, *model, 0, world.rank());
          if (looks) {
            optim::AdamW adamw(model->parameters(), {.lr = 0.01});
            adamw.zero_grad();
          }
          loss.backward();
          for (const Tensor& p : model->parameters()) gradients[looks].push_back(p.grad().array());
        }
        for (size_t i = 0; i < gradients[0].size(); ++i) {
          expect(same(gradients[0][i], gradients[1][i]), "the gradient of parameter ", i);
        }
      });
    }
  }
}
