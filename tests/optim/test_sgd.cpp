#include <cmath>

#include "optim/golden.h"

#include <hero/optim/sgd.h>

namespace {

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

Tensor f(const Tensor& x) { return sin(x) + square(x) / 10; }

// f's slope as the reference rounds it. Taken from here, not from f, because the momentum runs
// magnify the last bit of a cosine: these tests are about the optimizers' own arithmetic.
void set_slope(const Tensor& x) {
  const auto at = x.item<float>();
  x.set_grad(tensor({std::cos(at) + 0.1f * (2.0f * at)}));
}

// step,x,f,grad of a trajectory in float32.
std::vector<float> column_x(const std::string& name) {
  std::vector<float> x;
  for (const auto& row : read_csv(HERO_GOLDEN_DIR "/blog/" + name)) x.push_back(std::stof(row[1]));
  return x;
}

}  // namespace

TEST_CASE("the look-ahead form follows the article's float32 points bit for bit") {
  for (const float start : {-8.0f, 8.0f}) {
    const auto expected = column_x(start < 0 ? "nag_left_traj_f32.csv" : "nag_right_traj_f32.csv");
    CHECK(expected.size() == (start < 0 ? 34 : 27));
    const Tensor x = tensor({start}, {.requires_grad = true});
    optim::NesterovLookahead nag({x}, {.lr = 1.0, .momentum = 0.9});
    for (float point : expected) {
      nag.zero_grad();
      nag.lookahead();
      CHECK(x.item<float>() == point);
      set_slope(x);
      nag.step();
    }
  }
}

TEST_CASE("sgd with nesterov takes the steps printed in the article") {
  for (const float start : {-8.0f, 8.0f}) {
    const auto expected =
        column_x(start < 0 ? "nag_torch_left_traj_f32.csv" : "nag_torch_right_traj_f32.csv");
    const Tensor x = tensor({start}, {.requires_grad = true});
    optim::SGD sgd({x}, {.lr = 1.0, .momentum = 0.9, .nesterov = true});
    for (float point : expected) {
      CHECK(x.item<float>() == point);
      set_slope(x);
      sgd.step();
    }
  }
}

TEST_CASE("lookahead and step must alternate") {
  const Tensor x = tensor({1.0f}, {.requires_grad = true});
  const Tensor idle = tensor({2.0f}, {.requires_grad = true});
  optim::NesterovLookahead nag({x, idle}, {.lr = 0.5});
  REQUIRE_THROWS_WITH(nag.step(), ContainsSubstring("call lookahead() before the forward pass"));
  for (int i = 0; i < 3; ++i) {
    nag.zero_grad();
    nag.lookahead();
    REQUIRE_THROWS_WITH(nag.lookahead(), ContainsSubstring("twice"));
    REQUIRE_THROWS_WITH(nag.state_dict(), ContainsSubstring("after step()"));
    f(x).backward();
    nag.step();
  }
  CHECK(idle.item() == 2.0);
}

TEST_CASE("momentum may be switched on between steps and starts from that gradient") {
  const Tensor x = tensor({1.0f}, {.requires_grad = true});
  optim::SGD sgd({x}, {.lr = 1.0});
  x.set_grad(tensor({0.25f}));
  sgd.step();
  sgd.options().momentum = 0.5;
  sgd.step();  // the buffer is the gradient
  sgd.step();  // and then 0.5 * 0.25 + 0.25
  CHECK(x.item() == 1.0 - 0.25 - 0.25 - 0.375);
}
