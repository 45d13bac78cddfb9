// Losses that compare elements. Of halves each is one operation, see [note: rounded once].
#include <cmath>

#include <hero/autograd/autocast.h>
#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/named.h>
#include <hero/autograd/ops/nn/loss.h>

namespace hero {

Tensor detail::reduce_loss(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss) : sum(loss);
}

void detail::check_pair(const char* op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), op, ": shapes differ: ", x.shape(), " and ", y.shape(),
        "; reshape or expand one");
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

using detail::any_half, detail::in_float32;
using detail::check_pair;
using detail::reduce_loss;

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("mse_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("mse_loss", x, y); in.changed()) {
    return mse_loss(in[0], in[1], reduction);
  }
  check_pair("mse_loss", x, y);
  if (any_half(x, y)) {
    return in_float32("mse_loss", {x, y},
                      [=](const auto& in) { return mse_loss(in[0], in[1], reduction); });
  }
  return reduce_loss(square(x - y), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("l1_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("l1_loss", x, y); in.changed()) {
    return l1_loss(in[0], in[1], reduction);
  }
  check_pair("l1_loss", x, y);
  if (any_half(x, y)) {
    return in_float32("l1_loss", {x, y},
                      [=](const auto& in) { return l1_loss(in[0], in[1], reduction); });
  }
  return reduce_loss(abs(x - y), reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, Reduction reduction) {
  detail::check_defined("huber_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("huber_loss", x, y); in.changed()) {
    return huber_loss(in[0], in[1], delta, reduction);
  }
  check_pair("huber_loss", x, y);
  check(delta > 0.0, "huber_loss: delta must be positive: ", delta);
  if (x.dtype() != y.dtype()) {
    return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
      return huber_loss(wide_x, wide_y, delta, reduction);
    });
  }
  if (any_half(x, y)) {
    return in_float32("huber_loss", {x, y},
                      [=](const auto& in) { return huber_loss(in[0], in[1], delta, reduction); });
  }
  const Tensor difference = x - y;
  // No distance is beyond an infinite delta.
  if (std::isinf(delta)) return reduce_loss(square(difference) * 0.5, reduction);
  const Tensor distance = abs(difference);
  // At delta both have the same slope, and the second derivative is 0, as in PyTorch.
  const Tensor is_far = distance >= delta;
  // The square of what is far may be infinite, and 0 times its slope NaN.
  const Tensor near = square(where(is_far, 0, difference)) * 0.5;
  const Tensor far = (distance - 0.5 * delta) * delta;
  return reduce_loss(where(is_far, far, near), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, Reduction reduction) {
  detail::check_defined("smooth_l1_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("smooth_l1_loss", x, y); in.changed()) {
    return smooth_l1_loss(in[0], in[1], beta, reduction);
  }
  check_pair("smooth_l1_loss", x, y);
  check(beta >= 0.0, "smooth_l1_loss: beta must not be negative: ", beta);
  if (beta == 0.0) return l1_loss(x, y, reduction);
  if (any_half(x, y)) {
    return in_float32("smooth_l1_loss", {x, y}, [=](const auto& in) {
      return smooth_l1_loss(in[0], in[1], beta, reduction);
    });
  }
  const Tensor difference = x - y;
  const Tensor distance = abs(difference);
  const Tensor is_far = distance >= beta;
  const Tensor near = square(where(is_far, 0, difference)) * (0.5 / beta);
  return reduce_loss(where(is_far, distance - 0.5 * beta, near), reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& y, KlReduction reduction, bool log_target) {
  detail::check_defined("kl_div", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("kl_div", x, y); in.changed()) {
    return kl_div(in[0], in[1], reduction, log_target);
  }
  check_pair("kl_div", x, y);
  if (any_half(x, y)) {
    return in_float32("kl_div", {x, y},
                      [=](const auto& in) { return kl_div(in[0], in[1], reduction, log_target); });
  }
  Tensor loss;
  if (log_target) {
    loss = exp(y) * (y - x);
  } else {
    // y log y is 0 at 0, where its logarithm is not finite.
    const Tensor zero = y == 0;
    loss = where(zero, 0, y * log(where(zero, 1, y))) - y * x;
  }
  switch (reduction) {
    case KlReduction::none:
      return loss;
    case KlReduction::mean:
      return mean(loss);
    case KlReduction::sum:
      return sum(loss);
    case KlReduction::batchmean:
      break;
  }
  return x.ndim() > 0 ? sum(loss) / x.size(0) : loss;  // a number is a batch of one
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) try {
  detail::check_defined("cosine_similarity", {{"a", a}, {"b", b}});
  if (const AutocastInputs in("cosine_similarity", a, b); in.changed()) {
    return cosine_similarity(in[0], in[1], dim, eps);
  }
  if (any_half(a, b)) {
    return in_float32("cosine_similarity", {a, b},
                      [=](const auto& in) { return cosine_similarity(in[0], in[1], dim, eps); });
  }
  const Shape shape = broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  const Dims dims{normalize_dim("cosine_similarity", dim, shape.size())};
  const Tensor left = a.shape() == shape ? a : expand(a, shape);
  const Tensor right = b.shape() == shape ? b : expand(b, shape);
  const auto length = [&](const Tensor& x) { return clamp(norm(x, 2.0, dims), eps, std::nullopt); };
  return sum(left * right, dims) / (length(left) * length(right));
} catch (const Error& error) {
  detail::name_op(error, "cosine_similarity", {{"a", a}, {"b", b}});
}

}  // namespace hero
