// LBFGS against PyTorch, Lion and LAMB against NumPy: tests/golden/make_optim.py.
#include <cmath>

#include "optim/factory.h"

namespace {

using namespace hero;
using namespace hero_test;

json golden() {
  std::ifstream file(HERO_GOLDEN_DIR "/optim_more.json");
  REQUIRE(file.good());
  return json::parse(file);
}

// Rosenbrock's function multiplies rounding errors of 1e-16 by up to its curvature, about 1000, at
// each of some hundred evaluations; the sharpest run stays below 1e-11.
constexpr double kAllowed = 1e-10;

void check_row(const Problem& problem, const json& row) {
  const auto expected = row.get<std::vector<double>>();
  const auto values = problem.values();
  CHECK(std::fabs(values[0] - expected[0]) <= kAllowed);
  CHECK(std::fabs(values[1] - expected[1]) <= kAllowed);
}

}  // namespace

TEST_CASE("lion and lamb follow NumPy written from their papers") {
  const json all = golden();
  for (const char* name : {"lion", "lamb"}) {
    for (const auto& [label, run] : all.at(name).items()) {
      INFO(name << " " << label);
      // LAMB's norms are over a whole parameter: both numbers are one parameter here.
      const Tensor p = Tensor(Array::from(all.at("start").get<std::vector<double>>(), {2}), true);
      std::unique_ptr<optim::Optimizer> optimizer;
      if (std::string(name) == "lion") {
        optim::LionOptions options;
        read_options(options, run.at("options"));
        optimizer = std::make_unique<optim::Lion>(std::vector<Tensor>{p}, options);
      } else {
        optim::LAMBOptions options;
        read_options(options, run.at("options"));
        optimizer = std::make_unique<optim::LAMB>(std::vector<Tensor>{p}, options);
      }
      for (const json& row : run.at("params")) {
        optimizer->zero_grad();
        const Tensor x = p.select(0, 0), y = p.select(0, 1);
        (square(1 - x) + 100 * square(y - square(x))).backward();
        optimizer->step();
        const auto expected = row.get<std::vector<double>>();
        const auto values = p.to_vector<double>();
        CHECK(std::fabs(values[0] - expected[0]) <= kAllowed);
        CHECK(std::fabs(values[1] - expected[1]) <= kAllowed);
      }
    }
  }
}

namespace {

optim::LBFGSOptions lbfgs_options(json given) {
  optim::LBFGSOptions options;
  if (given.contains("line_search_fn")) {
    options.line_search = optim::LineSearch::strong_wolfe;
    given.erase("line_search_fn");
  }
  read_options(options, given);
  return options;
}

}  // namespace

TEST_CASE("lbfgs takes PyTorch's points with PyTorch's number of evaluations") {
  const json all = golden();
  for (const auto& [label, run] : all.at("lbfgs").items()) {
    INFO(label);
    const Problem problem("rosenbrock", all.at("start").get<std::vector<double>>());
    const auto options = lbfgs_options(run.at("options"));
    optim::LBFGS lbfgs(problem.params(), options);
    int calls = 0;
    for (size_t i = 0; i < run.at("params").size(); ++i) {
      const Tensor before = lbfgs.step([&] {
        ++calls;
        lbfgs.zero_grad();
        const Tensor loss = problem.loss();
        loss.backward();
        return loss;
      });
      check_row(problem, run.at("params")[i]);
      CHECK(calls == run.at("calls")[i].get<int>());
      CHECK(std::fabs(before.item() - run.at("losses")[i].get<double>()) <= 100.0 * kAllowed);
      // Every step goes through a state dict into a new optimizer: nothing may be lost.
      optim::LBFGS next(problem.params());
      next.options().line_search = options.line_search;
      next.load_state_dict(lbfgs.state_dict());
      lbfgs.load_state_dict(next.state_dict());
    }
  }
}

TEST_CASE("lbfgs with a line search finds the minimum of Rosenbrock's function") {
  const Problem problem("rosenbrock", {-1.5, 2.0});
  optim::LBFGS lbfgs(
      problem.params(),
      {.max_iter = 100, .tolerance_change = 1e-14, .line_search = optim::LineSearch::strong_wolfe});
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor loss = problem.loss();
    loss.backward();
    return loss;
  });
  // A loss within 1e-14 of its minimum where the smallest curvature is 0.4: sqrt(2e-14 / 0.4).
  CHECK(std::fabs(problem.values()[0] - 1.0) < 1e-6);
  CHECK(std::fabs(problem.values()[1] - 1.0) < 1e-6);
  REQUIRE_THROWS_WITH(static_cast<optim::Optimizer&>(lbfgs).step(),
                      Catch::Matchers::ContainsSubstring("closure"));
}
