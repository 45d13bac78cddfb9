// Distances of rows, powers and exponentials of matrices.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/own_memory.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

void check_squares(const char* op, const Tensor& a) {
  check(a.ndim() >= 2 && a.size(-1) == a.size(-2), op, ": needs square matrices: got shape ",
        a.shape());
}

Tensor identity_like(const Tensor& a) {
  return eye(a.size(-1), {.dtype = a.dtype(), .device = a.device()});
}

// The root; of what rounding made negative 0, where the derivative is 0, too.
struct RootOfSquares : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveOutputs = 1;
  const char* name() const override { return "cdist"; }
  Array forward(const Array& x) {
    const double none = std::numeric_limits<double>::infinity();
    return core::map<core::kernels::Sqrt>(
        core::map<core::kernels::Clamp>(x, Scalar(0.0), Scalar(none)));
  }
  Grads backward(const Tensor& g) override {
    const Tensor y = output(), zero = y == 0;
    return {where(zero, 0, g / (where(zero, 1, y) * 2))};
  }
};

// |a|^2 + |b|^2 - 2 a b by a product.
Tensor euclidean_by_product(const Tensor& a, const Tensor& b) {
  const Tensor squares = sum(square(a), {-1}, true) + sum(square(b), {-1}, true).t();
  return record(RootOfSquares{}, squares + matmul(a, (b * -2.0).t()));
}

// The sum of terms 0 .. 16 of the exponential series: blocks of four powers, by Paterson and
// Stockmeyer, SIAM J. Comput. 2, 1973.
Tensor exponential_series(const Tensor& a) {
  const Tensor a2 = matmul(a, a), a3 = matmul(a2, a), a4 = matmul(a2, a2);
  double inverse_factorial[17];
  inverse_factorial[0] = 1.0;
  for (int k = 1; k <= 16; ++k) inverse_factorial[k] = inverse_factorial[k - 1] / k;
  const Tensor one = identity_like(a);
  const auto block = [&](int k) {
    const double* c = inverse_factorial + k;
    return one * c[0] + a * c[1] + a2 * c[2] + a3 * c[3];
  };
  Tensor result = block(12) + a4 * inverse_factorial[16];
  for (int k = 8; k >= 0; k -= 4) result = block(k) + matmul(a4, result);
  return result;
}

// How often to halve each matrix: until its 1-norm is one at which the series is the exponential of
// a matrix that differs by rounding alone (Al-Mohy and Higham, SIAM J. Sci. Comput. 33, 2011). Once
// more, and the squarings after it would double all errors.
std::vector<int> halvings(const Tensor& a) {
  if (!core::has_values(a.device())) return {0};
  const double reach = a.dtype() == kFloat64 ? 0.7802 : 2.478;
  std::vector<int> result;
  for (const double norm : amax(sum(abs(a.detach()), {-2}), {-1}).to_vector<double>()) {
    check(std::isfinite(norm), "matrix_exp: a matrix has elements that are not finite");
    int count = 0;
    while (std::ldexp(reach, count) < norm) ++count;
    result.push_back(count);
  }
  return result;
}

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  const detail::Named named("cdist", {"a", a}, {"b", b});
  detail::check_defined("cdist", {{"a", a}, {"b", b}});
  if (const AutocastInputs in(AutocastRule::float32, a, b); in.changed())
    return cdist(in[0], in[1], p);
  check(a.ndim() >= 2 && b.ndim() >= 2 && a.size(-1) == b.size(-1),
        "cdist: needs rows of one length: got shapes ", a.shape(), " and ", b.shape());
  check(is_floating(a.dtype()) && is_floating(b.dtype()), "cdist: rows are ", a.dtype(), " and ",
        b.dtype(), "; they must be floating");
  check(p >= 0.0, "cdist: p is negative: ", p);
  if (detail::any_half(a, b)) {
    return detail::in_float32("cdist", AutocastRule::float32, {a, b},
                              [p](const auto& in) { return cdist(in[0], in[1], p); });
  }
  constexpr int64_t kFewRows = 25;
  const Autocast off({.enabled = false});  // differences of products of halves are no distances
  if (p == 2.0 && (a.size(-2) > kFewRows || b.size(-2) > kFewRows)) {
    return euclidean_by_product(a, b);
  }
  return norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, Dims{-1});
}

