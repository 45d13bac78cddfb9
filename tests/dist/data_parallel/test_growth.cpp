// What DDP, ZeRO and fully_shard() do with a module takes no longer for each of many parameters
// than for each of few. One rank does all of it but send.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/growth.h"

#include <hero/autograd/ops.h>
#include <hero/dist/dist.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>

using namespace hero;
using hero_test::growth_to_eightfold;
using hero_test::kLinear;

namespace {

constexpr int kParameters = 500;

std::shared_ptr<nn::Sequential> layers_of(int parameters) {
  auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < parameters / 2; ++i) model->append<nn::Linear>(1, 1);
  return model;
}

using Strategy = std::function<dist::DataParallel(nn::Sequential&, const dist::Communicator&)>;

struct NamedStrategy {
  const char* name;
  Strategy shard;
};

std::vector<NamedStrategy> strategies() {
  return {
      {"ddp", [](nn::Sequential& model,
                 const dist::Communicator& world) { return dist::DDP(model, world); }},
      {"zero 2",
       [](nn::Sequential& model, const dist::Communicator& world) {
         return dist::ZeRO(model, world, {.stage = 2});
       }},
      {"one unit", [](nn::Sequential& model,
                      const dist::Communicator& world) { return dist::fully_shard(model, world); }},
      {"a unit for each layer",
       [](nn::Sequential& model, const dist::Communicator& world) {
         return dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
       }},
      {"a call for each layer",
       [](nn::Sequential& model, const dist::Communicator& world) {
         for (size_t i = 0; i < model.size(); ++i) dist::fully_shard(model[i], world);
         return dist::fully_shard(model, world);
       }},
  };
}

// Runs `prepare` on one rank, whose work is measured.
double growth_on_a_rank(const std::function<std::function<void()>(const dist::Communicator& world,
                                                                  int parameters)>& prepare) {
  double growth = 0.0;
  dist::run_ranks(1, [&](const dist::Communicator& world) {
    growth = growth_to_eightfold(kParameters,
                                 [&](int parameters) { return prepare(world, parameters); });
  });
  return growth;
}

}  // namespace

TEST_CASE("sharding a module grows with the number of its parameters") {
  for (const auto& [name, shard] : strategies()) {
    INFO(name);
    CHECK(growth_on_a_rank([&](const dist::Communicator& world, int parameters) {
            return [&shard, world, parameters] {
              const auto model = layers_of(parameters);
              const dist::DataParallel parallel = shard(*model, world);
              static_cast<void>(parallel.parameters());
            };
          }) < kLinear);
  }
}

TEST_CASE("converting a sharded module, and its whole state, grow with the number of parameters") {
  for (const auto& [name, shard] : strategies()) {
    INFO(name);
    CHECK(growth_on_a_rank([&](const dist::Communicator& world, int parameters) {
            const auto model = layers_of(parameters);
            const auto parallel = std::make_shared<dist::DataParallel>(shard(*model, world));
            return [model, parallel] {
              model->to(kFloat64);
              model->to(kFloat32);
              static_cast<void>(parallel->full_state_dict());
            };
          }) < kLinear);
  }
}
