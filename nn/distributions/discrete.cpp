#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>

namespace hero::distributions {

const Tensor& given(const char* name, const ProbsOrLogits& odds) {
  check(odds.probs.defined() != odds.logits.defined(), name,
        ": give probs or logits, and not both");
  const Tensor& one = odds.probs.defined() ? odds.probs : odds.logits;
  check(is_floating(one.dtype()), name, ": parameters are ", one.dtype(),
        "; convert them to a floating dtype");
  if (odds.logits.defined())
    check_all(one == one, one, (std::string(name) + ": logits must be numbers").c_str());
  return one;
}

namespace {

// Away from 0 and 1, so that both logarithms are finite.
Tensor clamped(const Tensor& probs) {
  const double epsilon = epsilon_of(probs.dtype());
  return clamp(probs, epsilon, 1.0 - epsilon);
}

Tensor log_odds(const Tensor& probs) {
  const Tensor inner = clamped(probs);
  return log(inner) - log1p(-inner);
}

const Tensor& with_classes(const Tensor& x) {
  check(x.ndim() > 0 && x.size(-1) > 0, "Categorical: parameters are [.., K], K > 0: got ",
        x.shape());
  return x;
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

ProbsOrLogits both_odds(const char* name, const ProbsOrLogits& odds) {
  given(name, odds);
  if (odds.logits.defined()) return {sigmoid(odds.logits), odds.logits};
  check_all(logical_and(odds.probs >= 0, odds.probs <= 1), odds.probs,
            (std::string(name) + ": probabilities must be in [0, 1]").c_str());
  return {odds.probs, log_odds(odds.probs)};
}

Bernoulli::Bernoulli(const ProbsOrLogits& odds) : Bernoulli(both_odds("Bernoulli", odds), true) {}

Bernoulli::Bernoulli(const ProbsOrLogits& both, bool /*complete*/)
    : Distribution(both.probs.shape()), probs(both.probs), logits(both.logits) {}

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

Tensor Bernoulli::draw(const Shape& shape) const {
  const Tensor u = rand(extended(shape), {.dtype = kFloat64, .device = probs.device()});
  return (u < probs.to(kFloat64)).to(probs.dtype());
}

Categorical::Categorical(const ProbsOrLogits& odds)
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
Tensor Categorical::draw(const Shape& shape) const {
  const Tensor ends = cumsum(probs.to(kFloat64), -1);
  const Tensor u = rand(extended(shape), {.dtype = kFloat64, .device = probs.device()});
  const Tensor at = unsqueeze(u, -1) * ends.slice(-1, -1);  // rounding may leave a sum beside 1
  return clamp(sum(at >= ends, {-1}), 0, probs.size(-1) - 1);
}

}  // namespace hero::distributions
