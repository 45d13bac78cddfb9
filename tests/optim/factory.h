#pragma once
// Optimizers made by name, with options from JSON.
#include <memory>

#include "optim/golden.h"
#include <nlohmann/json.hpp>

#include <hero/optim/optim.h>

namespace hero_test {

using nlohmann::json;

/// Sets what `given` names; an option that the optimizer lacks fails the test.
template <class Options>
void read_options(Options& options, const json& given) {
  json rest = given;
  Options::each(options, [&]<class T>(const char* name, T& value) {
    if (!rest.contains(name)) return;
    value = rest.at(name).get<T>();
    rest.erase(name);
  });
  if constexpr (requires { options.betas; }) {
    if (rest.contains("betas")) {
      options.betas = rest.at("betas").get<std::array<double, 2>>();
      rest.erase("betas");
    }
  }
  INFO("options not understood: " << rest.dump());
  CHECK(rest.empty());
}

template <class O>
std::unique_ptr<hero::optim::Optimizer> make_one(const Problem& problem, const json& config) {
  using Options = std::decay_t<decltype(std::declval<O>().options())>;
  Options options;
  read_options(options, config.value("options", json::object()));
  if (!config.contains("param_groups")) return std::make_unique<O>(problem.params(), options);
  std::vector<hero::optim::ParamGroup<Options>> groups;
  for (json given : config.at("param_groups")) {
    groups.push_back({{}, options});
    for (const auto& name : given.at("params")) {
      groups.back().params.push_back(problem.param(name.get<std::string>()));
    }
    given.erase("params");
    read_options(groups.back().options, given);
  }
  return std::make_unique<O>(groups);
}

/// The optimizer of a case: {"optimizer", "options", "param_groups"}.
inline std::unique_ptr<hero::optim::Optimizer> make_optimizer(const Problem& problem,
                                                              const json& config) {
  using namespace hero::optim;
  const auto name = config.at("optimizer").get<std::string>();
  if (name == "sgd") return make_one<SGD>(problem, config);
  if (name == "adagrad") return make_one<Adagrad>(problem, config);
  if (name == "rmsprop") return make_one<RMSprop>(problem, config);
  if (name == "adam") return make_one<Adam>(problem, config);
  if (name == "adamw") return make_one<AdamW>(problem, config);
  if (name == "adadelta") return make_one<Adadelta>(problem, config);
  if (name == "adamax") return make_one<Adamax>(problem, config);
  if (name == "nadam") return make_one<NAdam>(problem, config);
  if (name == "radam") return make_one<RAdam>(problem, config);
  if (name == "rprop") return make_one<Rprop>(problem, config);
  if (name == "asgd") return make_one<ASGD>(problem, config);
  if (name == "lamb") return make_one<LAMB>(problem, config);
  if (name == "lion") return make_one<Lion>(problem, config);
  FAIL("no optimizer " << name);
  return nullptr;
}

}  // namespace hero_test
