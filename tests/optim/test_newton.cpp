#include <cmath>
#include <cstdio>

#include "optim/golden.h"

#include <hero/optim/newton.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;

std::string newton_lines(const char* format) {
  std::string text;
  const Tensor x = tensor(std::vector<double>{-5.0}, {kFloat64}).requires_grad_();
  optim::Newton newton({x});
  for (int i = 0; i < 12; ++i) {
    const auto seen = newton.step([&] { return sin(x) + square(x) / 10; });
    char line[160];
    std::snprintf(line, sizeof line, format, i, x.item(), seen.loss.item(), seen.gradient.item(),
                  seen.hessian.item());
    text += line;
  }
  return text;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("newton's method prints the twelve lines of the article") {
  const std::string expected = read_text(HERO_GOLDEN_DIR "/blog/newton_new.txt");
  CHECK(newton_lines("[%2d/12] x = %.8f, f(x) = %.5f, f'(x) = %.5f, f''(x) = %.5f\n") == expected);
}

TEST_CASE("newton's method prints the older article's digits, last derivative included") {
  const std::string expected = read_text(HERO_GOLDEN_DIR "/blog/newton_old.txt");
  CHECK(newton_lines("[%d/12] x = %.8g, f(x) = %.5g, f'(x) = %.5g, f''(x) = %.5g\n") == expected);
}

TEST_CASE("newton's method solves a quadratic of several parameters in one step") {
  const Tensor a = tensor({1.0, -2.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor b = full({1, 1}, 3.0, {.dtype = kFloat64, .requires_grad = true});
  const Tensor unused = tensor({0.0}, {.dtype = kFloat64});
  optim::Newton newton({a, b});
  // Rows are swapped on the way: the first pivot is 0.
  const auto loss = [&] {
    const Tensor a0 = a.select(0, 0), a1 = a.select(0, 1), b0 = b.reshape({1}).select(0, 0);
    return a0 * a1 + square(b0) - 4 * b0 + 2 * a0 + a1 + unused.select(0, 0);
  };
  const auto seen = newton.step(loss);
  CHECK(seen.hessian.to_vector<double>() == std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 2});
  // Three unknowns by QR: a few roundings of 2e-16 at numbers below 10.
  CHECK(allclose(a, tensor({-1.0, -2.0}, {.dtype = kFloat64}), 0.0, 1e-14));
  CHECK(std::fabs(b.item() - 2.0) < 1e-14);
  CHECK(std::fabs(amax(abs(newton.step(loss).gradient)).item()) < 1e-13);
  CHECK(!a.grad().defined());
}

TEST_CASE("newton's method takes parameters of eight dimensions, and of none") {
  const Shape shape = Shape::filled(8, 1);
  const Tensor a = full(shape, 3.0, {.dtype = kFloat64, .requires_grad = true});
  const Tensor b = full({}, 2.0, {.dtype = kFloat64, .requires_grad = true});
  const auto seen = optim::Newton({a, b}).step([&] { return sum(square(a)) + square(b) * 2; });
  CHECK(seen.gradient.to_vector<double>() == std::vector<double>{6, 8});
  CHECK(seen.hessian.to_vector<double>() == std::vector<double>{2, 0, 0, 4});
  CHECK(std::fabs(a.item()) + std::fabs(b.item()) < 1e-14);
}

TEST_CASE("a singular matrix of second derivatives is an error that says what to do") {
  const Tensor x = tensor({1.0, 2.0}, {.dtype = kFloat64, .requires_grad = true});
  optim::Newton newton({x});
  const auto flat = [&] { return square(sum(x)); };
  REQUIRE_THROWS_WITH(newton.step(flat),
                      ContainsSubstring("singular") && ContainsSubstring("damping"));
  CHECK(x.to_vector<double>() == std::vector<double>{1.0, 2.0});
  const Tensor y = tensor({1.0}, {.dtype = kFloat64, .requires_grad = true});
  REQUIRE_THROWS_WITH(optim::Newton({y}).step([&] { return 2 * y; }),
                      ContainsSubstring("the second derivative is 0"));
  REQUIRE_THROWS_WITH(optim::Newton({y}).step([&] { return square(log(y - 1)); }),
                      ContainsSubstring("not finite"));
  const auto linear = [&] { return sum(x); };
  REQUIRE_THROWS_WITH(newton.step(linear), ContainsSubstring("singular"));
  newton.options().damping = 1.0;
  newton.step(flat);
  CHECK(std::fabs(sum(x).item()) < 1.0);
}

TEST_CASE("lbfgs that maximises steps as one that minimises the negative loss") {
  using optim::LBFGS, optim::LineSearch;
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const auto run = [&](double sign, bool maximize) {
      const Tensor x = tensor({1.5, -0.5, 2.0}, {.dtype = kFloat64, .requires_grad = true});
      LBFGS lbfgs({x}, {.lr = 0.5, .max_iter = 6, .line_search = search, .maximize = maximize});
      CHECK(lbfgs.option("maximize") == (maximize ? 1.0 : 0.0));
      std::vector<double> seen;
      for (int i = 0; i < 3; ++i) {
        const Tensor first = lbfgs.step([&] {
          lbfgs.zero_grad();
          const Tensor loss = (sum(square(x)) + sum(pow(x - 1.0, 4))) * sign;
          loss.backward();
          return loss;
        });
        seen.push_back(sign * first.item());
      }
      const auto point = x.to_vector<double>();
      seen.insert(seen.end(), point.begin(), point.end());
      return seen;
    };
    const std::vector<double> down = run(1.0, false);
    CHECK(run(-1.0, true) == down);
    CHECK(down[2] < down[0]);
  }
}

TEST_CASE("lbfgs with a line search evaluates no more often than max_eval says") {
  using optim::LBFGS, optim::LineSearch;
  // PyTorch 2.15: the search gets what is left, and the point tried with nothing left is not taken
  for (const auto& [iterations, most] : {std::pair{1, 0}, {20, 3}, {20, 8}, {20, 0}}) {
    const Tensor x = tensor({-1.2, 1.0}, {.dtype = kFloat64, .requires_grad = true});
    LBFGS lbfgs(
        {x}, {.max_iter = iterations, .max_eval = most, .line_search = LineSearch::strong_wolfe});
    int evaluations = 0;
    lbfgs.step([&] {
      ++evaluations;
      lbfgs.zero_grad();
      const Tensor a = x[0], b = x[1];
      const Tensor loss = square(b - square(a)) * 100.0 + square(1.0 - a);
      loss.backward();
      return loss;
    });
    CAPTURE(iterations, most, evaluations);
    // the first point of a search is always tried
    CHECK(evaluations <= (most > 0 ? most : iterations * 5 / 4) + 1);
    if (iterations == 1) CHECK(x.to_vector<double>() == std::vector<double>{-1.2, 1.0});
  }
}
