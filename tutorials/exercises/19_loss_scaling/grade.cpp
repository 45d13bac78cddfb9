// Grades answers to exercise 19.
#include <cmath>
#include <limits>

#include "exercises/19_loss_scaling/exercise.h"
#include "exercises/support/arrays.h"

#include <hero/optim/optim.h>

using exercise::number, exercise::require, exercise::Scaler, exercise::ScalerOptions;
using exercise::Wrong;
using hero::kFloat16, hero::kFloat32, hero::Tensor;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr double kRate = 0.5;

// Three parameters, their masters, a scaler, and an optimizer that notes what it is given.
struct Subject {
  explicit Subject(const ScalerOptions& options) {
    for (const int64_t numel : {5, 3, 4}) {
      Tensor start = hero::arange(numel).to(kFloat32) / 8.0 + 0.25;
      parameters.push_back(start.to(kFloat16).detach().requires_grad_());
      masters.push_back(start.detach().requires_grad_());
    }
    scaler = exercise::scaler(
        parameters, masters,
        [this] {
          const hero::NoGrad no_grad;
          ++steps;
          seen.clear();
          for (const Tensor& m : masters) {
            require(m.grad().defined(), "The optimizer steps, and a master has no gradient.");
            seen.push_back(m.grad());
            m.copy_(m - kRate * m.grad());
          }
        },
        options);
    require(scaler != nullptr, "scaler() returns no object.");
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  // A step with gradients that backward would have made; one number of parameter `at` is `bad`.
  bool step(float bad = 0.0F, size_t at = 0) {
    gradients.clear();
    for (const Tensor& p : parameters) {
      std::vector<float> values;
      for (int64_t i = 0; i < p.numel(); ++i)
        values.push_back(0.0123F * static_cast<float>(i + 1) + 0.3F);
      if (bad != 0.0F && gradients.size() == at) values[1] = bad;
      gradients.push_back(Tensor(hero::Array::from(values, p.shape())).to(kFloat16));
      // as backward does, which adds
      p.set_grad(p.grad().defined() ? (p.grad() + gradients.back()).detach() : gradients.back());
    }
    return scaler->step();
  }

  std::vector<Tensor> parameters, masters, gradients, seen;
  std::unique_ptr<Scaler> scaler;
  int steps = 0;
};

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return a.to(kFloat32).to_vector<float>() == b.to(kFloat32).to_vector<float>();
}

std::string loss() {
  for (const double first : {65536.0, 1024.0}) {
    for (const hero::DType dtype : {kFloat16, kFloat32}) {
      const Subject subject({.first = first, .interval = 4});
      const Tensor value = hero::full({}, 1.5, {.dtype = dtype}).requires_grad_();
      const Tensor got = subject.scaler->scale(value);
      require(got.defined() && got.numel() == 1, "scale() does not return one number.");
      require(got.dtype() == kFloat32, "Of a ", dtype, " loss, scale() returns ", got.dtype(),
              ", and should return float32.",
              dtype == kFloat16 ? " 65504 is the largest number of float16." : "");
      require(got.item() == 1.5 * first, "Of a loss of 1.5 and the scale ", number(first),
              " scale() returns ", number(got.item()), " and should return ", number(1.5 * first),
              ".", std::isinf(got.item()) ? " Go to float32 first, and then multiply." : "");
      if (dtype == kFloat16) continue;  // in which 65536, the gradient, is infinite
      got.backward();
      require(value.grad().defined() && value.grad().item() == first,
              "The gradient of the loss is not the scale: what scale() returns has to be computed "
              "from the loss, by operations that are recorded.");
    }
  }
  return "1.5 times 65536 and 1024, in float32.";
}

