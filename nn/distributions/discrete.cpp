#include <algorithm>
#include <limits>

#include <hero/autograd/creation.h>
#include <hero/autograd/math_ops.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops.h>
#include <hero/nn/distributions.h>
#include <hero/nn/distributions/check_all.h>

namespace hero::distributions {

namespace {

constexpr double kNothing = std::numeric_limits<double>::infinity();

const Tensor& given(const char* name, const Odds& odds) {
  check(odds.probs.defined() != odds.logits.defined(), name,
        ": give probs or logits, and not both");
  const Tensor& one = odds.probs.defined() ? odds.probs : odds.logits;
  check(is_floating(one.dtype()), name, ": parameters are ", one.dtype(),
        "; convert them to a floating dtype");
  if (odds.logits.defined())
    check_all(one == one, one, (std::string(name) + ": logits must be numbers").c_str());
  return one;
}

// From 1 to the next number.
double epsilon_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return std::numeric_limits<double>::epsilon();
    case kFloat16:
      return 0x1p-10;
    case kBFloat16:
      return 0x1p-7;
    default:
      return double{std::numeric_limits<float>::epsilon()};
  }
}

// Away from 0 and 1, so that both logarithms are finite.
Tensor clamped(const Tensor& probs) {
  const double epsilon = epsilon_of(probs.dtype());
  return clamp(probs, epsilon, 1.0 - epsilon);
}

// 0 in place of -inf, whose probability is 0: their product is 0, and has no gradient.
Tensor finite(const Tensor& logits) { return where(isneginf(logits), 0, logits); }

// log(1 + exp(x)), exact for large x too.
Tensor softplus_of(const Tensor& x) { return -logsigmoid(-x); }

Tensor log_odds(const Tensor& probs) {
  const Tensor inner = clamped(probs);
  return log(inner) - log1p(-inner);
}

const Tensor& with_classes(const Tensor& x) {
  check(x.ndim() > 0 && x.size(-1) > 0, "Categorical: parameters are [.., K], K > 0: got ",
        x.shape());
  return x;
}

Shape without_last(const Shape& shape) {
  Shape batch = shape;
  batch.pop_back();
  return batch;
}

Tensor normalised(const Tensor& probs) {
  check_all(probs >= 0, probs, "Categorical: probabilities must not be negative");
  const Tensor total = sum(probs, {-1}, true);
  check_all(total > 0, total, "Categorical: probabilities must not all be 0");
  check_all(isfinite(total), total, "Categorical: probabilities must be finite");
  return probs / total;
}

// Scores of which softmax makes probabilities.
const Tensor& possible(const Tensor& logits) {
  const Tensor most = amax(logits.detach(), {-1}, true);
  check_all(isfinite(most), most, "Categorical: the largest logit must be finite");
  return logits;
}

}  // namespace

Bernoulli::Bernoulli(const Odds& odds)
    : Distribution(given("Bernoulli", odds).shape()),
      probs(odds.probs.defined() ? odds.probs : sigmoid(odds.logits)),
      logits(odds.logits.defined() ? odds.logits : log_odds(odds.probs)) {
  if (odds.probs.defined()) {
    check_all(logical_and(probs >= 0, probs <= 1), probs,
              "Bernoulli: probabilities must be in [0, 1]");
  }
}

// -log(sigmoid(l)) where the value is 1, -log(1 - sigmoid(l)) where it is 0.
Tensor Bernoulli::log_prob(const Tensor& value) const {
  const Shape shape = broadcast_shapes("Bernoulli", value.shape(), logits.shape());
  return -binary_cross_entropy_with_logits(expand(logits, shape),
                                           expand(value.to(logits.dtype()), shape),
                                           {.reduction = Reduction::none});
}

Tensor Bernoulli::entropy() const {
  return binary_cross_entropy_with_logits(logits, probs, {.reduction = Reduction::none});
}
Tensor Bernoulli::variance() const { return probs * (1 - probs); }

Tensor Bernoulli::draw(const Shape& whole) const {
  const Tensor u = rand(whole, {.dtype = kFloat64, .device = probs.device()});
  return (u < probs.to(kFloat64)).to(probs.dtype());
}

Categorical::Categorical(const Odds& odds)
    : Distribution(without_last(with_classes(given("Categorical", odds)).shape())),
      logits(odds.logits.defined() ? log_softmax(possible(odds.logits), -1)
                                   : log(clamped(normalised(odds.probs)))),
      probs(odds.logits.defined() ? softmax(odds.logits, -1) : normalised(odds.probs)) {}

Tensor Categorical::log_prob(const Tensor& value) const {
  const Shape shape = broadcast_shapes("Categorical", value.shape(), batch_shape());
  Shape rows = shape;
  rows.push_back(logits.size(-1));
  const Tensor index = unsqueeze(expand(value.to(kInt64), shape), -1);
  return gather(expand(logits, rows), -1, index).squeeze(-1);
}

Tensor Categorical::entropy() const { return -sum(probs * finite(logits), {-1}); }

Tensor Categorical::mean() const {
  fail("Categorical: categories have no mean and no variance; probs are their probabilities");
}
Tensor Categorical::variance() const { return mean(); }

// The first category at whose end the sum of probabilities exceeds a number drawn from [0, 1).
Tensor Categorical::draw(const Shape& whole) const {
  const Tensor ends = cumsum(probs.to(kFloat64), -1);
  const Tensor u = rand(whole, {.dtype = kFloat64, .device = probs.device()});
  const Tensor at = unsqueeze(u, -1) * ends.slice(-1, -1);  // rounding may leave a sum beside 1
  return clamp(sum(at >= ends, {-1}), 0, probs.size(-1) - 1);
}

Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const auto part = [](const Tensor& p_part, const Tensor& q_part, const Tensor& logarithms) {
    const Tensor finite = where(q_part == 0, kNothing, p_part * logarithms);
    return where(p_part == 0, 0, finite);
  };
  const Tensor ones_part = part(p.probs, q.probs, softplus_of(-q.logits) - softplus_of(-p.logits));
  const Tensor zeros_part =
      part(1 - p.probs, 1 - q.probs, softplus_of(q.logits) - softplus_of(p.logits));
  return ones_part + zeros_part;
}

Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  const Tensor difference = finite(p.logits) - finite(q.logits);
  const Tensor terms = where(q.probs == 0, kNothing, p.probs * difference);
  return sum(where(p.probs == 0, 0, terms), {-1});
}

}  // namespace hero::distributions
