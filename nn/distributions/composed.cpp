#include <algorithm>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

namespace {

// The sizes from `begin` to before `end`.
Shape part_of(const Shape& shape, int begin, int end) {
  Shape part;
  for (int i = begin; i < end; ++i) part.push_back(shape[i]);
  return part;
}

using Shared = std::shared_ptr<const Distribution>;

const Distribution& given(const char* what, const Shared& base) {
  check(base != nullptr, what, ": the distribution is null");
  return *base;
}

Shape batch_left(const Distribution& base, int64_t dims) {
  const Shape& batch = base.batch_shape();
  check(dims >= 0 && dims <= batch.size(), "Independent: ", dims,
        " dimensions of a batch of shape ", batch);
  return part_of(batch, 0, batch.size() - static_cast<int>(dims));
}

Shape whole_event(const Distribution& base, int64_t dims) {
  const Shape& batch = base.batch_shape();
  Shape event = part_of(batch, batch.size() - static_cast<int>(dims), batch.size());
  for (const int64_t size : base.event_shape()) event.push_back(size);
  return event;
}

// The components have the whole batch in front of them, or the last dimensions of it.
Shape mixed_batch(const Categorical& mixture, const Distribution& components) {
  const Shape& batch = components.batch_shape();
  check(batch.size() > 0 && batch[batch.size() - 1] == mixture.probs.size(-1),
        "MixtureSameFamily: ", mixture.probs.size(-1), " probabilities for components of batch ",
        batch);
  const Shape own = without_last(batch);
  const Shape whole = broadcast_shapes("MixtureSameFamily", mixture.batch_shape(), own);
  check(part_of(whole, whole.size() - own.size(), whole.size()) == own,
        "MixtureSameFamily: components of batch ", batch, " have not all of the batch ", whole);
  return whole;
}

}  // namespace

Independent::Independent(std::shared_ptr<const Distribution> of, int64_t n)
    : Distribution(batch_left(given("Independent", of), n),
                   whole_event(given("Independent", of), n)),
      base(std::move(of)),
      dims(n) {}

Tensor Independent::log_prob(const Tensor& value) const {
  return sum_last(base->log_prob(value), static_cast<int>(dims));
}

Tensor Independent::entropy() const { return sum_last(base->entropy(), static_cast<int>(dims)); }

DrawWithLogProb Independent::rsample_with_log_prob(const Shape& shape) const {
  const DrawWithLogProb drawn = base->rsample_with_log_prob(shape);
  return {drawn.value, sum_last(drawn.log_prob, static_cast<int>(dims))};
}

MixtureSameFamily::MixtureSameFamily(const Categorical& m, Shared of)
    : Distribution(mixed_batch(m, given("MixtureSameFamily", of)),
                   given("MixtureSameFamily", of).event_shape()),
      mixture(m),
      components(std::move(of)) {}

// The mean over components, which are in front of `events` dimensions.
Tensor MixtureSameFamily::averaged(const Tensor& of_components, int events) const {
  Tensor probs = mixture.probs;
  for (int i = 0; i < events; ++i) probs = unsqueeze(probs, -1);
  return sum(probs * of_components, {-1 - events});
}

Tensor MixtureSameFamily::log_prob(const Tensor& value) const {
  const int events = event_shape().size();
  const Tensor each = components->log_prob(unsqueeze(value, -1 - events));
  return logsumexp(each + mixture.logits, {-1});
}

Tensor MixtureSameFamily::mean() const {
  return averaged(components->mean(), event_shape().size());
}

// The mean of the variances and the variance of the means.
Tensor MixtureSameFamily::variance() const {
  const int events = event_shape().size();
  const Tensor each = components->mean();
  const Tensor middle = unsqueeze(averaged(each, events), -1 - events);
  return averaged(components->variance() + square(each - middle), events);
}

Tensor MixtureSameFamily::cdf(const Tensor& value) const {
  if (!event_shape().empty()) lacks("cdf");
  return averaged(components->cdf(unsqueeze(value, -1)), 0);
}

Tensor MixtureSameFamily::rsample(const Shape& /*shape*/) const {
  fail("MixtureSameFamily: a draw takes one component and has no gradient; use sample()");
}

Tensor MixtureSameFamily::draw(const Shape& shape) const {
  const int at = -1 - event_shape().size();
  const Shape whole = extended(shape);
  const Shape prefix = part_of(whole, 0, whole.size() - event_shape().size());
  Shape rows = batch_shape(), places = prefix;
  rows.push_back(mixture.probs.size(-1));
  for (int i = 0; i < event_shape().size(); ++i) places.push_back(1);
  const Categorical each({.logits = expand(mixture.logits, rows)});
  const Tensor chosen = each.sample(shape).reshape(places);
  // What the components have not of the batch is drawn as further samples.
  const int own = components->batch_shape().size() - 1;
  const Tensor drawn = components->sample(part_of(prefix, 0, prefix.size() - own));
  const Tensor index = unsqueeze(expand(chosen, whole), at);
  return squeeze(gather(drawn, at, index), at);
}

