#include <cmath>
#include <fstream>
#include <map>

#include "support/catch.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::optim;
using Catch::Matchers::ContainsSubstring;

struct Two {
  Tensor a = tensor({0.0f}, {.requires_grad = true});
  Tensor b = tensor({0.0f}, {.requires_grad = true});
  SGD sgd{std::vector<SGD::Group>{{{a}, {.lr = 0.4, .momentum = 0.9}},
                                  {{b}, {.lr = 0.04, .momentum = 0.9}}}};
};

nlohmann::json golden() {
  std::ifstream file(HERO_GOLDEN_DIR "/schedules.json");
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

// The reference multiplies each rate from the one before, up to 30 times, each with a rounding of
// 1.1e-16; ours are closed forms. Sums that cancel (cosine near its end) are measured against the
// base rate.
bool close(double a, double b) { return std::fabs(a - b) <= 1e-14 * 0.4 + 1e-14 * std::fabs(b); }

const OneCycleLR kCycle{.max_lr = 0.3, .total_steps = 20};

std::multimap<std::string, Curve> curves() {
  return {
      {"step", StepLR{.step_size = 3, .gamma = 0.3}},
      {"multi_step", MultiStepLR{.milestones = {2, 5, 5, 9}, .gamma = 0.2}},
      {"exponential", ExponentialLR{.gamma = 0.93}},
      {"constant", ConstantLR{.factor = 0.25, .total_iters = 4}},
      {"linear", LinearLR{.start_factor = 0.05, .end_factor = 0.8, .total_iters = 7}},
      {"linear_default", LinearLR{}},
      {"polynomial", PolynomialLR{.total_iters = 6, .power = 2.0}},
      {"cosine", CosineAnnealingLR{.t_max = 10, .eta_min = 0.003}},
      {"cosine_up", CosineAnnealingLR{.t_max = 8}},
      {"warm_restarts", CosineAnnealingWarmRestarts{.t_0 = 4, .eta_min = 0.01}},
      {"warm_restarts_mult", CosineAnnealingWarmRestarts{.t_0 = 3, .t_mult = 2}},
      {"one_cycle", kCycle},
      {"one_cycle_linear",
       OneCycleLR{.max_lr = 0.3, .total_steps = 20, .pct_start = 0.4, .anneal = Anneal::linear}},
      {"one_cycle_three",
       OneCycleLR{.max_lr = 0.3, .total_steps = 20, .div_factor = 10.0, .three_phase = true}},
      {"sequential",
       SequentialLR{{LinearLR{.start_factor = 0.01, .total_iters = 4},
                     CosineAnnealingLR{.t_max = 6, .eta_min = 0.001}, ExponentialLR{.gamma = 0.5}},
                    {4, 10}}},
      {"chained", ChainedScheduler{{LinearLR{.start_factor = 0.1}, ExponentialLR{.gamma = 0.9},
                                    StepLR{.step_size = 3, .gamma = 0.5}}}},
      {"cyclic", CyclicLR{.max_lr = 0.9, .step_size_up = 3, .step_size_down = 5}},
      {"cyclic2", CyclicLR{.max_lr = 0.9, .step_size_up = 4, .mode = CyclicMode::triangular2}},
      {"cyclic_exp",
       CyclicLR{.max_lr = 0.9, .step_size_up = 4, .mode = CyclicMode::exp_range, .gamma = 0.9}},
      {"multiplicative",
       MultiplicativeLR{[](int64_t t) { return 1.0 - 0.05 * static_cast<double>(t); }}},
      {"lambda", LambdaLR{[](int64_t t) { return 1.0 / static_cast<double>(1 + t); }}},
      {"lambda", [](double base, int64_t t) { return base / static_cast<double>(1 + t); }},
  };
}

}  // namespace

TEST_CASE("schedules give the reference's rates for every group") {
  const auto expected = golden().at("lr");
  for (const auto& [name, curve] : curves()) {
    const auto rows = expected.at(name).get<std::vector<std::vector<double>>>();
    Two two;
    Schedule schedule(two.sgd, curve);
    for (size_t t = 0; t < rows.size(); ++t) {
      INFO(name << " after " << t << " steps: " << two.sgd.lr(0) << ", " << two.sgd.lr(1));
      CHECK(close(two.sgd.lr(0), rows[t][0]));
      CHECK(close(two.sgd.lr(1), rows[t][1]));
      schedule.step();
    }
  }
}

TEST_CASE("one cycle moves the momentum the other way") {
  const auto rows =
      golden().at("lr").at("one_cycle_momentum").get<std::vector<std::vector<double>>>();
  Two two;
  Schedule schedule(two.sgd, kCycle.momentum(), "momentum");
  for (const auto& row : rows) {
    CHECK(close(two.sgd.option("momentum"), row[0]));
    schedule.step();
  }
  CHECK(two.sgd.option("momentum") == 0.95);
  CHECK(two.sgd.lr() == 0.4);
}

