// Random tensors: each call takes the next stream of this thread's generator, on every device, meta
// included, so that a program draws the same numbers if some of its tensors are on meta.
#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_place.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/part_of_batch.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/random.h>

namespace hero {

namespace {

using core::RandomFill;

Array drawn(RandomFill fill, const Shape& shape, DType dtype, Device device, int64_t first = 0) {
  const RandomStream stream = default_generator().next();
  fill.seed = stream.key;
  fill.stream = stream.id;
  const Array out = Array::empty(shape, dtype, device);
  core::backend(device).run(core::call::Random{fill, first, out});
  return out;
}

Tensor floats(const char* op, RandomFill::Kind kind, const Shape& shape,
              const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(kFloat32);
  check(is_floating(dtype), op, ": needs a floating dtype, not ", dtype);
  RandomFill fill;  // uniform in [0, 1) or standard normal
  fill.kind = kind;
  return Tensor(drawn(fill, shape, dtype, options.device), options.requires_grad);
}

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& options) {
  const detail::Named named("rand");
  return floats("rand", RandomFill::Kind::uniform, shape, options);
}

Tensor detail::rand_of_part(const Shape& shape, const TensorOptions& options) {
  const int64_t first = batch_part().rank * shape.numel();
  return Tensor(drawn({}, shape, options.dtype.value_or(kFloat32), options.device, first));
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  const detail::Named named("randn");
  return floats("randn", RandomFill::Kind::normal, shape, options);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options) {
  const detail::Named named("randint");
  check(low < high, "randint: no integer lies in [", low, ", ", high, ")");
  RandomFill fill;
  fill.kind = RandomFill::Kind::integer;
  fill.low = low;
  fill.high = high;
  return Tensor(drawn(fill, shape, options.dtype.value_or(kInt64), options.device),
                options.requires_grad);
}

Tensor randperm(int64_t n, const TensorOptions& options) {
  const detail::Named named("randperm");
  check(n >= 0, "randperm: negative size ", n);
  const RandomStream stream = default_generator().next();
  const DType dtype = options.dtype.value_or(kInt64);
  if (!core::has_values(options.device)) {
    return Tensor(Array::empty({n}, dtype, options.device), options.requires_grad);
  }
  const Array order = Array::empty({n}, kInt64);
  fill_permutation(std::span<int64_t>(order.data<int64_t>(), static_cast<size_t>(n)), stream);
  return Tensor(order.to(dtype).to(options.device), options.requires_grad);
}

Tensor bernoulli(const Tensor& p) {
  detail::check_defined("bernoulli", {{"p", p}});
  check(is_floating(p.dtype()), "bernoulli: probabilities are ", p.dtype(),
        "; they must be floating");
  if (core::has_values(p.device()) && p.numel() > 0) {
    const double low = core::reduce(core::ReduceKind::min, p.array()).item();
    const double high = core::reduce(core::ReduceKind::max, p.array()).item();
    check(low >= 0.0 && high <= 1.0, "bernoulli: probabilities lie outside [0, 1]: ", low, " to ",
          high);
  }
  // In float64 also for lower precision: p is met to 2^-53.
  const Array uniform = drawn({}, p.shape(), kFloat64, p.device());
  return Tensor(core::map<core::kernels::Less>(uniform, p.array()).to(p.dtype()));
}

namespace {

// One number a row, or an Error: every element finite and not negative, and enough above 0.
void check_weights(const Tensor& p, int64_t num_samples, bool replacement) {
  if (!core::has_values(p.device())) return;
  const double least = min(p).item(), most = max(p).item();  // NaN where there is one
  check(least >= 0.0 && std::isfinite(most),
        "multinomial: probabilities must be finite and not negative: they go from ", least, " to ",
        most);
  const int64_t fewest = min(sum(p > 0, {-1})).item<int64_t>();
  check(fewest >= 1, "multinomial: the probabilities of a row are all 0");
  check(replacement || fewest >= num_samples, "multinomial: ", num_samples,
        " samples without replacement from ", fewest, " probabilities above 0");
}

// Where running sums first exceed uniform numbers times the total: never where p is 0.
Tensor with_replacement(const Tensor& p, int64_t num_samples) {
  const Tensor running = cumsum(p, -1), total = slice(running, -1, -1);
  Shape shape = p.shape();
  shape.back() = num_samples;
  const Tensor uniform(drawn({}, shape, kFloat64, p.device()));
  const Tensor found = searchsorted(running, uniform * total, {.right = true});
  // Rounding may reach the total: then the last position above 0.
  const Tensor last = argmax(running, -1, true);
  return minimum(found, last);
}

}  // namespace

Tensor multinomial(const Tensor& p, int64_t num_samples, bool replacement) {
  detail::check_defined("multinomial", {{"p", p}});
  const NoGrad no_grad;
  check(p.ndim() == 1 || p.ndim() == 2, "multinomial: p must be [C] or [N, C]: got shape ",
        p.shape());
  check(is_floating(p.dtype()), "multinomial: probabilities are ", p.dtype(),
        "; they must be floating");
  check(num_samples > 0 && p.size(-1) > 0, "multinomial: ", num_samples, " samples from shape ",
        p.shape());
  check(replacement || num_samples <= p.size(-1), "multinomial: ", num_samples,
        " samples without replacement from ", p.size(-1), " categories");
  if (p.numel() == 0) return zeros({p.size(0), num_samples}, kInt64).to(p.device());
  check_weights(p, num_samples, replacement);
  const Tensor wide = p.detach().to(kFloat64);
  if (replacement && num_samples > 1) return with_replacement(wide, num_samples);
  const RandomFill fill{.kind = RandomFill::Kind::exponential, .a = 1.0};
  const Tensor keys = wide / Tensor(drawn(fill, p.shape(), kFloat64, p.device()));
  if (num_samples == 1) return argmax(keys, -1, true);
  return topk(keys, num_samples, -1).indices;
}

Tensor normal(const Tensor& mean, const Tensor& std) {
  const detail::Named named("normal", {"mean", mean}, {"std", std});
  const NoGrad no_grad;
  const Shape shape = broadcast_shapes("normal", mean.shape(), std.shape());
  if (core::has_values(std.device()) && any(std < 0).item<bool>()) {
    fail("normal: a standard deviation is negative: ", min(std).item());
  }
  const DType dtype = is_floating(mean.dtype()) ? mean.dtype() : kFloat32;
  return mean + std * randn(shape, {.dtype = dtype, .device = mean.device()});
}
Tensor normal(const Tensor& mean, double std) {
  const detail::Named named("normal", {"mean", mean});
  const NoGrad no_grad;
  check(std >= 0.0, "normal: the standard deviation is negative: ", std);
  const DType dtype = is_floating(mean.dtype()) ? mean.dtype() : kFloat32;
  return mean + randn(mean.shape(), {.dtype = dtype, .device = mean.device()}) * std;
}
Tensor normal(double mean, const Tensor& std) {
  const detail::Named named("normal", {"std", std});
  return normal(full_like(std, mean), std);
}
Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& options) {
  const detail::Named named("normal");
  check(std >= 0.0, "normal: the standard deviation is negative: ", std);
  TensorOptions plain = options;
  plain.requires_grad = false;
  const Tensor result = randn(shape, plain) * std + mean;
  return Tensor(result.array(), options.requires_grad);
}

