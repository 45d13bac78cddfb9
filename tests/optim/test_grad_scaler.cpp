#include <cmath>
#include <limits>

#include "optim/all_optimizers.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor leaf(double value, DType dtype = kFloat32) {
  return tensor({value}, {.dtype = dtype, .requires_grad = true});
}

void give(const Tensor& param, double gradient) {
  param.set_grad(Tensor(Array::full({1}, gradient, param.dtype())));
}

// One step of a scaler with a gradient that is already scaled.
bool step(optim::GradScaler& scaler, optim::Optimizer& optimizer, const Tensor& x, double g) {
  give(x, g * scaler.get_scale());
  const bool stepped = scaler.step(optimizer);
  scaler.update();
  return stepped;
}

}  // namespace

TEST_CASE(
    "the scale halves at an overflow, the step is left out, and it doubles after an interval") {
  const Tensor x = leaf(1.0);
  optim::SGD sgd({x}, {.lr = 0.5});
  optim::GradScaler scaler({.growth_interval = 3});
  CHECK(scaler.get_scale() == 65536.0);
  CHECK(step(scaler, sgd, x, 1.0));
  CHECK(x.item() == 0.5);
  CHECK(!step(scaler, sgd, x, kInfinity));
  CHECK(x.item() == 0.5);
  CHECK(scaler.get_scale() == 32768.0);
  CHECK(!step(scaler, sgd, x, std::nan("")));
  CHECK(scaler.get_scale() == 16384.0);
  for (int i = 0; i < 3; ++i) {
    CHECK(scaler.growth_tracker() == i);
    CHECK(step(scaler, sgd, x, 0.0));
  }
  CHECK(scaler.get_scale() == 32768.0);
  CHECK(scaler.growth_tracker() == 0);
  CHECK(x.item() == 0.5);
}

TEST_CASE("unscale_ shows true gradients once, and step does not unscale again") {
  const Tensor x = leaf(1.0);
  optim::SGD sgd({x}, {.lr = 1.0});
  optim::GradScaler scaler;
  sum(scaler.scale(x * 3.0)).backward();
  CHECK(x.grad().item() == 3.0 * 65536.0);
  scaler.unscale_(sgd);
  CHECK(x.grad().item() == 3.0);
  CHECK_THROWS_WITH(scaler.unscale_(sgd), ContainsSubstring("already called"));
  CHECK(optim::clip_grad_norm({x}, 1.5).item() == 3.0);
  CHECK(scaler.step(sgd));
  CHECK(std::abs(x.item() + 0.5) < 1e-6);  // clipped by 1.5 / (3 + 1e-6)
  CHECK_THROWS_WITH(scaler.step(sgd), ContainsSubstring("already called"));
  CHECK_THROWS_WITH(scaler.unscale_(sgd), ContainsSubstring("after step()"));
  scaler.update();
  CHECK_THROWS_WITH(scaler.update(), ContainsSubstring("before any"));
}

TEST_CASE("a step without any gradient is an error and counts as no good step") {
  const Tensor x = leaf(1.0), y = leaf(2.0), half = leaf(1.0, kFloat16);
  optim::SGD sgd({x, y}, {.lr = 1.0});
  optim::MasterWeights<optim::SGD> masters({half}, {.lr = 1.0});
  optim::GradScaler scaler({.init_scale = 4.0, .growth_interval = 2});
  for (optim::Optimizer* optimizer :
       {static_cast<optim::Optimizer*>(&sgd), static_cast<optim::Optimizer*>(&masters)}) {
    CHECK_THROWS_WITH(scaler.step(*optimizer),
                      ContainsSubstring("grad_scaler: step() finds no gradient"));
    scaler.update();
    scaler.unscale_(*optimizer);
    CHECK_THROWS_WITH(scaler.step(*optimizer),
                      ContainsSubstring("grad_scaler: step() finds no gradient"));
    scaler.update();
  }
  CHECK(scaler.growth_tracker() == 0);
  // One of them suffices, also where its master has the gradient already.
  give(y, 4.0);
  CHECK(scaler.step(sgd));
  CHECK(y.item() == 1.0);
  give(half, 4.0);
  scaler.unscale_(masters);
  CHECK(scaler.step(masters));
  CHECK(half.item() == 0.0);
  scaler.update();
  CHECK(scaler.growth_tracker() == 1);
  sgd.zero_grad();
  CHECK(optim::GradScaler({.enabled = false}).step(sgd));
}

