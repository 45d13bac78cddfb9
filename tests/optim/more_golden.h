#pragma once
// LBFGS against PyTorch, Lion and LAMB against NumPy (tests/golden/make_optim.py), on any device.
#include <algorithm>
#include <cmath>

#include "optim/factory.h"
#include "support/golden_dir.h"

namespace hero_test {

inline json more_golden() {
  std::ifstream file(hero::test::golden_dir() + "/optim_more.json");
  REQUIRE(file.good());
  return json::parse(file);
}

/// Rosenbrock's function multiplies rounding errors of 1e-16 by up to its curvature, about 1000, at
/// each of some hundred evaluations; the sharpest run stays below 1e-11.
inline constexpr double kMoreAllowed = 1e-10;

inline void check_row(const std::vector<double>& values, const json& row) {
  const auto expected = row.get<std::vector<double>>();
  CHECK(std::fabs(values[0] - expected[0]) <= kMoreAllowed);
  CHECK(std::fabs(values[1] - expected[1]) <= kMoreAllowed);
}

/// The first `most` steps of each run.
inline void follow_lion_and_lamb(hero::Device device, size_t most = 1 << 20) {
  using namespace hero;
  const json all = more_golden();
  for (const char* name : {"lion", "lamb"}) {
    for (const auto& [label, run] : all.at(name).items()) {
      INFO(name << " " << label);
      // LAMB's norms are over a whole parameter: both numbers are one parameter here.
      const Tensor p(Array::from(all.at("start").get<std::vector<double>>(), {2}).to(device), true);
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
      const json& rows = run.at("params");
      for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
        optimizer->zero_grad();
        const Tensor x = p.select(0, 0), y = p.select(0, 1);
        (square(1 - x) + 100 * square(y - square(x))).backward();
        optimizer->step();
        check_row(p.to_vector<double>(), rows[i]);
      }
    }
  }
}

inline hero::optim::LBFGSOptions lbfgs_options(json given) {
  hero::optim::LBFGSOptions options;
  if (given.contains("line_search_fn")) {
    options.line_search = hero::optim::LineSearch::strong_wolfe;
    given.erase("line_search_fn");
  }
  read_options(options, given);
  return options;
}

inline void follow_lbfgs(hero::Device device) {
  using namespace hero;
  const json all = more_golden();
  for (const auto& [label, run] : all.at("lbfgs").items()) {
    INFO(label);
    const Problem problem("rosenbrock", all.at("start").get<std::vector<double>>(), device);
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
      check_row(problem.values(), run.at("params")[i]);
      CHECK(calls == run.at("calls")[i].get<int>());
      CHECK(std::fabs(before.item() - run.at("losses")[i].get<double>()) <= 100.0 * kMoreAllowed);
      // Every step goes through a state dict into a new optimizer: nothing may be lost.
      optim::LBFGS next(problem.params());
      next.options().line_search = options.line_search;
      next.load_state_dict(lbfgs.state_dict());
      lbfgs.load_state_dict(next.state_dict());
    }
  }
}

}  // namespace hero_test
