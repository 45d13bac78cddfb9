#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/numpy_random.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace {

using Rows = std::vector<std::vector<std::string>>;

// The rows of a table behind its head line.
Rows read_csv(const std::string& name) {
  const std::string path = std::string(HERO_GOLDEN_DIR "/blog/") + name;
  std::ifstream file(path);
  REQUIRE(file);
  Rows rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
  }
  REQUIRE_FALSE(rows.empty());
  return rows;
}

Tensor f(const Tensor& x) { return sin(x) + square(x) / 10; }

struct Run {
  std::string file;  // without _traj_*.csv
  double start, lr, momentum;
  bool nesterov, lookahead;
  double float_error;  // allowed in x, in float32
};

// What allows a distance in float32 at all: the reference sums v = mu v - lr g, the library's SGD
// b = mu b + g and lr b, which rounds elsewhere. An error of half an ulp of x (2.4e-7 at 8) a step
// is damped by the curve; 1e-6 is four of them. Where lr is 1 both round alike, and what remains is
// the last bit of cos, which the reference for the momentum run from the left has from another
// implementation.
constexpr double kRoundsElsewhere = 1e-6;
// The reference has glibc's cosf, which the library's differs from by one ulp now and then: near
// the minimum that moves x by one ulp, 1.2e-7.
constexpr double kOneUlp = 1.3e-7;
constexpr double kSame = 0.0;  // plain descent agrees bit for bit

const std::vector<Run>& runs() {
  static const std::vector<Run> list = {
      {"sgd_left", -8, 1.0, 0.0, false, false, kSame},
      {"sgd_right", 8, 1.0, 0.0, false, false, kSame},
      {"momentum_right", 8, 0.1, 0.9, false, false, kRoundsElsewhere},
      {"momentum_left", -8, 1.0, 0.9, false, false, kRoundsElsewhere},
      {"momentum_left_lr0.1", -8, 0.1, 0.9, false, false, kRoundsElsewhere},
      {"nag_left", -8, 1.0, 0.9, false, true, kOneUlp},
      {"nag_right", 8, 1.0, 0.9, false, true, kOneUlp},
      {"nag_torch_left", -8, 1.0, 0.9, true, false, kOneUlp},
      {"nag_torch_right", 8, 1.0, 0.9, true, false, kOneUlp},
      {"torch_sgd_nesterov_right", 8, 1.0, 0.9, true, false, kOneUlp},
  };
  return list;
}

std::unique_ptr<optim::Optimizer> make(const Run& run, const Tensor& x) {
  if (run.lookahead) {
    return std::make_unique<optim::NesterovLookahead>(
        std::vector{x}, optim::NesterovLookaheadOptions{.lr = run.lr, .momentum = run.momentum});
  }
  return std::make_unique<optim::SGD>(
      std::vector{x},
      optim::SGDOptions{.lr = run.lr, .momentum = run.momentum, .nesterov = run.nesterov});
}

// Largest distance in x to the table, and the number of points until the goal or the table's end.
struct Followed {
  double apart = 0.0;
  size_t points = 0;
};

Followed follow(const Run& run, DType dtype, const Rows& rows) {
  const Tensor x = tensor({run.start}, {.dtype = dtype, .requires_grad = true});
  const auto optimizer = make(run, x);
  auto* lookahead = dynamic_cast<optim::NesterovLookahead*>(optimizer.get());
  Followed followed;
  bool there = false;
  while (!there && followed.points < rows.size()) {
    optimizer->zero_grad();
    if (lookahead != nullptr) lookahead->lookahead();
    f(x).backward();
    const std::string& text = rows[followed.points++][1];
    // the text of a float32 names it only after rounding to float32
    const double golden = dtype == kFloat32 ? std::stof(text) : std::stod(text);
    followed.apart = std::max(followed.apart, std::fabs(x.item() - golden));
    if (dtype == kFloat32) {
      there = std::fabs(x.item<float>() - -1.30644f) <= 1e-6f;
    } else {
      there = std::fabs(x.item() - -1.30644) <= 1e-6;
    }
    optimizer->step();
  }
  return followed;
}

double figure(const Rows& rows, const std::string& name, size_t field) {
  for (const auto& row : rows) {
    if (row[0] == name) return std::stod(row[field]);
  }
  FAIL("no figure " << name);
  return 0.0;
}

}  // namespace

TEST_CASE("descents in float32 take the article's steps to the article's points") {
  for (const Run& run : runs()) {
    INFO(run.file);
    const Rows rows = read_csv(run.file + "_traj_f32.csv");
    const Followed followed = follow(run, kFloat32, rows);
    CHECK(followed.points == rows.size());
    CHECK(followed.apart <= run.float_error);
  }
}