namespace {

// Numbers drawn over what was there, which then has the gradient 0.
const Tensor& redraw(const char* op, const Tensor& x, const RandomFill& fill) {
  const auto fresh = [&] { return drawn(fill, x.shape(), x.dtype(), x.device()); };
  return detail::write_in_place(
      op, x, false,
      [&] {
        const Tensor all(Array::ones(x.shape(), kBool, x.device()));
        return where(all, Tensor(fresh()), x);
      },
      [&](const Array& a) { detail::overwrite(op, a, fresh()); });
}

void check_random_floats(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": the tensor is ", x.dtype(), "; it must be floating");
}

}  // namespace

const Tensor& Tensor::uniform_(double from, double to) const {
  check_random_floats("uniform_", *this);
  check(from <= to, "uniform_: the bounds are in the wrong order: ", from, ", ", to);
  return redraw("uniform_", *this, {.kind = RandomFill::Kind::uniform, .a = from, .b = to});
}
const Tensor& Tensor::normal_(double mean, double std) const {
  check_random_floats("normal_", *this);
  check(std >= 0.0, "normal_: the standard deviation is negative: ", std);
  return redraw("normal_", *this, {.kind = RandomFill::Kind::normal, .a = mean, .b = std});
}
const Tensor& Tensor::exponential_(double rate) const {
  check_random_floats("exponential_", *this);
  check(rate > 0.0, "exponential_: the rate must be positive: ", rate);
  return redraw("exponential_", *this, {.kind = RandomFill::Kind::exponential, .a = rate});
}
const Tensor& Tensor::bernoulli_(double p) const {
  check(p >= 0.0 && p <= 1.0, "bernoulli_: the probability is not in [0, 1]: ", p);
  return redraw("bernoulli_", *this, {.kind = RandomFill::Kind::bernoulli, .a = p});
}
const Tensor& Tensor::random_(int64_t low, int64_t high) const {
  check(low < high, "random_: no integer lies in [", low, ", ", high, ")");
  check(fits(low, dtype()) && fits(high - 1, dtype()), "random_: [", low, ", ", high,
        ") does not fit ", dtype());
  return redraw("random_", *this, {.kind = RandomFill::Kind::integer, .low = low, .high = high});
}