TEST_CASE("a cycle of rates moves the momentum the other way, and what it lacks is an error") {
  const auto rows = golden().at("lr").at("cyclic_momentum").get<std::vector<std::vector<double>>>();
  Two two;
  const CyclicLR cycle{.max_lr = 0.9, .step_size_up = 3, .step_size_down = 5};
  Schedule schedule(two.sgd, cycle.momentum(), "momentum");
  for (const auto& row : rows) {
    CHECK(close(two.sgd.option("momentum"), row[0]));
    schedule.step();
  }
  CHECK_THROWS_WITH(CyclicLR{.step_size_up = 0}(1.0, 1), ContainsSubstring("step_size_up"));
  CHECK_THROWS_WITH(LambdaLR{}(1.0, 1), ContainsSubstring("no factor"));
  CHECK_THROWS_WITH(MultiplicativeLR{}(1.0, 1), ContainsSubstring("no factor"));
}

TEST_CASE("rates fall when a metric stops improving, as in the reference") {
  const auto expected = golden().at("plateau");
  const auto metrics = expected.at("metrics").get<std::vector<double>>();
  const auto follow = [&](const char* name, const ReduceLROnPlateauOptions& options) {
    const auto rates = expected.at("rates").at(name).get<std::vector<double>>();
    Two two;
    ReduceLROnPlateau schedule(two.sgd, options);
    for (size_t t = 0; t < metrics.size(); ++t) {
      if (t == 7) {  // a new schedule goes on in the middle
        ReduceLROnPlateau other(two.sgd, options);
        two.sgd.set_lr(123.0);
        other.load_state_dict(schedule.state_dict());
        schedule.load_state_dict(other.state_dict());
        two.sgd.set_lr(rates[t - 1], 0);
      }
      schedule.step(metrics[t]);
      INFO(name << " " << t);
      CHECK(close(two.sgd.lr(), rates[t]));
    }
  };
  follow("min", {.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = 0.02});
  follow("max_absolute", {.mode = PlateauMode::max,
                          .factor = 0.2,
                          .patience = 1,
                          .threshold = 0.05,
                          .threshold_mode = Threshold::absolute});
}

TEST_CASE("a schedule goes on exactly where it was saved") {
  for (const auto& [name, curve] : curves()) {
    INFO(name);
    Two whole, first, second;
    Schedule a(whole.sgd, curve), b(first.sgd, curve);
    for (int i = 0; i < 7; ++i) a.step();
    for (int i = 0; i < 7; ++i) b.step();
    Schedule c(second.sgd, curve);
    c.load_state_dict(b.state_dict());
    for (int i = 0; i < 3; ++i) {
      CHECK(whole.sgd.lr(0) == second.sgd.lr(0));
      CHECK(whole.sgd.lr(1) == second.sgd.lr(1));
      a.step();
      c.step();
    }
  }
}

TEST_CASE("a group that is added later goes along a schedule from the rate that it has") {
  const auto parameter = [] { return Tensor(Array::zeros({1}), true); };
  optim::SGD sgd({parameter()}, {.lr = 1.0});
  Schedule schedule(sgd, ExponentialLR{.gamma = 0.5});
  schedule.step();
  sgd.add_param_group({{parameter()}, {.lr = 8.0}});
  CHECK(sgd.lr(1) == 8.0);
  const optim::StateDict before = schedule.state_dict();
  schedule.step();  // the second: both have a quarter of what they began with
  CHECK(sgd.lr(0) == 0.25);
  CHECK(sgd.lr(1) == 2.0);
  schedule.load_state_dict(before);
  schedule.step();
  CHECK(sgd.lr(1) == 2.0);
  optim::SGD again({parameter()}, {.lr = 1.0});
  Schedule resumed(again, ExponentialLR{.gamma = 0.5});
  again.add_param_group({{parameter()}, {.lr = 3.0}});
  resumed.load_state_dict(before);
  resumed.step();
  CHECK(again.lr(1) == 2.0);
}

TEST_CASE("schedules say what is wrong with them") {
  Two two;
  REQUIRE_THROWS_WITH(Schedule(two.sgd, StepLR{}), ContainsSubstring("step_size"));
  REQUIRE_THROWS_WITH(Schedule(two.sgd, LinearLR{}, "beta1"), ContainsSubstring("no option beta1"));
  REQUIRE_THROWS_WITH(Schedule(two.sgd, SequentialLR{{LinearLR{}, LinearLR{}}, {}}),
                      ContainsSubstring("2 curves"));
  REQUIRE_THROWS_WITH(ReduceLROnPlateau(two.sgd, {.factor = 1.0}), ContainsSubstring("factor"));
  Schedule schedule(two.sgd, LinearLR{});
  REQUIRE_THROWS_WITH(schedule.load_state_dict({}), ContainsSubstring("schedule.steps"));
}