std::string gradients() {
  for (const ScalerOptions options : {ScalerOptions{.first = 1024.0, .interval = 1},
                                      ScalerOptions{.first = 65536.0, .interval = 4},
                                      ScalerOptions{.first = 0x1p40, .interval = 4}}) {
    Subject subject(options);
    const bool stepped = subject.step();
    const std::string with = "With the scale " + number(options.first) + " ";
    require(subject.steps == 1, with, "and finite gradients, the optimizer steps ", subject.steps,
            " times, and should once.");
    require(stepped, with, "step() has stepped and returns false.");
    for (size_t i = 0; i < subject.masters.size(); ++i) {
      const Tensor got = subject.seen[i], g = subject.gradients[i];
      require(got.dtype() == kFloat32, with, "the gradient of a master is ", got.dtype(),
              " and should be float32.");
      const Tensor right = g.to(kFloat32) / options.first;
      if (!same(got, right)) {
        std::string why;
        if (same(got, g.to(kFloat32))) {
          why = " It was not divided by the scale.";
        } else if (same(got, (g / options.first).to(kFloat32))) {
          why = " It was divided in float16, which has no such small numbers: go to float32 first.";
        } else if (same(got, g.to(kFloat32) * options.first)) {
          why = " It was multiplied by the scale a second time.";
        } else if (same(got, right / 2.0) || same(got, right * 2.0)) {
          why = " It was divided by the scale of the next step: change the scale at the end.";
        }
        const auto difference = exercise::first_difference(
            {{"the gradient of master " + std::to_string(i), got.array()}},
            {{"the gradient of master " + std::to_string(i), right.array()}});
        throw Wrong(with + difference.text + why);
      }
      const auto as_master = [&](const Tensor& master) {
        return same(subject.parameters[i].detach(), master.to(kFloat16));
      };
      if (!as_master(subject.masters[i].detach())) {
        // those of before are what they were at first, too: a second step tells
        const Tensor before = subject.masters[i].detach().clone();
        bool late = false;
        try {
          subject.step();
          late = as_master(before);
        } catch (const hero::Error&) {  // parameters_[i] is another tensor
        }
        throw Wrong(
            with + "parameter " + std::to_string(i) +
            " has not the new values of its master after the step" +
            (late ? ", but those of before: copy them after optimizer_step_()."
                  : ": copy_ writes them into it. An assignment would only make parameters_[i] the "
                    "name of another tensor."));
      }
      require(!subject.parameters[i].grad().defined(), with, "parameter ", i,
              " still has its gradient after the step: the next backward would add to it.");
    }
    const double scale = subject.scaler->get_scale();
    subject.step();
    for (size_t i = 0; i < subject.masters.size(); ++i) {
      const Tensor right = subject.gradients[i].to(kFloat32) / scale;
      require(same(subject.seen[i], right), with, "the gradient of master ", i,
              " is wrong in the second step.",
              same(subject.seen[i], right + subject.gradients[i].to(kFloat32) / options.first)
                  ? " That of the first step is in it as well: set_grad() puts the new one in its "
                    "place."
                  : "");
    }
  }
  return "the masters get float32 gradients without the scale, and the parameters the masters' new "
         "values.";
}

// Numbers that are finite, and their sum is not.
void large() {
  Subject subject({.first = 1024.0, .interval = 4});
  for (const Tensor& p : subject.parameters)
    p.set_grad(hero::full({p.numel()}, 40000.0, {.dtype = kFloat16}));
  require(subject.scaler->step() && subject.steps == 1,
          "Where all gradients are 40000, which is finite in float16, the step is left out. Look "
          "at each number, isfinite(p.grad()), and not at a sum of them, which may be infinite.");
}

// Why an answer may step where a number of the gradient of parameter `at` is `bad`.
std::string why_it_steps(float bad, size_t at) {
  // whether it steps where the first `count` numbers of the gradients of all parameters are
  // infinite
  const auto steps_with = [](int64_t count) {
    Subject subject({.first = 1024.0, .interval = 4});
    for (const Tensor& p : subject.parameters) {
      const Tensor infinite = hero::full({p.numel()}, kInfinity);
      p.set_grad(
          where(hero::arange(p.numel()) < count, infinite, zeros_like(infinite)).to(kFloat16));
    }
    subject.scaler->step();
    return subject.steps > 0;
  };
  if (steps_with(5))
    return "It steps whatever the gradients are, and should only where all of them are finite.";
  if (steps_with(1)) return "One such number is enough: all(isfinite(x)), and not any of them.";
  if (std::isnan(bad)) return "NaN is not finite either.";
  return at != 2 ? "All parameters have to be looked at." : "";
}

std::string overflow() {
  for (const float bad : {kInfinity, -kInfinity, kNoNumber}) {
    for (const size_t at : {0, 1, 2}) {
      Subject subject({.first = 1024.0, .interval = 4});
      std::vector<Tensor> before;
      for (const Tensor& p : subject.parameters) before.push_back(p.detach().clone());
      const bool stepped = subject.step(bad, at);
      const std::string where = "Where a gradient of parameter " + std::to_string(at) + " is " +
                                (std::isnan(bad) ? "NaN"
                                 : bad > 0       ? "infinite"
                                                 : "minus infinity") +
                                ", ";
      require(subject.steps == 0, where, "the optimizer steps. ", why_it_steps(bad, at));
      require(!stepped, where, "step() returns true and has not stepped.");
      for (size_t i = 0; i < before.size(); ++i) {
        require(same(before[i], subject.parameters[i].detach()), where, "parameter ", i,
                " changes in a step that is left out.");
        require(!subject.parameters[i].grad().defined(), where, "parameter ", i,
                " keeps its gradient: the next backward would add to what is infinite.");
      }
      require(subject.scaler->get_scale() == 512.0, where, "the scale becomes ",
              number(subject.scaler->get_scale()), ", and should be half of 1024.");
    }
  }
  large();
  Subject subject({.first = 1.0, .interval = 4});
  subject.step(kInfinity);
  require(subject.scaler->get_scale() == 0.5, "After an overflow the scale 1 becomes ",
          number(subject.scaler->get_scale()),
          ", and should be 0.5: it is halved, however small it is.");
  return "a step with an infinite gradient or NaN, in any parameter, is left out, and the scale "
         "halved.";
}