Tensor pdist(const Tensor& x, double p) {
  const detail::Named named("pdist", {"x", x});
  detail::check_defined("pdist", {{"x", x}});
  check(x.ndim() == 2, "pdist: x must be rows [N, D]: got shape ", x.shape());
  check(is_floating(x.dtype()), "pdist: rows are ", x.dtype(), "; they must be floating");
  check(p >= 0.0, "pdist: p is negative: ", p);
  if (detail::any_half(x)) {
    return detail::in_float32("pdist", AutocastRule::fallthrough, {x},
                              [p](const auto& in) { return pdist(in[0], p); });
  }
  const Tensor pairs = triu_indices(x.size(0), x.size(0), 1, x.device());
  return norm(index_select(x, 0, pairs[0]) - index_select(x, 0, pairs[1]), p, Dims{-1});
}

Tensor renorm(const Tensor& x, double p, int64_t dim, double maxnorm) {
  const detail::Named named("renorm", {"x", x});
  detail::check_defined("renorm", {{"x", x}});
  check(x.ndim() >= 2, "renorm: x needs at least 2 dimensions: got shape ", x.shape());
  check(p > 0.0, "renorm: p must be positive: ", p);
  check(maxnorm >= 0.0, "renorm: maxnorm is negative: ", maxnorm);
  if (detail::any_half(x)) {
    return detail::in_float32("renorm", AutocastRule::fallthrough, {x},
                              [=](const auto& in) { return renorm(in[0], p, dim, maxnorm); });
  }
  const int axis = normalize_dim("renorm", dim, x.ndim());
  Dims others;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const auto scaled = [&](const Tensor& y, const Tensor& length) {
    return y * (maxnorm / (length + 1e-7));
  };
  const Tensor plain = norm(x.detach(), p, others, true), exceeds = plain > maxnorm;
  if (!(grad_enabled() && x.requires_grad())) return where(exceeds, scaled(x, plain), x);
  // The others keep their gradient, also where their norm is NaN or 0.
  const Tensor large = where(exceeds, x, 0);
  return where(exceeds, scaled(large, norm(large, p, others, true)), x);
}

Tensor matrix_power(const Tensor& a, int64_t n) {
  const detail::Named named("matrix_power", {"a", a});
  detail::check_defined("matrix_power", {{"a", a}});
  check_squares("matrix_power", a);
  check(n > std::numeric_limits<int64_t>::min(), "matrix_power: the power ", n, " is too large");
  if (n == 0) return identity_like(a) * pow(a, 0);
  if (detail::any_half(a)) {
    return detail::in_float32("matrix_power", AutocastRule::fallthrough, {a},
                              [n](const auto& in) { return matrix_power(in[0], n); });
  }
  Tensor factor = n < 0 ? inv(a) : a, result;
  for (int64_t left = n < 0 ? -n : n; left > 0; left >>= 1) {
    if (left & 1) result = result.defined() ? matmul(result, factor) : factor;
    if (left > 1) factor = matmul(factor, factor);
  }
  return detail::own_memory(result, a);
}

Tensor matrix_exp(const Tensor& a) {
  detail::check_defined("matrix_exp", {{"a", a}});
  check_squares("matrix_exp", a);
  check(is_floating(a.dtype()), "matrix_exp: matrices are ", a.dtype(), "; they must be floating");
  if (detail::any_half(a)) {
    return detail::in_float32("matrix_exp", AutocastRule::fallthrough, {a},
                              [](const auto& in) { return matrix_exp(in[0]); });
  }
  if (a.numel() == 0) return clone(a);
  const Autocast off({.enabled = false});  // squaring doubles the errors of products
  const std::vector<int> counts = halvings(a);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  Tensor factor, squarings;  // of each matrix, where they differ
  if (*least != *most) {
    Shape batch = a.shape();
    batch[a.ndim() - 1] = batch[a.ndim() - 2] = 1;
    std::vector<double> factors;
    for (int count : counts) factors.push_back(std::ldexp(1.0, -count));
    factor = reshape(tensor(factors, {.dtype = a.dtype(), .device = a.device()}), batch);
    squarings = reshape(tensor(counts, {.device = a.device()}), batch);
  }
  Tensor result = exponential_series(factor.defined() ? a * factor : a * std::ldexp(1.0, -*most));
  for (int i = 0; i < *most; ++i) {
    const Tensor squared = matmul(result, result);
    result = i < *least ? squared : where(squarings > i, squared, result);
  }
  return result;
}

}  // namespace hero