TEST_CASE("descents in float64 follow the reference") {
  for (const Run& run : runs()) {
    INFO(run.file);
    const Rows rows = read_csv(run.file + "_traj_f64.csv");
    const Followed followed = follow(run, kFloat64, rows);
    CHECK(followed.points == rows.size());
    // as above, with the ulp of double: 1.8e-15 at 8, four of them
    CHECK(followed.apart <= 8e-15);
  }
}

TEST_CASE("Newton's method visits the reference's points") {
  const Rows rows = read_csv("newton_traj_f64.csv");
  const Tensor x = tensor({-5.0}, {.dtype = kFloat64, .requires_grad = true});
  optim::Newton newton({x});
  // Ulps of sin and cos, and those of x/5 against 0.1 (2 x), grow by |f'/f''^2| a step: by up to
  // 340 at the flat point of step 6, of 2e-16 each.
  constexpr double kGrown = 1e-13;
  for (const auto& row : rows) {
    const auto seen = newton.step([&] { return f(x); });
    CHECK(std::fabs(seen.loss.item() - std::stod(row[2])) <= kGrown);
    CHECK(std::fabs(seen.gradient.item() - std::stod(row[3])) <= kGrown);
    CHECK(std::fabs(seen.hessian.item() - std::stod(row[4])) <= kGrown);
    CHECK(std::fabs(x.item() - std::stod(row[5])) <= kGrown);
  }
}

namespace {

struct Line {
  Tensor x, y;
  double p1, p2;
};

Line make_line() {
  NumpyRandom random(0);
  const auto column = [](const std::vector<double>& v) {
    return tensor(v, {.dtype = kFloat64}).reshape({-1, 1});
  };
  const Tensor x = 2 * column(random.rand(100));
  const Tensor y = 4 + 3 * x + column(random.randn(100));
  const double p1 = random.randn() * 12;
  return {x, y, p1, random.randn() * -9};
}

struct Look {
  double loss, dp1, dp2;
};

Look look(const Line& line, double p1, double p2) {
  const NoGrad no_grad;
  const Tensor error = line.y - (line.x * p1 + p2);
  return {(1.0 / 100) * square(error).sum().item(), -(2.0 / 100) * (error * line.x).sum().item(),
          -(2.0 / 100) * error.sum().item()};
}

}  // namespace

TEST_CASE("linear regression by hand gives the reference's figures, bit for bit over 1000 steps") {
  const Line line = make_line();
  const Rows figures = read_csv("linreg_figures.csv");
  const auto check = [&](const char* name, double ours) {
    INFO(name);
    // the reference, and what it says is allowed
    CHECK(std::fabs(ours - figure(figures, name, 1)) <= figure(figures, name, 3));
  };
  check("p1_initial", line.p1);
  check("p2_initial", line.p2);
  const Rows rows = read_csv("linreg_traj_f64.csv");
  double p1 = line.p1, p2 = line.p2;
  size_t differ = 0;
  Look at{};
  for (size_t i = 0; i < 50000; ++i) {
    at = look(line, p1, p2);
    if (i < rows.size()) {
      const double ours[] = {p1, p2, at.loss, at.dp1, at.dp2};
      for (size_t k = 0; k < 5; ++k) differ += ours[k] != std::stod(rows[i][k + 1]);
    }
    if (i == 0) check("mse_initial", at.loss), check("dp1_initial", at.dp1);
    if (i == 0) check("dp2_initial", at.dp2);
    if (i == 999) check("loss_step_999", at.loss), check("dp1_step_999", at.dp1);
    if (i == 999) check("dp2_step_999", at.dp2);
    p1 -= 0.05 * at.dp1;
    p2 -= 0.05 * at.dp2;
    if (i == 999) check("p1_after_1000", p1), check("p2_after_1000", p2);
  }
  CHECK(differ == 0);
  check("p1_after_50000", p1);
  check("p2_after_50000", p2);

  const std::vector<double> best =
      lstsq(cat({line.x, ones_like(line.x)}, 1), line.y).to_vector<double>();
  check("slope_exact_rounded", best[0]);
  check("intercept_exact_rounded", best[1]);
  check("slope_diff_after_50000", std::fabs(p1 - best[0]));
  check("intercept_diff_after_50000", std::fabs(p2 - best[1]));
}

TEST_CASE("linear regression by autograd and SGD follows the one by hand") {
  const Line line = make_line();
  const Tensor p1 = tensor({line.p1}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor p2 = tensor({line.p2}, {.dtype = kFloat64, .requires_grad = true});
  optim::SGD sgd({p1, p2}, {.lr = 0.05});
  double apart = 0.0;
  for (const auto& row : read_csv("linreg_traj_f64.csv")) {
    apart = std::max({apart, std::fabs(p1.item() - std::stod(row[1])),
                      std::fabs(p2.item() - std::stod(row[2]))});
    sgd.zero_grad();
    mean(square(line.y - (line.x * p1 + p2))).backward();
    sgd.step();
  }
  // another order of the factor 2/100: errors of an ulp of p2 (1.8e-15) a step, which descent damps
  CHECK(apart <= 2e-14);
}
