// Grades answers to exercise 2.
#include "exercises/02_descent/exercise.h"
#include "exercises/support/compare.h"

using exercise::compare, exercise::Path, exercise::walk;
using hero::Tensor;

namespace {

constexpr int kSteps = 5;
constexpr double kRate = 0.3, kMu = 0.9;

Tensor slope(const Tensor& x) { return exercise::slope(x); }

Tensor zeros() { return hero::zeros({2}, {.dtype = hero::kFloat64}); }

// A path in which every step is made of the point and of a velocity.
Path path(const std::function<Tensor(const Tensor& x, Tensor& velocity)>& step) {
  Tensor velocity = zeros();
  return walk(kSteps, [&](const Tensor& x) { return step(x, velocity); });
}

using Step = Tensor (*)(const Tensor& x, const exercise::Slope& slope, Tensor& velocity, double lr,
                        double mu);

std::string descent() {
  const char* const only_step = "That is the step alone: the next point is x - the step.";
  const auto by = [](double rate) {
    return walk(kSteps, [rate](const Tensor& x) { return x - rate * slope(x); });
  };
  return compare(walk(kSteps, [](const Tensor& x) { return exercise::descend(x, slope, kRate); }),
                 by(kRate),
                 {{by(-kRate), "The step goes up the slope: subtract it."},
                  {by(1), "The learning rate is not used."},
                  {walk(kSteps, [](const Tensor& x) { return kRate * slope(x); }), only_step},
                  {walk(kSteps, [](const Tensor& x) { return -kRate * slope(x); }), only_step},
                  {by(0), "The point has not moved."}});
}

// The path of momentum, or of Nesterov's method, where the slope is that at x + ahead * velocity.
Path right(double ahead) {
  return path([ahead](const Tensor& x, Tensor& v) {
    v = kMu * v - kRate * slope(x + ahead * v);
    return x + v;
  });
}

// A second ball, after the first one of the answer, with another lr and another mu.
void second_ball(Step step, bool looks_ahead) {
  constexpr double kOtherRate = 0.1, kOtherMu = 0.5;
  const auto rule = [&](double mu) {
    return [=](const Tensor& x, Tensor& v) {
      v = mu * v - kOtherRate * slope(looks_ahead ? x + mu * v : x);
      return x + v;
    };
  };
  Tensor left;  // the velocity of the first ball after its steps
  const double ahead = looks_ahead ? kMu : 0.0;
  path([&](const Tensor& x, Tensor& v) {
    v = kMu * v - kRate * slope(x + ahead * v);
    left = v;
    return x + v;
  });
  try {
    compare(
        path([&](const Tensor& x, Tensor& v) { return step(x, slope, v, kOtherRate, kOtherMu); }),
        path(rule(kOtherMu)),
        {{path(rule(kMu)), "mu is 0.9 whatever it should be: use the argument."},
         {walk(kSteps, [&](const Tensor& x) { return rule(kOtherMu)(x, left); }),
          "It begins with the velocity of the first ball: keep it in `velocity` and nowhere else, "
          "also not in a static variable."}});
  } catch (const exercise::Wrong& wrong) {
    throw exercise::Wrong("Of a second ball, with lr 0.1 and mu 0.5: " + std::string(wrong.what()));
  }
}

const std::vector<std::pair<Path, std::string>>& mistakes() {
  static const std::vector<std::pair<Path, std::string>> list = {
      {path([](const Tensor& x, Tensor&) { return x - kRate * slope(x); }),
       "The velocity is not kept: what you write to `velocity` is there in the next step."},
      {path([](const Tensor& x, Tensor& v) {
         v = kMu * v - kRate * slope(x);
         return x + kRate * v;
       }),
       "The learning rate is used twice: it is in the velocity already."},
      {path([](const Tensor& x, Tensor& v) {
         v = kMu * v + kRate * slope(x);
         return x + v;
       }),
       "The push goes up the slope: subtract it."},
      {path([](const Tensor& x, Tensor& v) {
         v = kMu * v - (1 - kMu) * kRate * slope(x);
         return x + v;
       }),
       "The push is multiplied by 1 - mu: that is a running mean, whose steps are shorter."},
      {path([](const Tensor& x, Tensor& v) {
         const Tensor before = v;
         v = kMu * v - kRate * slope(x);
         return x + before;
       }),
       "The point was moved by the velocity of the step before: first the new velocity, then the "
       "point."},
      {path([](const Tensor& x, Tensor& v) {
         v = kMu * (v - kRate * slope(x));
         return x + v;
       }),
       "mu shortens the push, too: it is a share of the velocity alone."},
      {path([](const Tensor& x, Tensor& v) {
         v = kRate * v - kMu * slope(x);
         return x + v;
       }),
       "lr and mu are exchanged: mu belongs to the velocity, and lr to the slope."},
      {path([](const Tensor& x, Tensor& v) {
         const Tensor push = kRate * slope(x);
         v = kMu * v - push;
         return x + v - push;
       }),
       "The push is in the step twice: the new velocity has it already."},
      {path([](const Tensor& x, Tensor& v) {
         v = kMu * v - kRate * slope(x);
         return v;
       }),
       "That is the velocity alone: the next point is x + velocity."},
      {path([](const Tensor& x, Tensor& v) {
         v = v - kRate * slope(x);
         return x + v;
       }),
       "The velocity keeps all of itself, and should keep a share mu."},
      {path([](const Tensor& x, Tensor& v) {
         v = (1 - kMu) * v - kRate * slope(x);
         return x + v;
       }),
       "The velocity keeps a share 1 - mu of itself, and should keep mu."}};
  return list;
}

std::string momentum() {
  const std::string said = compare(
      path([](const Tensor& x, Tensor& v) { return exercise::momentum(x, slope, v, kRate, kMu); }),
      right(0), mistakes());
  second_ball(exercise::momentum, false);
  return said;
}

std::string nesterov() {
  auto list = mistakes();
  list.push_back({right(0),
                  "The slope is that at x: this is momentum. Ask for it at the point ahead, x + mu "
                  "* velocity."});
  list.push_back({path([](const Tensor& x, Tensor& v) {
                    const Tensor ahead = x + kMu * v;
                    v = kMu * v - kRate * slope(ahead);
                    return ahead + v;
                  }),
                  "The step begins at the point ahead, and should begin at x."});
  list.push_back({path([](const Tensor& x, Tensor& v) {
                    const Tensor push = kRate * slope(x);
                    v = kMu * v - push;
                    return x + kMu * v - push;
                  }),
                  "This is the form of the frameworks, whose point is the one ahead. In the "
                  "look-ahead form the slope is that at x + mu * velocity."});
  list.push_back({right(-kMu),
                  "The point that was asked lies behind x: it should be ahead, x + mu "
                  "* velocity."});
  list.push_back({path([](const Tensor& x, Tensor& v) {
                    v = kMu * v - kRate * slope(x);
                    v = kMu * v - kRate * slope(x + kMu * v);
                    return x + v;
                  }),
                  "The velocity was made twice: the point ahead is made of that of the step "
                  "before."});
  list.push_back({right(kMu * kMu),
                  "The point ahead is x + mu * mu * velocity: the velocity was multiplied by mu "
                  "before."});
  list.push_back({path([](const Tensor& x, Tensor& v) {
                    v = kMu * v - kRate * slope(x + kMu * v);
                    return x + kMu * v;
                  }),
                  "The point has moved by mu times the new velocity, and should by all of it."});
  list.push_back({path([](const Tensor& x, Tensor& v) {
                    v = kMu * v - kRate * slope(kMu * v);
                    return x + v;
                  }),
                  "The slope is that at mu * velocity, which is no point: x + mu * velocity."});
  list.push_back({right(1), "The point ahead is x + velocity; it should be x + mu * velocity."});
  const std::string said = compare(
      path([](const Tensor& x, Tensor& v) { return exercise::nesterov(x, slope, v, kRate, kMu); }),
      right(kMu), list);
  second_ball(exercise::nesterov, true);
  return said;
}

}  // namespace

int main() {
  return exercise::grade("Exercise 2. Gradient descent, momentum, Nesterov",
                         {{"descent", descent}, {"momentum", momentum}, {"Nesterov", nesterov}});
}
