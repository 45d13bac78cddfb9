// Numbers in states that are loaded: what no optimizer can have saved is refused by name.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "optim/all_optimizers.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/optim/grad_scaler.h>
#include <hero/optim/lbfgs.h>
#include <hero/optim/schedules.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero_test;
using hero::test::error_of;
namespace optim = hero::optim;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

optim::StateDict with(optim::StateDict dict, const std::string& name, double value) {
  for (auto& entry : dict) {
    if (entry.name == name) entry.array = hero::Array::full({}, value, hero::kFloat64);
  }
  return dict;
}

bool is_number(const hero::core::NamedArray& entry) {
  return entry.array.ndim() == 0 && entry.array.dtype() == hero::kFloat64;
}

// The bytes of all entries.
std::vector<uint64_t> bits(const optim::StateDict& dict) {
  std::vector<uint64_t> all;
  for (const auto& entry : dict) all.push_back(hero::test::hash(entry.array));
  return all;
}

// That each of these values under that name is refused by name, and changes nothing.
template <class Object>
void check_refused(Object& object, const std::string& name, const std::vector<double>& values) {
  const optim::StateDict good = object.state_dict();
  for (const double value : values) {
    CAPTURE(name, value);
    const std::string error = error_of([&] { object.load_state_dict(with(good, name, value)); });
    const std::string last = name.substr(name.rfind('.') + 1);
    CHECK_THAT(error, ContainsSubstring(name) || ContainsSubstring(last));
    CHECK(bits(object.state_dict()) == bits(good));
  }
  object.load_state_dict(good);
}

}  // namespace

TEST_CASE("a count of steps that is none is refused by every optimizer") {
  for (const Maker& each : all_optimizers()) {
    CAPTURE(each.name);
    const std::vector<hero::Tensor> params{noise(5, 1), noise(3, 2)};
    const auto optimizer = each.make(params);
    for (int step = 0; step < 3; ++step) {
      give_gradients(params, step);
      optimizer->step();
    }
    int numbers = 0;
    for (const auto& entry : optimizer->state_dict()) {
      if (!is_number(entry) || entry.name.rfind("state.", 0) != 0) continue;
      ++numbers;
      std::vector<double> values{kNaN, kInf, -kInf, -1.0, 1e300};
      if (entry.name.ends_with(".step"))
        values.insert(values.end(), {0.5, 0x1p54, -0.5, 2.0000001});
      check_refused(*optimizer, entry.name, values);
    }
    CHECK(numbers >= 2);
    // No option is NaN, and flags are flags.
    for (const auto& entry : optimizer->state_dict()) {
      if (entry.name.rfind("group.", 0) == 0) check_refused(*optimizer, entry.name, {kNaN});
    }
    for (const char* flag : {"maximize", "nesterov", "amsgrad", "centered"}) {
      if (!optimizer->has_option(flag)) continue;
      check_refused(*optimizer, std::string("group.0.") + flag, {0.5, -1.0, 2.0, kInf, 1e300});
      CHECK_THROWS_WITH(optimizer->set_option(flag, 0.5), ContainsSubstring("is a flag, 0 or 1"));
    }
    // What is left alone goes on.
    give_gradients(params, 4);
    optimizer->step();
    for (const hero::Tensor& param : params) CHECK(std::isfinite(sum(param).item()));
  }
}

TEST_CASE("numbers of L-BFGS that are none are refused") {
  const hero::Tensor x = noise(4, 3);
  optim::LBFGS lbfgs({x}, {.lr = 0.1, .max_iter = 4});
  const auto closure = [&] {
    lbfgs.zero_grad();
    const hero::Tensor loss = sum(x * x * x * x + x * x);
    loss.backward();
    return loss;
  };
  lbfgs.step(closure);
  const std::vector<double> never{kNaN, kInf, -kInf, -1.0, 0.5, 1e300, 1.4e161};
  for (const char* name : {"lbfgs.iterations", "lbfgs.pairs"}) check_refused(lbfgs, name, never);
  for (const char* name : {"lbfgs.t", "lbfgs.diagonal"}) {
    check_refused(lbfgs, name, {kNaN, kInf, -kInf});
  }
  for (const char* name : {"group.0.max_iter", "group.0.max_eval", "group.0.history_size"}) {
    check_refused(lbfgs, name, {kNaN, kInf, -kInf, 0.5, 1e300, 1.4e161, 2147483648.0});
  }
  lbfgs.set_option("max_iter", 2147483647.0);
  CHECK(lbfgs.option("max_iter") == 2147483647.0);
}

TEST_CASE("numbers of schedules and of the scaler that are none are refused") {
  const hero::Tensor x = noise(4, 3), y = noise(4, 4);
  optim::SGD sgd(std::vector<optim::SGD::Group>{{{x}, {.lr = 0.1}}, {{y}, {.lr = 0.2}}});
  optim::Schedule schedule(sgd, optim::ExponentialLR{.gamma = 0.5});
  schedule.step();
  const auto rates = [&] { return std::vector<double>{sgd.lr(0), sgd.lr(1)}; };
  const std::vector<double> before = rates();
  check_refused(schedule, "schedule.steps", {kNaN, kInf, -1.0, 0.5, 1e300, 1.8e24});
  for (const char* name : {"schedule.base.0", "schedule.base.1"}) {
    check_refused(schedule, name, {kNaN, kInf, -kInf});
    // Finite, but no rate that the optimizer takes: found when the first group has its own already.
    const auto bad = with(schedule.state_dict(), name, -1.0);
    CHECK_THROWS_WITH(schedule.load_state_dict(bad), ContainsSubstring("lr"));
    CHECK(rates() == before);
  }
  CHECK(rates() == before);

  optim::ReduceLROnPlateau plateau(sgd);
  plateau.step(1.0);
  for (const char* name : {"plateau.bad", "plateau.cooling"}) {
    check_refused(plateau, name, {kNaN, kInf, -1.0, 0.5});
  }
  for (const char* name : {"plateau.lr.0", "plateau.lr.1"}) {
    check_refused(plateau, name, {kNaN, kInf, -0.1});
  }
  CHECK(rates() == before);
  plateau.load_state_dict(with(plateau.state_dict(), "plateau.best", kInf));  // none so far

  optim::GradScaler scaler;
  check_refused(scaler, "scale", {kNaN, kInf, 0.0, -1.0});
  check_refused(scaler, "growth_interval", {kNaN, kInf, 0.0, -1.0, 0.5, 1e300});
  check_refused(scaler, "_growth_tracker", {kNaN, kInf, -1.0, 0.5, 1e300, 2000.0, 2001.0});
}
