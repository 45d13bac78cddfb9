// Rprop and ASGD against PyTorch (golden/make_optim_elements.py), resumed at every step, and
// refused.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "optim/factory.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/golden_dir.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/optim/optim.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using hero_test::json;

namespace {

constexpr int kElements = 4;

std::vector<Tensor> start() {
  std::vector<Tensor> params;
  for (int n = 0; n < 3; ++n) {
    std::vector<double> values;
    for (int i = 0; i < kElements; ++i) values.push_back(std::sin(1.0 + n + 3.0 * i));
    params.emplace_back(Array::from(values, {kElements}), true);
  }
  return params;
}

void give_gradients(const std::vector<Tensor>& params, int t) {
  for (int n = 0; n < 3; ++n) {
    std::vector<double> values;
    for (int i = 0; i < kElements; ++i) {
      values.push_back(std::cos(1.0 + n + 2.0 * i + 5.0 * t) * (1.0 + 0.1 * i));
    }
    params[static_cast<size_t>(n)].set_grad(Tensor(Array::from(values, {kElements})));
  }
  if (t % 3 == 2) params[1].set_grad({});
}

template <class Options>
Options options_of(json given, Options options = {}) {
  if constexpr (requires { options.etas; }) {
    if (given.contains("etas")) options.etas = given.at("etas").get<std::array<double, 2>>();
    if (given.contains("step_sizes")) {
      options.step_sizes = given.at("step_sizes").get<std::array<double, 2>>();
    }
    given.erase("etas");
    given.erase("step_sizes");
  }
  hero_test::read_options(options, given);
  return options;
}

void check_near(const std::vector<double>& values, const json& expected) {
  // 1e-13: nine steps of a few roundings of numbers below 10
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(std::fabs(values[i] - expected[i].get<double>()) < 1e-13);
  }
}

// Every step goes through a state dict into a new optimizer.
template <class O, class Options>
void follow(const json& run) {
  const std::vector<Tensor> params = start();
  const Options first = options_of<Options>(run.at("options"));
  const Options second = options_of<Options>(run.at("second"), first);
  auto optimizer = std::make_unique<O>(std::vector<optim::ParamGroup<Options>>{
      {{params[0], params[1]}, first}, {{params[2]}, second}});
  for (size_t t = 0; t < run.at("params").size(); ++t) {
    CAPTURE(t);
    give_gradients(params, static_cast<int>(t));
    optimizer->step();
    const optim::StateDict dict = optimizer->state_dict();
    for (size_t n = 0; n < params.size(); ++n) {
      check_near(params[n].template to_vector<double>(), run.at("params")[t][n]);
      if (run.at("averages").empty()) continue;
      const std::string name = "state." + std::to_string(n) + ".ax";
      const auto found = std::find_if(dict.begin(), dict.end(),
                                      [&](const auto& entry) { return entry.name == name; });
      REQUIRE(found != dict.end());
      check_near(found->array.template to_vector<double>(), run.at("averages")[t][n]);
    }
    optimizer = std::make_unique<O>(
        std::vector<optim::ParamGroup<Options>>{{{params[0], params[1]}, {}}, {{params[2]}, {}}});
    optimizer->load_state_dict(dict);
  }
}

const json& golden() {
  static const json cases = [] {
    std::ifstream file(hero::test::golden_dir() + "/optim_elements.json");
    REQUIRE(file.good());
    return json::parse(file);
  }();
  return cases;
}

}  // namespace

TEST_CASE("rprop takes PyTorch's steps in groups, resumed at every step") {
  for (const json& run : golden().at("rprop")) follow<optim::Rprop, optim::RpropOptions>(run);
}

TEST_CASE("asgd takes PyTorch's steps and averages in groups, resumed at every step") {
  for (const json& run : golden().at("asgd")) follow<optim::ASGD, optim::ASGDOptions>(run);
}

TEST_CASE("rprop sees a turn of gradients whose product is too small for float32") {
  const Tensor p = zeros({1}, {.requires_grad = true});
  optim::Rprop rprop({p}, {.lr = 0.5});
  p.set_grad(full({1}, 1e-30));
  rprop.step();
  p.set_grad(full({1}, -1e-30));
  rprop.step();
  CHECK(p.item() == -0.5);  // it stays at the turn
  rprop.step();
  CHECK(p.item() == -0.25);
}

TEST_CASE("asgd's new learning rate counts from the next step on") {
  const Tensor p = zeros({1}, {.dtype = kFloat64, .requires_grad = true});
  optim::ASGD asgd({p}, {.lr = 1.0, .lambd = 0.0});
  p.set_grad(ones({1}, {.dtype = kFloat64}));
  asgd.step();
  asgd.set_lr(0.25);
  asgd.step();
  CHECK(p.item() == -1.25);
}

TEST_CASE("rprop and asgd refuse options out of range by name") {
  const std::vector<Tensor> p = {ones({2}, {.requires_grad = true})};
  using optim::ASGD, optim::Rprop;
  CHECK_THROWS_WITH(Rprop(p, {.lr = -1.0}), ContainsSubstring("rprop: lr must be"));
  CHECK_THROWS_WITH(Rprop(p, {.etas = {1.0, 1.2}}), ContainsSubstring("rprop: eta_minus"));
  CHECK_THROWS_WITH(Rprop(p, {.etas = {0.5, 1.0}}), ContainsSubstring("rprop: eta_plus"));
  CHECK_THROWS_WITH(Rprop(p, {.step_sizes = {-1.0, 1.0}}), ContainsSubstring("step_size_min"));
  CHECK_THROWS_WITH(Rprop(p, {.step_sizes = {1.0, -1.0}}), ContainsSubstring("step_size_max"));
  CHECK_THROWS_WITH(ASGD(p, {.lambd = -1.0}), ContainsSubstring("asgd: lambd must be"));
  CHECK_THROWS_WITH(ASGD(p, {.alpha = std::nan("")}), ContainsSubstring("asgd: alpha"));
  CHECK_THROWS_WITH(ASGD(p, {.alpha = -0.5}), ContainsSubstring("asgd: alpha"));
  CHECK_THROWS_WITH(ASGD(p, {.t0 = std::nan("")}), ContainsSubstring("asgd: t0"));
}
