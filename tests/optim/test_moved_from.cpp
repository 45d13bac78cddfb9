// What was moved from, and functions that are not there: an Error, or still as it was, and never a
// crash.
#include <string>
#include <utility>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

// NOLINTBEGIN(bugprone-use-after-move)

TEST_CASE("a schedule that was moved from is an error, and counts no step", "[moved]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1.0});
  optim::Schedule schedule(sgd, optim::ExponentialLR{.gamma = 0.5});
  schedule.step();
  const optim::StateDict saved = schedule.state_dict();
  optim::Schedule other = std::move(schedule);
  const auto refused = ContainsSubstring("schedule: it was moved from; use the one that it was ");
  CHECK_THROWS_WITH(schedule.step(), refused);
  CHECK_THROWS_WITH(schedule.state_dict(), refused);
  CHECK_THROWS_WITH(schedule.load_state_dict(saved), refused);
  CHECK(schedule.steps() == 1);
  CHECK_THROWS_AS(schedule.value(), Error);
  other.step();
  CHECK(sgd.lr() == 0.25);
}

TEST_CASE("a curve that is not there is an error, in a row and in a chain as well", "[moved]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1.0});
  CHECK_THROWS_WITH(optim::Schedule(sgd, {}), ContainsSubstring("schedule: there is no curve"));
  CHECK_THROWS_WITH(optim::Schedule(sgd, optim::ChainedScheduler{{optim::ConstantLR{}, {}}}),
                    ContainsSubstring("chained_scheduler: there is no curve at 1 of 2"));
  CHECK_THROWS_WITH(optim::Schedule(sgd, optim::SequentialLR{{optim::ConstantLR{}, {}}, {5}}),
                    ContainsSubstring("sequential_lr: there is no curve at 1 of 2"));
  CHECK_THROWS_WITH(optim::Schedule(sgd, optim::SequentialLR{}),
                    ContainsSubstring("sequential_lr: 0 curves need"));
  CHECK_THROWS_WITH(optim::Schedule(sgd, optim::LambdaLR{}), ContainsSubstring("no factor"));
  CHECK_THROWS_WITH(optim::Schedule(sgd, optim::MultiplicativeLR{}),
                    ContainsSubstring("lambda_lr: there is no") ||
                        ContainsSubstring("multiplicative_lr: there is no"));
  CHECK(sgd.lr() == 1.0);
}

TEST_CASE("a curve that throws leaves the schedule at its step", "[moved]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1.0});
  optim::Schedule schedule(sgd, [](double base, int64_t t) {
    check(t != 1, "no value for step 1");
    return base / static_cast<double>(t + 1);
  });
  CHECK_THROWS_WITH(schedule.step(), ContainsSubstring("no value for step 1"));
  CHECK(schedule.steps() == 0);
  CHECK(sgd.lr() == 1.0);
}

TEST_CASE("optimizers that compute the loss themselves need a function", "[moved]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::LBFGS lbfgs({p});
  CHECK_THROWS_WITH(lbfgs.step(std::function<Tensor()>()),
                    ContainsSubstring("lbfgs: step takes a function that computes the loss"));
  optim::Newton newton({p});
  CHECK_THROWS_WITH(newton.step({}),
                    ContainsSubstring("newton: step takes a function that computes the loss"));
}

TEST_CASE("schedules of a metric and scalers stay whole when they are moved from", "[moved]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1.0});
  optim::ReduceLROnPlateau plateau(sgd);
  optim::ReduceLROnPlateau other = std::move(plateau);
  plateau.step(1.0);
  plateau.load_state_dict(other.state_dict());
  optim::GradScaler scaler;
  optim::GradScaler other_scaler = std::move(scaler);
  p.sum().backward();
  scaler.unscale_(sgd);
  CHECK(scaler.step(sgd));
  scaler.update();
  scaler.load_state_dict(other_scaler.state_dict());
}

// NOLINTEND(bugprone-use-after-move)