namespace {

const Distribution& given(const Shared& base, const TransformedDistribution::Transforms& list) {
  for (const auto& transform : list) {
    check(transform != nullptr, "TransformedDistribution: a transform is null");
  }
  return given("TransformedDistribution", base);
}

Shape transformed(const Distribution& base, const TransformedDistribution::Transforms& transforms) {
  Shape shape = base.batch_shape();
  for (const int64_t size : base.event_shape()) shape.push_back(size);
  for (const auto& transform : transforms) shape = transform->forward_shape(shape);
  return shape;
}

}  // namespace

TransformedDistribution::EventDims::EventDims(const Distribution& base,
                                              const Transforms& transforms)
    : first(0), last(0) {
  for (size_t i = transforms.size(); i-- > 0;) {
    const auto [in, out] = transforms[i]->event_dims();
    first = std::max(first + in - out, in);
  }
  first = std::max(first, base.event_shape().size());
  last = first;
  for (const auto& transform : transforms) {
    const auto [in, out] = transform->event_dims();
    last += out - in;
  }
}

TransformedDistribution::TransformedDistribution(const std::shared_ptr<const Distribution>& of,
                                                 const Transforms& list)
    : TransformedDistribution(of, list, EventDims(given(of, list), list),
                              transformed(given(of, list), list)) {}

TransformedDistribution::TransformedDistribution(std::shared_ptr<const Distribution> of,
                                                 Transforms list, const EventDims& dims,
                                                 const Shape& shape)
    : Distribution(part_of(shape, 0, shape.size() - dims.last),
                   part_of(shape, shape.size() - dims.last, shape.size())),
      base(std::move(of)),
      transforms(std::move(list)),
      first_dims_(dims.first) {}

// A value that no draw takes is replaced by one that every transform takes, and has -inf.
Tensor TransformedDistribution::log_prob(const Tensor& value) const {
  int events = event_shape().size();
  Tensor y = value, stretch = zeros({}, beside(value)), outside;
  for (size_t i = transforms.size(); i-- > 0;) {
    const auto [low, high] = transforms[i]->range();
    const Tensor beyond = logical_or(y <= low, y >= high);
    const Tensor some = events > 0 ? sum_last(beyond.to(kInt32), events) > 0 : beyond;
    outside = outside.defined() ? logical_or(outside, some) : some;
    y = where(beyond, 0.5, y);
    const Tensor x = transforms[i]->inverse(y);
    const auto [in, out] = transforms[i]->event_dims();
    events += in - out;
    stretch = stretch + sum_last(transforms[i]->log_abs_det_jacobian(x, y), events - in);
    y = x;
  }
  const Tensor first = sum_last(base->log_prob(y), first_dims_ - base->event_shape().size());
  return outside.defined() ? nothing(outside, first - stretch) : first - stretch;
}

DrawWithLogProb TransformedDistribution::rsample_with_log_prob(const Shape& shape) const {
  DrawWithLogProb drawn = base->rsample_with_log_prob(shape);
  int events = first_dims_;
  drawn.log_prob = sum_last(drawn.log_prob, events - base->event_shape().size());
  for (const auto& transform : transforms) {
    const Tensor y = (*transform)(drawn.value);
    const auto [in, out] = transform->event_dims();
    const Tensor stretch = transform->log_abs_det_jacobian(drawn.value, y);
    drawn.log_prob = drawn.log_prob - sum_last(stretch, events - in);
    drawn.value = y;
    events += out - in;
  }
  return drawn;
}

// 1 - p where the transforms together fall.
Tensor TransformedDistribution::rising(const Tensor& probability) const {
  Tensor p = probability;
  for (const auto& transform : transforms) {
    const Tensor sign = transform->sign();
    if (sign.defined()) p = where((sign < 0).to(p.device()), 1 - p, p);
  }
  return p;
}

Tensor TransformedDistribution::cdf(const Tensor& value) const {
  if (!event_shape().empty()) lacks("cdf");
  Tensor x = value;
  for (size_t i = transforms.size(); i-- > 0;) {
    const auto [low, high] = transforms[i]->range();
    x = transforms[i]->inverse(clamp(x, low, high));
  }
  return rising(base->cdf(x));
}

Tensor TransformedDistribution::icdf(const Tensor& probability) const {
  if (!event_shape().empty()) lacks("icdf");
  Tensor x = base->icdf(rising(probability));
  for (const auto& transform : transforms) x = (*transform)(x);
  return x;
}

Tensor TransformedDistribution::rsample(const Shape& shape) const {
  Tensor x = base->rsample(shape);
  for (const auto& transform : transforms) x = (*transform)(x);
  return x;
}

Tensor TransformedDistribution::draw(const Shape& shape) const {
  Tensor x = base->sample(shape);
  for (const auto& transform : transforms) x = (*transform)(x);
  return x;
}

}  // namespace hero::distributions