Tensor rand_like(const Tensor& x) {
  const detail::Named named("rand_like", {"x", x});
  detail::check_defined("rand_like", {{"x", x}});
  return rand_like(x, {});
}
Tensor randn_like(const Tensor& x) {
  const detail::Named named("randn_like", {"x", x});
  detail::check_defined("randn_like", {{"x", x}});
  return randn_like(x, {});
}
Tensor rand_like(const Tensor& x, const LikeOptions& options) {
  const detail::Named named("rand_like", {"x", x});
  detail::check_defined("rand_like", {{"x", x}});
  return rand(x.shape(), detail::options_like(x, options));
}
Tensor randn_like(const Tensor& x, const LikeOptions& options) {
  const detail::Named named("randn_like", {"x", x});
  detail::check_defined("randn_like", {{"x", x}});
  return randn(x.shape(), detail::options_like(x, options));
}
Tensor randint_like(const Tensor& x, int64_t low, int64_t high, const LikeOptions& options) {
  const detail::Named named("randint_like", {"x", x});
  detail::check_defined("randint_like", {{"x", x}});
  return randint(low, high, x.shape(), detail::options_like(x, options));
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options) {
  const detail::Named named("gumbel_softmax", {"logits", logits});
  detail::check_defined("gumbel_softmax", {{"logits", logits}});
  check(is_floating(logits.dtype()), "gumbel_softmax: logits are ", logits.dtype(),
        "; convert to a floating dtype first");
  check(options.tau > 0.0, "gumbel_softmax: tau must be positive: ", options.tau);
  Tensor drawn = empty_like(logits.detach());
  {
    const NoGrad no_grad;
    drawn = -log(drawn.exponential_());
  }
  const Tensor soft = softmax((logits + drawn) / options.tau, options.dim);
  if (!options.hard) return soft;
  const Tensor at = argmax(soft, options.dim, true);
  const Tensor one = scatter(zeros_like(soft.detach()), options.dim, at, 1.0);
  return one - soft.detach() + soft;
}

}  // namespace hero