TEST_CASE("curves in a chain give the next one their value as its base") {
  const CosineAnnealingLR cosine{.t_max = 4, .eta_min = 0.01};
  const ExponentialLR decay{.gamma = 0.9};
  const LambdaLR halves{[](int64_t) { return 0.5; }};
  const ChainedScheduler chain{{cosine, decay, halves}};
  for (int64_t t = 0; t < 10; ++t) CHECK(chain(0.4, t) == halves(decay(cosine(0.4, t), t), t));
}

TEST_CASE("SWALR goes to its rate and stays, and a cycle may only rise or only fall") {
  // torch.optim.swa_utils.SWALR
  const double cosine[] = {0.3, 0.2633883476483184, 0.175, 0.08661165235168157, 0.05, 0.05};
  const double line[] = {0.3, 0.21666666666666667, 0.13333333333333333, 0.05, 0.05, 0.05};
  for (int64_t t = 0; t < 6; ++t) {
    CHECK(close(SWALR{.swa_lr = 0.05, .anneal_epochs = 4}(0.3, t), cosine[t]));
    const SWALR straight{.swa_lr = 0.05, .anneal_epochs = 3, .anneal = Anneal::linear};
    CHECK(close(straight(0.3, t), line[t]));
    CHECK(SWALR{.swa_lr = 0.05, .anneal_epochs = 0}(0.3, t) == 0.05);
  }
  CHECK_THROWS_WITH((SWALR{.anneal_epochs = -1}(0.3, 0)), ContainsSubstring("anneal_epochs"));
  // torch.optim.lr_scheduler.OneCycleLR with pct_start of 0 and of 1
  const OneCycleLR falls{
      .max_lr = 1.0, .total_steps = 4, .pct_start = 0.0, .anneal = Anneal::linear};
  CHECK(close(falls(0.1, 0), 0.750001));
  CHECK(close(falls(0.1, 3), 4.000000000004e-06));
  const OneCycleLR rises{
      .max_lr = 1.0, .total_steps = 4, .pct_start = 1.0, .anneal = Anneal::linear};
  CHECK(close(rises(0.1, 0), 0.04));
  CHECK(close(rises(0.1, 3), 1.0));
  CHECK_THROWS_WITH((OneCycleLR{.total_steps = 4, .pct_start = 1.1}(0.3, 0)),
                    ContainsSubstring("pct_start"));
}

TEST_CASE("a factor that holds for no steps is none") {
  CHECK(ConstantLR{.factor = 0.5, .total_iters = 0}(0.4, 0) == 0.4);
  CHECK_THROWS_WITH((LinearLR{.total_iters = 0}(0.4, 0)), ContainsSubstring("total_iters"));
}

TEST_CASE("factors of lines and constants may be any") {
  CHECK(LinearLR{.start_factor = 2.0, .end_factor = 0.0, .total_iters = 4}(0.5, 1) == 0.75);
  CHECK(ConstantLR{.factor = 4.0, .total_iters = 2}(0.5, 1) == 2.0);
}

TEST_CASE("in a sequence every curve begins with the base, MultiplicativeLR too") {
  const MultiplicativeLR falls{[](int64_t) { return 0.5; }};
  const SequentialLR sequence{{PolynomialLR{.total_iters = 2}, falls}, {3}};
  CHECK(sequence(0.4, 2) == 0.0);
  CHECK(sequence(0.4, 3) == 0.4);
  CHECK(sequence(0.4, 4) == 0.2);
}

TEST_CASE("a step of MultiplicativeLR calls its factor once for each rate") {
  int calls = 0;
  const MultiplicativeLR falls{[&](int64_t t) {
    ++calls;
    return 1.0 - 0.01 * static_cast<double>(t);
  }};
  double by_hand[] = {0.3, 0.7};
  for (int64_t t = 0; t < 20; ++t) {
    for (double& rate : by_hand) {
      if (t > 0) rate *= 1.0 - 0.01 * static_cast<double>(t);
    }
    CHECK(falls(0.3, t) == by_hand[0]);
    CHECK(falls(0.7, t) == by_hand[1]);
  }
  CHECK(calls == 2 * 19);
  CHECK(falls(0.3, 2) == 0.3 * 0.99 * 0.98);  // and backwards
  // Bases that change with every step, as in a chain.
  for (int i = 1; i < 200; ++i) CHECK(falls(i, 1) == i * 0.99);
  CHECK(falls(0.7, 19) == by_hand[1]);
}
