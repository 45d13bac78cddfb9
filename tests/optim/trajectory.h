#pragma once
// Optimizers beside the reference trajectories of golden/optim, on any device.
#include <algorithm>
#include <cmath>

#include "optim/factory.h"

namespace hero_test {

/// The reference states its own sensitivity: `deviation` is how far a run moves when its start or
/// its gradients change in the last bits; rounding may not move it much further.
inline double tolerance(const json& config) {
  return std::max(1e-10, 100.0 * config.at("deviation").get<double>());
}

/// Takes the case's steps, or the first `most` of them, on a device.
inline void follow(const json& config, hero::Device device, size_t most) {
  const auto start = config.at("start").is_null() ? std::vector<double>{}
                                                  : config.at("start").get<std::vector<double>>();
  const Problem problem(config.at("function").get<std::string>(), start, device);
  const auto optimizer = make_optimizer(problem, config);
  const auto rows = read_csv(golden_optim(config.at("file").get<std::string>()));
  const auto steps = config.at("steps").get<size_t>();
  REQUIRE(rows.size() == steps + 1);
  const size_t taken = std::min(steps, most);
  const bool mlp = start.empty();
  const size_t first = mlp ? 3 : 1;  // column of p0
  const double allowed = tolerance(config);
  double worst = 0.0;
  for (size_t step = 0; step <= taken; ++step) {
    const std::vector<double> values = problem.values();
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::fabs(values[i] - std::stod(rows[step][first + i])));
    }
    REQUIRE(std::isfinite(values[0]));
    if (step == taken) break;
    optimizer->zero_grad();
    problem.loss().backward();
    optimizer->step();
  }
  CHECK(worst <= allowed);
  if (taken < steps) return;
  // Near a loss of 1 or so its error is about that of the parameters, times a slope below 100.
  CHECK(std::fabs(problem.loss().item() - config.at("final_loss").get<double>()) <=
        100.0 * allowed);
}

/// Every case, or of `parts` of them the one called `part`; of each the first `most` steps.
inline void follow_all(hero::Device device, size_t most = 1 << 20, size_t part = 0,
                       size_t parts = 1) {
  std::ifstream file(golden_optim("cases.json"));
  REQUIRE(file.good());
  const json all = json::parse(file);
  const json& cases = all.at("cases");
  REQUIRE(cases.size() >= parts);
  for (size_t i = part; i < cases.size(); i += parts) {
    INFO(cases[i].at("name").get<std::string>());
    follow(cases[i], device, most);
  }
}

}  // namespace hero_test
