// The paths of the page's playground against those of the library, and its ends against the table
// of chapter 6.
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "site/browser.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using namespace hero;
using hero_test::Browser;
using nlohmann::json;

namespace {

Tensor valley(const Tensor& x) { return sin(x) + square(x) / 10; }
Tensor canyon(const Tensor& p) {
  const Tensor x = p[0], y = p[1];
  return square(1 - x) + 100 * square(y - square(x));
}

// A function as the page and as the library call it.
struct Landscape {
  const char* key;
  Tensor (*loss)(const Tensor& x);
  DType dtype;
  std::vector<double> goal;
  double near;
};
const Landscape kValley = {
    "valley", valley, kFloat32, {static_cast<double>(-1.30644f)}, static_cast<double>(1e-6f)};
const Landscape kWide = {"newton", valley, kFloat64, kValley.goal, kValley.near};
const Landscape kCanyon = {"canyon", canyon, kFloat64, {1.0, 1.0}, 1e-3};

struct Setting {
  std::vector<double> start;
  double lr, momentum;
  int steps;
};

// What an optimizer does before the gradient is taken, and after.
struct Stepper {
  std::function<void()> before, after;
};

template <class Optimizer, class Options>
Stepper stepper(const Tensor& x, const Options& options) {
  auto optimizer = std::make_shared<Optimizer>(std::vector{x}, options);
  return {[optimizer] {
            optimizer->zero_grad();
            if constexpr (requires { optimizer->lookahead(); }) optimizer->lookahead();
          },
          [optimizer] { optimizer->step(); }};
}

Stepper stepper_of(const std::string& method, const Landscape& land, const Tensor& x,
                   const Setting& s) {
  using namespace optim;
  const std::array<double, 2> betas = {s.momentum, 0.999};
  if (method == "sgd") return stepper<SGD, SGDOptions>(x, {.lr = s.lr});
  if (method == "momentum") return stepper<SGD, SGDOptions>(x, {s.lr, s.momentum});
  if (method == "nesterov") {
    const bool nesterov = s.momentum > 0.0;
    return stepper<SGD, SGDOptions>(x, {.lr = s.lr, .momentum = s.momentum, .nesterov = nesterov});
  }
  if (method == "lookahead") {
    return stepper<NesterovLookahead, NesterovLookaheadOptions>(x, {s.lr, s.momentum});
  }
  if (method == "adagrad") return stepper<Adagrad, AdagradOptions>(x, {s.lr});
  if (method == "rmsprop") return stepper<RMSprop, RMSpropOptions>(x, {s.lr});
  if (method == "adam") return stepper<Adam, AdamOptions>(x, {s.lr, betas});
  if (method == "adamw") return stepper<AdamW, AdamWOptions>(x, {s.lr, betas});
  REQUIRE(method == "newton");
  auto newton = std::make_shared<Newton>(std::vector{x}, NewtonOptions{.lr = s.lr});
  return {[x] { x.set_grad({}); }, [=] { newton->step([=] { return land.loss(x); }); }};
}

// The library's path as the page writes it: [x.., value, gradient..] of every step.
std::vector<std::vector<double>> walk(const std::string& method, const Landscape& land,
                                      const Setting& s) {
  const Tensor x = tensor(s.start, {.dtype = land.dtype, .requires_grad = true});
  const Stepper stepper = stepper_of(method, land, x, s);
  std::vector<std::vector<double>> path;
  while (static_cast<int>(path.size()) < s.steps) {
    stepper.before();
    const Tensor y = land.loss(x);
    y.backward();
    const std::vector<double> at = x.to(kFloat64).to_vector<double>();
    std::vector<double> row = at;
    row.push_back(y.item());
    for (const double g : x.grad().to(kFloat64).to_vector<double>()) row.push_back(g);
    path.push_back(row);
    double missed = 0.0;
    for (size_t i = 0; i < at.size(); ++i)
      missed = std::max(missed, std::fabs(at[i] - land.goal[i]));
    if (missed <= land.near) break;
    stepper.after();
  }
  return path;
}

json page_path(Browser& browser, const std::string& method, const Landscape& land,
               const Setting& s) {
  const json options = {
      {"start", s.start}, {"lr", s.lr}, {"momentum", s.momentum}, {"steps", s.steps}};
  return browser.evaluate("optimizers.descend(functions." + std::string(land.key) + ", '" + method +
                          "', " + options.dump() +
                          ").points.map((p) => [...p.x, p.value, ...p.gradient])");
}

// How far the page's path is from the library's: the largest difference relative to the number, or
// to 1 where that is larger. 0: the same bits.
double apart(Browser& browser, const std::string& method, const Landscape& land, const Setting& s) {
  const std::vector<std::vector<double>> path = walk(method, land, s);
  const json shown = page_path(browser, method, land, s);
  REQUIRE(shown.size() == path.size());
  double most = 0.0;
  for (size_t i = 0; i < path.size(); ++i) {
    REQUIRE(shown[i].size() == path[i].size());
    for (size_t k = 0; k < path[i].size(); ++k) {
      const double want = path[i][k], got = shown[i][k].get<double>();
      const double by = std::fabs(got - want) / std::max(1.0, std::fabs(want));
      most = by <= most ? most : by;  // written so that NaN wins
    }
  }
  return most;
}

const char* const kMethods[] = {"sgd",     "momentum", "nesterov", "lookahead", "adagrad",
                                "rmsprop", "adam",     "adamw",    "newton"};

double usual_rate(Browser& browser, const std::string& method, const Landscape& land) {
  return browser.evaluate("optimizers.methods." + method + ".lr." + land.key).get<double>();
}

}  // namespace