TEST_CASE("one optimizer's overflow does not stop another's step but lowers the scale of both") {
  const Tensor x = leaf(1.0), y = leaf(1.0);
  optim::SGD a({x}, {.lr = 1.0}), b({y}, {.lr = 1.0});
  optim::GradScaler scaler({.init_scale = 4.0});
  give(x, kInfinity);
  give(y, 4.0);
  CHECK(!scaler.step(a));
  CHECK(scaler.step(b));
  scaler.update();
  CHECK(x.item() == 1.0);
  CHECK(y.item() == 0.0);
  CHECK(scaler.get_scale() == 2.0);
}

TEST_CASE("a scaler that is not enabled does nothing") {
  const Tensor x = leaf(1.0);
  optim::SGD sgd({x}, {.lr = 1.0});
  optim::GradScaler scaler({.enabled = false});
  CHECK(scaler.get_scale() == 1.0);
  CHECK(is_same(scaler.scale(x), x));
  CHECK(step(scaler, sgd, x, 0.5));
  CHECK(x.item() == 0.5);
}

TEST_CASE("a scaler resumed from a file goes on as the first") {
  const hero_test::TempDir dir;
  const Tensor x = leaf(1.0);
  optim::SGD sgd({x}, {.lr = 0.0});
  optim::GradScaler first({.init_scale = 8.0, .growth_interval = 2});
  step(first, sgd, x, 1.0);
  core::save_safetensors(dir / "scaler.safetensors", first.state_dict());
  optim::GradScaler second;
  second.load_state_dict(core::load_safetensors(dir / "scaler.safetensors").arrays);
  step(second, sgd, x, 1.0);
  CHECK(second.get_scale() == 16.0);
  CHECK(second.options().growth_interval == 2);
  auto broken = first.state_dict();
  broken.pop_back();
  CHECK_THROWS_WITH(second.load_state_dict(broken), ContainsSubstring("missing: _growth_tracker"));
  CHECK(second.get_scale() == 16.0);
}

TEST_CASE("the loss is scaled in float32, where the scale fits") {
  optim::GradScaler scaler;
  const Tensor loss = leaf(2.0, kFloat16);
  const Tensor scaled = scaler.scale(loss);
  CHECK(scaled.dtype() == kFloat32);
  CHECK(scaled.item() == 131072.0);
  CHECK(scaler.scale(leaf(1.0, kFloat64)).dtype() == kFloat64);
}

TEST_CASE("a scale that only falls ends in an error, and bad options are refused") {
  const Tensor x = leaf(1.0);
  optim::SGD sgd({x}, {.lr = 1.0});
  optim::GradScaler scaler({.init_scale = 1e-37, .backoff_factor = 0.01});
  CHECK_THROWS_WITH(step(scaler, sgd, x, kInfinity), ContainsSubstring("not finite at any scale"));
  using optim::GradScaler;
  CHECK_THROWS_WITH(GradScaler({.init_scale = 0.0}), ContainsSubstring("init_scale"));
  CHECK_THROWS_WITH(GradScaler({.growth_factor = 1.0}), ContainsSubstring("growth_factor"));
  CHECK_THROWS_WITH(GradScaler({.backoff_factor = 1.0}), ContainsSubstring("backoff_factor"));
  CHECK_THROWS_WITH(GradScaler({.growth_interval = 0}), ContainsSubstring("growth_interval"));
}

TEST_CASE("float16 gradients are not unscaled where small ones would be lost") {
  const Tensor x = leaf(1.0, kFloat16);
  optim::SGD sgd({x}, {.lr = 1.0});
  optim::GradScaler scaler;
  give(x, 1.0);
  CHECK_THROWS_WITH(scaler.step(sgd), ContainsSubstring("MasterWeights"));
  CHECK(x.item() == 1.0);

  // 2^-30 is below float16's range; scaled by 2^16 it is not, and the master sees it.
  const Tensor y = leaf(0.0, kFloat16);
  optim::MasterWeights<optim::SGD> masters({y}, {.lr = 1.0});
  optim::GradScaler fresh;
  give(y, 0x1p-14);
  CHECK(fresh.step(masters));
  CHECK(masters.parameters()[0].item() == -0x1p-30);
}
