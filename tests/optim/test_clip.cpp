#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/optim/clip.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Fixture {
  Tensor a = tensor({1.0, 1.0}, {.dtype = kFloat64, .requires_grad = true});
  Tensor b = full({1, 1}, 1.0, {.dtype = kFloat64, .requires_grad = true});
  Tensor idle = tensor({1.0}, {.dtype = kFloat64, .requires_grad = true});
  std::vector<Tensor> params = {a, idle, b};

  Fixture() {
    a.set_grad(tensor({3.0, -4.0}, {.dtype = kFloat64}));
    b.set_grad(full({1, 1}, 12.0, {.dtype = kFloat64}));
  }
  std::vector<double> grads() const {
    auto all = a.grad().to_vector<double>();
    all.push_back(b.grad().item());
    return all;
  }
};

}  // namespace

TEST_CASE("clipping scales all gradients by one factor and returns the norm before") {
  Fixture f;
  CHECK(optim::clip_grad_norm(f.params, 6.5).item() == 13.0);
  const double factor = 6.5 / (13.0 + 1e-6);
  CHECK(f.grads() == std::vector<double>{3.0 * factor, -4.0 * factor, 12.0 * factor});
  CHECK(!f.idle.grad().defined());
}

TEST_CASE("gradients below the limit keep their bits") {
  Fixture f;
  const Tensor norm = optim::clip_grad_norm(f.params, 13.1);
  CHECK(norm.item() == 13.0);
  CHECK(norm.dtype() == kFloat64);
  CHECK(norm.shape() == Shape{});
  CHECK(norm.device() == kCpu);
  CHECK(f.grads() == std::vector<double>{3.0, -4.0, 12.0});
}

TEST_CASE("clipping knows other norms") {
  CHECK(optim::clip_grad_norm(Fixture().params, 100.0, {.norm = 1.0}).item() == 19.0);
  CHECK(optim::clip_grad_norm(Fixture().params, 100.0, {.norm = kInfinity}).item() == 12.0);
  // pow is good to a few units in the last place of a double
  const double cubes = std::cbrt(27.0 + 64.0 + 1728.0);
  const double found = optim::clip_grad_norm(Fixture().params, 100.0, {.norm = 3.0}).item();
  CHECK(std::fabs(found - cubes) < 1e-13);
  Fixture f;
  optim::clip_grad_norm(f.params, 6.0, {.norm = kInfinity});
  CHECK(f.grads()[2] == 12.0 * (6.0 / (12.0 + 1e-6)));
  REQUIRE_THROWS_WITH(optim::clip_grad_norm(f.params, 1.0, {.norm = 0.0}),
                      ContainsSubstring("norm must be positive"));
  REQUIRE_THROWS_WITH(optim::clip_grad_norm(f.params, -1.0), ContainsSubstring("max_norm"));
}

TEST_CASE("a norm that is not finite is an error on request, before anything changes") {
  for (const double bad : {std::nan(""), kInfinity}) {
    for (const double p : {2.0, kInfinity}) {
      Fixture f;
      f.b.set_grad(full({1, 1}, bad, {.dtype = kFloat64}));
      REQUIRE_THROWS_WITH(
          optim::clip_grad_norm(f.params, 1.0, {.norm = p, .error_if_nonfinite = true}),
          ContainsSubstring("clip_grad_norm: the norm of the gradients is"));
      CHECK(f.grads()[0] == 3.0);
      CHECK(!std::isfinite(optim::clip_grad_norm(f.params, 1.0, {.norm = p}).item()));
    }
  }
}

TEST_CASE("squares of float16 gradients do not overflow in the norm") {
  const Tensor x = zeros({4}, {.dtype = kFloat16, .requires_grad = true});
  x.set_grad(full({4}, 30000.0, {.dtype = kFloat16}));
  CHECK(optim::clip_grad_norm({x}, 1.0).item() == 60000.0);  // 30000 is exact in float16
}

TEST_CASE("squares that no float64 holds do not overflow in the norm") {
  const Tensor x = zeros({2}, {.dtype = kFloat64, .requires_grad = true});
  x.set_grad(tensor({0x3p700, -0x4p700}, {.dtype = kFloat64}));
  CHECK(optim::clip_grad_norm({x}, 1.0).item() == 0x5p700);
  CHECK(x.grad().to_vector<double>()[0] == 0x3p700 * (1.0 / 0x5p700));
}

TEST_CASE("clipping is a norm and a scaling by it") {
  Fixture f;
  optim::clip_grads_with_norm(f.params, 6.5, optim::grad_norm(f.params));
  Fixture g;
  optim::clip_grad_norm(g.params, 6.5);
  CHECK(f.grads() == g.grads());
  // The norm may be anybody's: a float32 one of shape [1].
  Fixture h;
  optim::clip_grads_with_norm(h.params, 6.5, tensor({13.0}, {.dtype = kFloat32}));
  CHECK(h.grads() == g.grads());
  REQUIRE_THROWS_WITH(optim::clip_grads_with_norm(h.params, 6.5, tensor({1.0, 2.0})),
                      ContainsSubstring("a tensor of one element"));
}

TEST_CASE("no gradients have the norm 0, and on meta the norm has no value") {
  const Tensor idle = tensor({1.0}, {.requires_grad = true});
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    CHECK(optim::clip_grad_norm({idle}, 1.0, {.norm = p}).item() == 0.0);
    CHECK(optim::clip_grad_norm({}, 1.0, {.norm = p}).item() == 0.0);
    const Tensor x = zeros({3}, {.device = kMeta, .requires_grad = true});
    x.set_grad(zeros({3}, {.device = kMeta}));
    CHECK(optim::clip_grad_norm({x}, 1.0, {.norm = p, .error_if_nonfinite = true}).device() ==
          kMeta);
  }
}

TEST_CASE("norms are made where a gradient with elements lies, not where an empty one does") {
  // What other stages of a pipeline have is empty, and is not offloaded to the host.
  Fixture f;
  const Tensor elsewhere = zeros({0}, {.device = kMeta, .requires_grad = true});
  elsewhere.set_grad(zeros({0}, {.device = kMeta}));
  f.params.insert(f.params.begin(), elsewhere);
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    CAPTURE(p);
    const Tensor norm = optim::grad_norm(f.params, p);
    REQUIRE(norm.device() == kCpu);
    CHECK(norm.item() == optim::grad_norm({f.a, f.b}, p).item());
  }
  CHECK(optim::clip_grad_norm(f.params, 6.5).item() == 13.0);
  CHECK(f.grads()[2] == 12.0 * (6.5 / (13.0 + 1e-6)));
}

TEST_CASE("clipping by value limits every element") {
  Fixture f;
  optim::clip_grad_value(f.params, 3.5);
  CHECK(f.grads() == std::vector<double>{3.0, -3.5, 3.5});
  REQUIRE_THROWS_WITH(optim::clip_grad_value(f.params, -1.0), ContainsSubstring("limit"));
}