TEST_CASE("in float32 the page's paths are the library's, bit for bit") {
  NEED_CHROMIUM();
  Browser browser;
  for (const std::string method : kMethods) {
    for (const double start : {-8.0, 8.0, 2.37}) {
      for (const double momentum : {0.9, 0.55, 0.0}) {
        for (const double part : {1.0, 0.3}) {
          const double lr = part * usual_rate(browser, method, kValley);
          CAPTURE(method, start, momentum, lr);
          CHECK(apart(browser, method, kValley, {{start}, lr, momentum, 500}) == 0.0);
        }
      }
    }
  }
}

TEST_CASE(
    "in float64 the page's paths are the library's bits where there are no powers and sines") {
  NEED_CHROMIUM();
  Browser browser;
  for (const std::string method : kMethods) {
    // Adam's corrections take powers, which the browser's mathematics and libm may round
    // differently; Newton's 2 x 2 equations are solved by a QR there, and by Cramer's rule here.
    const bool exact = method.substr(0, 4) != "adam" && method != "newton";
    const double lr = usual_rate(browser, method, kCanyon);
    CAPTURE(method, lr);
    const double by = apart(browser, method, kCanyon, {{-1.5, 2.0}, lr, 0.9, 10'000});
    if (exact) CHECK(by == 0.0);
    CHECK(by <= 1e-10);
  }
  // sines of both sides differ in the last bit
  CHECK(apart(browser, "newton", kWide, {{-5.0}, 1.0, 0.0, 12}) <= 1e-10);
}

TEST_CASE("the page's playground ends where the table of chapter 6 does") {
  NEED_CHROMIUM();
  Browser browser;
  const std::map<std::string, std::string> keys = {
      {"Newton", "newton"},     {"SGD", "sgd"},         {"Momentum", "momentum"},
      {"Nesterov", "nesterov"}, {"Adagrad", "adagrad"}, {"RMSprop", "rmsprop"},
      {"Adam", "adam"},         {"AdamW", "adamw"}};
  std::ifstream table(HERO_SITE_DIR "/../../tutorials/expected/06_adaptive.txt");
  size_t lines = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string name, lr, left, left_x, right, right_x, low, steps, missed;
    words >> name >> lr >> left >> left_x >> right >> right_x >> low >> steps >> missed;
    if (missed.empty() || keys.count(name) == 0) continue;
    ++lines;
    CAPTURE(line);
    const std::string method = keys.at(name);
    const auto ends = [&](const Landscape& land, const std::vector<double>& start,
                          const std::string& rate, int most) {
      CHECK(usual_rate(browser, method, land) == std::stod(rate));
      const json path = page_path(browser, method, land, {start, std::stod(rate), 0.9, most});
      return std::pair(static_cast<int>(path.size()), path.back());
    };
    const auto [left_steps, left_end] = ends(kValley, {-8.0}, lr, 500);
    const auto [right_steps, right_end] = ends(kValley, {8.0}, lr, 500);
    const auto [canyon_steps, canyon_end] = ends(kCanyon, {-1.5, 2.0}, low, 10'000);
    CHECK(left_steps == (left == "-" ? 500 : std::stoi(left)));
    CHECK(right_steps == (right == "-" ? 500 : std::stoi(right)));
    CHECK(canyon_steps == (steps == "-" ? 10'000 : std::stoi(steps)));
    // the table rounds to the fifth and sixth digit
    CHECK(std::fabs(left_end[0].get<double>() - std::stod(left_x)) <= 0.51e-5);
    CHECK(std::fabs(right_end[0].get<double>() - std::stod(right_x)) <= 0.51e-5);
    const double far = std::max(std::fabs(canyon_end[0].get<double>() - 1.0),
                                std::fabs(canyon_end[1].get<double>() - 1.0));
    CHECK(std::fabs(far - std::stod(missed)) <= 0.51e-6);
  }
  CHECK(lines == keys.size());
}
