#include <cmath>
#include <numbers>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/draws.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

VonMises::VonMises(const Tensor& l, const Tensor& c) : VonMises(broadcast("VonMises", {l, c})) {}

VonMises::VonMises(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), loc(both[0]), concentration(both[1]) {
  check_positive("VonMises", "concentration", concentration);
}

// With i0e(k) = exp(-k) i0(k), which does not overflow.
Tensor VonMises::log_prob(const Tensor& value) const {
  return concentration * (cos(value - loc) - 1) - log(i0e(concentration)) -
         std::log(2.0 * std::numbers::pi);
}

Tensor VonMises::variance() const {
  return clamp_min(1 - i1e(concentration) / i0e(concentration), 0.0);
}

Tensor VonMises::rsample(const Shape& /*shape*/) const {
  fail("VonMises: a draw is made by rejection and has no gradient; use sample() and log_prob()");
}

// An angle around 0 moved by loc, and back into [-pi, pi).
Tensor VonMises::draw(const Shape& shape) const {
  const Tensor angle = loc + von_mises_draws(expand(concentration, extended(shape)));
  constexpr double kPi = std::numbers::pi;
  return remainder(angle + kPi, 2.0 * kPi) - kPi;
}

}  // namespace hero::distributions
