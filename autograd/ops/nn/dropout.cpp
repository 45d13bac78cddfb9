// Dropout: the mask is drawn from a random stream of its own and never stored. This thread's part
// of a batch gets its part of the mask (batch_part()).
#include <cmath>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/part_of_batch.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/random.h>

namespace hero {

namespace {

// x mask scale; its own derivative. The mask is drawn again in backward, from the same stream.
struct Dropout : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  core::RandomFill fill;
  int64_t first;
  double scale;
  Dropout(const core::RandomFill& f, int64_t at, double s) : fill(f), first(at), scale(s) {}
  const char* name() const override { return "dropout"; }
  Array forward(const Array& x) {
    const Array out = x.empty_like();
    core::backend(x.device()).run(core::call::RandomMask{fill, first, scale, x, out});
    return out;
  }
  Grads backward(const Tensor& g) override { return {record(Dropout(fill, first, scale), g)}; }
};

core::RandomFill next_mask(double keep) {
  const RandomStream stream = default_generator().next();
  core::RandomFill fill;
  fill.kind = core::RandomFill::Kind::bernoulli;
  fill.seed = stream.key;
  fill.stream = stream.id;
  fill.a = keep;
  return fill;
}

// Mask over channels: one value for all that follows them.
Tensor drop_channels(const Tensor& x, double p, bool training, int channel) {
  check(is_floating(x.dtype()), "dropout: x is ", x.dtype(), "; convert it to a floating dtype");
  Shape shape = Shape::filled(x.ndim(), 1);
  for (int i = 0; i <= channel; ++i) shape[i] = x.size(i);
  if (!training || p == 0.0) return x;
  // Halves do not hold the mask's scale.
  const DType dtype = detail::is_half(x) ? kFloat32 : x.dtype();
  const Tensor mask = dropout(ones(shape, {.dtype = dtype, .device = x.device()}), p);
  return (x * mask).to(x.dtype());
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("dropout", {{"x", x}});
  check(p >= 0.0 && p <= 1.0, "dropout: p is outside [0, 1]: ", p);
  check(is_floating(x.dtype()), "dropout: x is ", x.dtype(), "; convert it to a floating dtype");
  if (!training || p == 0.0) return x;
  if (p == 1.0) return x * 0.0;
  const int64_t first = batch_part().rank * x.numel();
  return record(Dropout(next_mask(1.0 - p), first, 1.0 / (1.0 - p)), x);
}

Tensor dropout1d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout1d", {"x", x});
  detail::check_defined("dropout1d", {{"x", x}});
  check(x.ndim() == 2 || x.ndim() == 3, "dropout1d: x must be [N, C, L] or [C, L]: got shape ",
        x.shape());
  return drop_channels(x, p, training, x.ndim() - 2);
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout2d", {"x", x});
  detail::check_defined("dropout2d", {{"x", x}});
  check(x.ndim() >= 2, "dropout2d: x must be [N, C, ...] or [C, H, W]: got shape ", x.shape());
  return drop_channels(x, p, training, x.ndim() == 3 ? 0 : 1);
}

Tensor dropout3d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout3d", {"x", x});
  detail::check_defined("dropout3d", {{"x", x}});
  check(x.ndim() == 4 || x.ndim() == 5,
        "dropout3d: x must be [N, C, D, H, W] or [C, D, H, W]: got ", x.shape());
  if (x.ndim() == 5) return dropout2d(x, p, training);
  return squeeze(dropout2d(unsqueeze(x, 0), p, training), 0);
}

namespace {

// One number decides for all elements of x that share it: `drawn` broadcasts to x's shape.
Tensor alpha_dropped(const char* op, const Tensor& x, double p, bool training, const Shape& drawn) {
  check(p >= 0.0 && p <= 1.0, op, ": the probability is not in [0, 1]: ", p);
  if (!training || p == 0.0) return x;
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; it must be floating");
  if (p == 1.0) return x * 0.0;
  constexpr double kDropped = -1.7580993408473766;  // selu at minus infinity
  const double scale = 1.0 / std::sqrt((1.0 - p) * (1.0 + p * kDropped * kDropped));
  const Tensor keeps = detail::rand_of_part(drawn, {.device = x.device()}) >= p;
  return where(keeps, x, kDropped) * scale - scale * p * kDropped;
}

}  // namespace

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("alpha_dropout", {{"x", x}});
  return alpha_dropped("alpha_dropout", x, p, training, x.shape());
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("feature_alpha_dropout", {{"x", x}});
  constexpr auto kName = "feature_alpha_dropout";
  check(x.ndim() >= 2 || !training || p == 0.0, kName, ": x must be [N, C, ..]: got shape ",
        x.shape());
  Shape channels = x.shape();
  for (int i = 2; i < x.ndim(); ++i) channels[i] = 1;
  return alpha_dropped(kName, x, p, training, channels);
}

}  // namespace hero