// The scales after each step, by a rule in which mistakes can be made.
struct Rule {
  bool reset_at_overflow = true, reset_at_growth = true;
  int64_t late = 0;
};
std::vector<double> scales(const std::string& steps, int64_t interval, const Rule& rule) {
  std::vector<double> list;
  double scale = 1024.0;
  int64_t good = 0;
  for (const char step : steps) {
    if (step == 'x') {
      scale /= 2.0;
      if (rule.reset_at_overflow) good = 0;
    } else if (++good >= interval + rule.late) {
      scale *= 2.0;
      if (rule.reset_at_growth) good = 0;
    }
    list.push_back(scale);
  }
  return list;
}

std::string rule() {
  const std::string steps = "....x...x.........xx........";
  const std::vector<double> right = scales(steps, 4, {});
  Subject subject({.first = 1024.0, .interval = 4});
  std::vector<double> got;
  for (const char step : steps) {
    subject.step(step == 'x' ? kInfinity : 0.0F);
    got.push_back(subject.scaler->get_scale());
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (got[i] == right[i]) continue;
    std::string why;
    if (got == scales(steps, 4, {.reset_at_overflow = false})) {
      why = " Good steps are counted in a row: an overflow begins the count anew.";
    } else if (got == scales(steps, 4, {.reset_at_growth = false})) {
      why = " After it has grown, the count begins anew.";
    } else if (got == scales(steps, 4, {.late = 1}) || got == scales(steps, 4, {.late = -1})) {
      why = " It is a step too late or too early.";
    } else if (got == scales(steps, 1, {})) {
      why = " It grows after every good step: count them in good_.";
    } else if (got == scales(steps, 1000, {})) {
      why = " It never grows.";
    }
    throw Wrong("Of the steps " + steps +
                ", where x overflows and options.interval is 4, the scale "
                "after step " +
                std::to_string(i + 1) + " is " + number(got[i]) + " and should be " +
                number(right[i]) + "." + why);
  }
  return "over " + std::to_string(steps.size()) + " steps, four of which overflow, from 1024 to " +
         number(right.back()) + ".";
}

// A small network in float16 whose loss is small; the masters beside the library's.
constexpr double kSmall = 0x1p-24;
constexpr int kSteps = 80;
struct Model {
  Model() {
    hero::manual_seed(3);
    for (const hero::Shape& shape : {hero::Shape{8, 16}, hero::Shape{16, 1}})
      parameters.push_back((hero::randn(shape) / 4.0).to(kFloat16).detach().requires_grad_());
    x = hero::randn({32, 8});
    target = tanh(x.slice(1, 0, 1));
  }
  Tensor loss() const {
    const Tensor h = tanh(matmul(x.to(kFloat16), parameters[0]));
    return mse_loss(matmul(h, parameters[1]).to(kFloat32), target) * kSmall;
  }
  std::vector<Tensor> parameters;
  Tensor x, target;
};
constexpr double kLearningRate = 0.2 / kSmall;

std::string training() {
  Model right, model;
  hero::optim::MasterWeights<hero::optim::SGD> sgd(right.parameters, {.lr = kLearningRate});
  hero::optim::GradScaler library({.init_scale = 0x1p50, .growth_interval = 20});
  std::vector<Tensor> masters;
  for (const Tensor& p : model.parameters)
    masters.push_back(p.detach().to(kFloat32).requires_grad_());
  hero::optim::SGD own(masters, {.lr = kLearningRate});
  const auto scaler = exercise::scaler(model.parameters, masters, [&] { own.step(); },
                                       {.first = 0x1p50, .interval = 20});
  double first = 0.0, last = 0.0;
  int left_out = 0;
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    library.scale(right.loss()).backward();
    library.step(sgd);
    library.update();
    const Tensor value = model.loss();
    last = value.item() / kSmall;
    if (step == 0) first = last;
    scaler->scale(value).backward();
    left_out += scaler->step() ? 0 : 1;
    std::vector<exercise::Named> got, wanted;
    for (size_t i = 0; i < model.parameters.size(); ++i) {
      got.push_back({"parameter " + std::to_string(i), model.parameters[i].array()});
      wanted.push_back({"parameter " + std::to_string(i), right.parameters[i].array()});
    }
    const auto difference = exercise::first_difference(got, wanted);
    require(!difference.found, "After step ", step + 1, " of a training run ", difference.text);
    require(scaler->get_scale() == library.get_scale(), "After step ", step + 1,
            " of a training run, where options.interval is 20, the scale is ",
            number(scaler->get_scale()), " and should be ", number(library.get_scale()), ".");
  }
  const double digits = 100.0;
  return "80 steps in float16 are bitwise those of the library. " + std::to_string(left_out) +
         " of them are left out, the scale goes from 2^50 to 2^" +
         number(std::log2(scaler->get_scale())) + ", and the loss from " +
         number(std::round(first * digits) / digits) + " to " +
         number(std::round(last * digits) / digits) + ".";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 19. Loss scaling", {{"loss", loss},
                                                       {"gradients", gradients},
                                                       {"overflow", overflow},
                                                       {"scale", rule},
                                                       {"training", training}});
}
