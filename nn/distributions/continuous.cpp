#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/creation.h>
#include <hero/autograd/ops.h>
#include <hero/nn/distributions.h>
#include <hero/nn/distributions/check_all.h>

namespace hero::distributions {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::pair<Tensor, Tensor> broadcast(const char* name, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes(name, a.shape(), b.shape());
  return {expand(a, shape), expand(b, shape)};
}

TensorOptions like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

}  // namespace

void check_all(const Tensor& holds, const Tensor& numbers, const char* what) {
  if (holds.device().type == DeviceType::meta) return;
  const NoGrad no_grad;
  if (all(holds).item() != 0.0) return;
  const auto first = argmin(flatten(holds).to(kInt32)).item<int64_t>();
  fail(what, ": it is ", flatten(numbers)[first].item(), " at element ", first, " of ",
       numbers.shape());
}

Tensor Distribution::stddev() const { return sqrt(variance()); }

Shape Distribution::extended(const Shape& shape) const {
  Shape whole = shape;
  for (const int64_t size : batch_shape_) whole.push_back(size);
  return whole;
}

Tensor Distribution::sample(const Shape& shape) const {
  const NoGrad no_grad;
  return draw(extended(shape)).detach();
}

Tensor Distribution::rsample(const Shape& /*shape*/) const {
  fail(name(), ": a draw is discrete and has no gradient; use sample() and log_prob()");
}

Normal::Normal(const Tensor& l, const Tensor& s) : Normal(broadcast("Normal", l, s)) {}

Normal::Normal(const std::pair<Tensor, Tensor>& both)
    : Distribution(both.first.shape()), loc(both.first), scale(both.second) {
  check_all(loc == loc, loc, "Normal: loc must be a number");
  check_all(scale > 0, scale, "Normal: scale must be positive");
}

Tensor Normal::log_prob(const Tensor& value) const {
  const double constant = 0.5 * std::log(2.0 * std::numbers::pi);
  return -square((value - loc) / scale) * 0.5 - log(scale) - constant;
}

Tensor Normal::entropy() const {
  return log(scale) + (0.5 + 0.5 * std::log(2.0 * std::numbers::pi));
}

Tensor Normal::variance() const { return square(scale); }

Tensor Normal::rsample(const Shape& shape) const {
  return loc + scale * randn(extended(shape), like(loc));
}

Tensor Normal::draw(const Shape& whole) const { return loc + scale * randn(whole, like(loc)); }

Uniform::Uniform(const Tensor& l, const Tensor& h) : Uniform(broadcast("Uniform", l, h)) {}

Uniform::Uniform(const std::pair<Tensor, Tensor>& both)
    : Distribution(both.first.shape()), low(both.first), high(both.second) {
  check_all(low < high, low, "Uniform: low must be less than high");
}

Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = logical_and(value >= low, value < high);
  return where(inside, -log(high - low), -kInfinity);
}

Tensor Uniform::entropy() const { return log(high - low); }
Tensor Uniform::mean() const { return (low + high) / 2; }
Tensor Uniform::variance() const { return square(high - low) / 12; }
Tensor Uniform::stddev() const { return (high - low) / std::sqrt(12.0); }

Tensor Uniform::rsample(const Shape& shape) const {
  return low + (high - low) * rand(extended(shape), like(low));
}

Tensor Uniform::draw(const Shape& whole) const {
  return low + (high - low) * rand(whole, like(low));
}

Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale / q.scale), shift = square((p.loc - q.loc) / q.scale);
  return 0.5 * (ratio + shift - 1 - log(ratio));
}

Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  const Tensor within = logical_and(q.low <= p.low, p.high <= q.high);
  return where(within, log((q.high - q.low) / (p.high - p.low)), kInfinity);
}

}  // namespace hero::distributions
