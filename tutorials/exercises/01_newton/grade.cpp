// Grades answers to exercise 1.
#include "exercises/support/grade.h"

#include <cmath>
#include <vector>

#include "exercises/01_newton/exercise.h"

using exercise::near, exercise::number, exercise::require;
using hero::Tensor;

namespace {

Tensor point(const std::vector<double>& x) {
  return hero::tensor(x, {.dtype = hero::kFloat64, .requires_grad = true});
}

Tensor valley(const Tensor& x) { return sin(x) + square(x) / 10; }

// What the answer returns; where the library can not differentiate, the reason is the answer's.
template <class Answer>
Tensor next_point(const Answer& answer, const exercise::Function& f, const Tensor& x) {
  try {
    return answer(f, x);
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    require(text.find("does not require grad") == std::string::npos,
            "A derivative is asked of something whose computing was not recorded (", text,
            "). The slope has a derivative only if its own call says {.create_graph = true}, and "
            "NoGrad has to come after all derivatives.");
    require(text.find("one-element output") == std::string::npos,
            "grad() takes the derivative of one number, and this has several (", text,
            "). hero::hessian(f, x) gives all second derivatives.");
    throw;
  }
}

// The answer's step from x, and that the result is a point at all.
double step(double x) {
  const Tensor next = next_point(exercise::newton_step, valley, point({x}));
  require(next.defined(), "newton_step() returns an undefined tensor.");
  require(next.shape() == hero::Shape{1} && next.dtype() == hero::kFloat64,
          "newton_step() returns ", next.dtype(), " ", next.shape(),
          ", and should return float64 [1].");
  return next.item();
}

// The results of mistakes that are often made, and what to say of them.
std::string mistake(double x, double got) {
  const double slope = std::cos(x) + x / 5, curvature = -std::sin(x) + 0.2;
  if (got == x) return " That is the point where the step began.";
  if (curvature < 0 && near(got, x - slope / std::fabs(curvature))) {
    return " The curvature was taken without its sign. Newton's method goes to any point without "
           "slope, also to a maximum: here the curvature is negative and the step goes uphill.";
  }
  if (near(got, x + slope / curvature)) {
    return " The step was added, and has to be subtracted: it leads away from the zero of the "
           "tangent.";
  }
  if (near(got, x - slope)) {
    return " This is x - slope, a step of gradient descent: the curvature is not used.";
  }
  if (near(got, x - curvature / slope)) return " The quotient is upside down.";
  if (near(got, x - slope * curvature)) return " The slope is multiplied by the curvature.";
  if (near(got, slope / curvature)) return " This is the step; the next point is x minus the step.";
  return "";
}

std::string one_step() {
  for (const double x : {-1.0, -5.0, 3.0}) {
    const double right = x - (std::cos(x) + x / 5) / (-std::sin(x) + 0.2), got = step(x);
    require(near(got, right), "From x = ", number(x), " the step leads to ", number(got),
            " and should lead to ", number(right), ".", mistake(x, got));
  }
  return "from x = -5 the step leads to " + number(step(-5.0)) + ".";
}

std::string without_history() {
  const Tensor x = point({-5.0}), next = next_point(exercise::newton_step, valley, x);
  require(x.to_vector<double>()[0] == -5.0,
          "The step was written into x, which the caller still has: return a new tensor, x - slope "
          "/ curvature.");
  require(
      !next.requires_grad(),
      "The next point remembers how it was computed, so the next step would differentiate through "
      "this one, and the graph would grow from step to step. Compute the next point while a "
      "NoGrad lives.");
  return "the next point has no history.";
}

std::string twelve_steps() {
  double x = -5.0;
  for (int i = 0; i < 12; ++i) x = step(x);
  require(near(x, -1.3064400083695227, 1e-10), "12 steps from x = -5 end at ", number(x),
          " and should end at the minimum, -1.30644000837.");
  return "12 steps from x = -5 end at the minimum, " + number(x) + ".";
}

// A quadratic function of three parameters: x^T A x / 2 - b^T x, whose gradient is A x - b.
const double kA[3][3] = {{4, 1, 0}, {1, 3, -1}, {0, -1, 2}}, kB[3] = {1, 2, 3};

Tensor bowl(const Tensor& x) {
  const auto a = hero::tensor({{4.0, 1.0, 0.0}, {1.0, 3.0, -1.0}, {0.0, -1.0, 2.0}},
                              {.dtype = hero::kFloat64});
  const auto b = hero::tensor({1.0, 2.0, 3.0}, {.dtype = hero::kFloat64});
  return dot(x, mv(a, x)) / 2 - dot(b, x);
}

std::vector<double> slopes(const std::vector<double>& x) {
  std::vector<double> g(3);
  for (size_t i = 0; i < 3; ++i) {
    g[i] = -kB[i];
    for (size_t j = 0; j < 3; ++j) g[i] += kA[i][j] * x[j];
  }
  return g;
}

std::string one_step_of_many() {
  const std::vector<double> start = {2.0, -3.0, 5.0};
  const Tensor x = point(start), next = next_point(exercise::newton_step_of_many, bowl, x);
  require(x.to_vector<double>() == start,
          "The step was written into x, which the caller still has: return a new tensor, x + d.");
  require(next.defined(), "newton_step_of_many() returns an undefined tensor.");
  require(next.shape() == hero::Shape{3}, "newton_step_of_many() returns shape ", next.shape(),
          ", and should return [3].");
  const std::vector<double> got = next.to_vector<double>(), g = slopes(start), left = slopes(got);
  bool diagonal = true, descent = true, away = true, product = true;
  for (size_t i = 0; i < 3; ++i) {
    diagonal = diagonal && near(got[i], start[i] - g[i] / kA[i][i]);
    descent = descent && near(got[i], start[i] - g[i]);
    away = away && near(left[i], 2 * g[i]);
    product =
        product && near(got[i], start[i] - kA[i][0] * g[0] - kA[i][1] * g[1] - kA[i][2] * g[2]);
  }
  for (size_t i = 0; i < 3; ++i) {
    require(
        near(left[i], 0.0, 1e-10),
        "On a quadratic function of three parameters one step should end at the minimum. It ends "
        "at (",
        number(got[0]), ", ", number(got[1]), ", ", number(got[2]), "), where the slope along x[",
        i, "] is ", number(left[i]), ".",
        diagonal
            ? " This divides each slope by its own curvature: only the curvatures on the diagonal "
              "of the matrix are used."
        : descent ? " This is x - gradient, a step of gradient descent."
        : away    ? " The step has the wrong sign: x + d, where d is the solution of H d = -g."
        : product
            ? " This is x - H g: the gradient was multiplied by the matrix. The step d is the "
              "solution of H d = -g."
            : "");
  }
  require(!next.requires_grad(),
          "The next point of n parameters remembers how it was computed. Compute it while a NoGrad "
          "lives.");
  return "on a quadratic function of three parameters one step ends at the minimum.";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 1. Newton's method", {{"one step", one_step},
                                                         {"history", without_history},
                                                         {"12 steps", twelve_steps},
                                                         {"3 numbers", one_step_of_many}});
}
