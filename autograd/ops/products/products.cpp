// Products that are computed by matmul() and similar functions.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/factor.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

using Product = Tensor (*)(const Tensor&, const Tensor&);

Tensor with_summand(const char* op, const Tensor& input, const Tensor& a, const Tensor& b,
                    const AddProduct& o, Product product) {
  if (const AutocastInputs in(AutocastRule::lower_precision, input, a, b); in.changed()) {
    return with_summand(op, in[0], in[1], in[2], o, product);
  }
  check(input.dtype() == a.dtype() && a.dtype() == b.dtype(), op,
        ": dtypes differ: ", input.dtype(), ", ", a.dtype(), " and ", b.dtype(),
        "; convert with to()");
  detail::check_factor(op, "beta", o.beta, a.dtype());
  detail::check_factor(op, "alpha", o.alpha, a.dtype());
  if (detail::any_half(a)) {
    return detail::in_float32(
        op, AutocastRule::lower_precision, {input, a, b},
        [=](const auto& in) { return with_summand(op, in[0], in[1], in[2], o, product); });
  }
  const Tensor found = product(a, b);
  check(broadcast_shapes(op, input.shape(), found.shape()) == found.shape(), op,
        ": input of shape ", input.shape(), " does not fit the product's ", found.shape());
  // Sums and multiples of small integers and bools are wider than these.
  const DType dtype = a.dtype();
  const Scalar beta = cut_to(o.beta, dtype), alpha = cut_to(o.alpha, dtype);
  const Tensor scaled = alpha.real() == 1.0 ? found : found * alpha;
  if (beta.real() == 0.0) return scaled.to(dtype);
  return (scaled + (beta.real() == 1.0 ? input : input * beta)).to(dtype);
}

Tensor sum_of_bmm(const Tensor& a, const Tensor& b) { return sum(bmm(a, b), {0}); }

// The dimensions of x in the order `first`, `then`, as two.
Tensor as_matrix(const Tensor& x, const Dims& first, const Dims& then) {
  Dims order = first;
  int64_t rows = 1, columns = 1;
  for (int64_t dim : first) rows *= x.size(dim);
  for (int64_t dim : then) {
    columns *= x.size(dim);
    order.push_back(dim);
  }
  return reshape(permute(x, order), {rows, columns});
}

Dims others(const Tensor& x, const Dims& dims) {
  Dims rest;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!dims.contains(i)) rest.push_back(i);
  }
  return rest;
}

// Products first .. last (inclusive) in the best order, by the table of where to split.
Tensor chain(const std::vector<Tensor>& m, const std::vector<std::vector<size_t>>& split,
             size_t first, size_t last) {
  if (first == last) return m[first];
  const size_t at = split[first][last];
  return matmul(chain(m, split, first, at), chain(m, split, at + 1, last));
}

std::vector<std::vector<size_t>> best_splits(const std::vector<double>& sizes) {
  const size_t n = sizes.size() - 1;
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0.0));
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      const size_t j = i + length;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double own = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (own < cost[i][j]) {
          cost[i][j] = own;
          split[i][j] = k;
        }
      }
    }
  }
  return split;
}

}  // namespace

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const AddProduct& options) {
  const detail::Named named("addmm", {"input", input}, {"a", a}, {"b", b});
  detail::check_defined("addmm", {{"input", input}, {"a", a}, {"b", b}});
  return with_summand("addmm", input, a, b, options, mm);
}
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& v, const AddProduct& options) {
  const detail::Named named("addmv", {"input", input}, {"a", a}, {"v", v});
  detail::check_defined("addmv", {{"input", input}, {"a", a}, {"v", v}});
  return with_summand("addmv", input, a, v, options, mv);
}
Tensor addr(const Tensor& input, const Tensor& u, const Tensor& v, const AddProduct& options) {
  const detail::Named named("addr", {"input", input}, {"u", u}, {"v", v});
  detail::check_defined("addr", {{"input", input}, {"u", u}, {"v", v}});
  const DType dtype = promote(promote(input.dtype(), u.dtype()), v.dtype());
  return with_summand("addr", input.to(dtype), u.to(dtype), v.to(dtype), options, outer);
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, const AddProduct& options) {
  const detail::Named named("baddbmm", {"input", input}, {"a", a}, {"b", b});
  detail::check_defined("baddbmm", {{"input", input}, {"a", a}, {"b", b}});
  return with_summand("baddbmm", input, a, b, options, bmm);
}
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, const AddProduct& options) {
  const detail::Named named("addbmm", {"input", input}, {"a", a}, {"b", b});
  detail::check_defined("addbmm", {{"input", input}, {"a", a}, {"b", b}});
  return with_summand("addbmm", input, a, b, options, sum_of_bmm);
}

Tensor mv(const Tensor& a, const Tensor& v) {
  const detail::Named named("mv", {"a", a}, {"v", v});
  detail::check_defined("mv", {{"a", a}, {"v", v}});
  detail::check_ndim("mv", a, 2);
  detail::check_ndim("mv", v, 1);
  return matmul(a, v);
}
Tensor inner(const Tensor& a, const Tensor& b) {
  const detail::Named named("inner", {"a", a}, {"b", b});
  detail::check_defined("inner", {{"a", a}, {"b", b}});
  if (a.ndim() == 0 || b.ndim() == 0) return a * b;
  check(a.size(-1) == b.size(-1), "inner: sizes differ in the last dimension: ", a.shape(), " and ",
        b.shape(), "; both must be the same, also where one is 1");
  return tensordot(a, b, Dims{-1}, Dims{-1});
}
Tensor vdot(const Tensor& a, const Tensor& b) {
  const detail::Named named("vdot", {"a", a}, {"b", b});
  return dot(a, b);
}

Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim) {
  const detail::Named named("vecdot", {"a", a}, {"b", b});
  detail::check_defined("vecdot", {{"a", a}, {"b", b}});
  if (detail::any_half(a, b)) {
    return detail::in_float32("vecdot", AutocastRule::fallthrough, {a, b},
                              [=](const auto& in) { return vecdot(in[0], in[1], dim); });
  }
  const int axis = normalize_dim("vecdot", dim, std::max(a.ndim(), b.ndim())) -
                   std::max(a.ndim(), b.ndim());  // from the end, where shapes meet
  check(-axis > a.ndim() || -axis > b.ndim() || a.size(axis) == b.size(axis),
        "vecdot: sizes differ in dim ", dim, ": ", a.shape(), " and ", b.shape(),
        "; both must be the same, also where one is 1");
  return sum(a * b, {dim});
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b) {
  const detail::Named named("tensordot", {"a", a}, {"b", b});
  detail::check_defined("tensordot", {{"a", a}, {"b", b}});
  check(dims_a.size() == dims_b.size(), "tensordot: dims ", dims_a, " and ", dims_b,
        " differ in length");
  const Dims over_a = detail::counted_dims("tensordot", dims_a, a.ndim());
  const Dims over_b = detail::counted_dims("tensordot", dims_b, b.ndim());
  Dims alone_a, alone_b;  // dimensions that meet one of size 1, which repeats
  for (int i = 0; i < over_a.size(); ++i) {
    const int64_t size_a = a.size(over_a[i]), size_b = b.size(over_b[i]);
    check(size_a == size_b || size_a == 1 || size_b == 1, "tensordot: sizes differ in dim ",
          dims_a[i], " of ", a.shape(), " and dim ", dims_b[i], " of ", b.shape());
    if (size_a != size_b)
      (size_a == 1 ? alone_b : alone_a).push_back(size_a == 1 ? over_b[i] : over_a[i]);
  }
  if (!alone_a.empty() || !alone_b.empty()) {
    const auto summed = [](const Tensor& x, const Dims& dims) {
      return dims.empty() ? x : sum(x, dims, true).to(x.dtype());
    };
    return tensordot(summed(a, alone_a), summed(b, alone_b), dims_a, dims_b);
  }
  const Dims rest_a = others(a, over_a), rest_b = others(b, over_b);
  Shape shape;
  for (int64_t dim : rest_a) shape.push_back(a.size(dim));
  for (int64_t dim : rest_b) shape.push_back(b.size(dim));
  return reshape(mm(as_matrix(a, rest_a, over_a), as_matrix(b, over_b, rest_b)), shape);
}
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims) {
  const detail::Named named("tensordot", {"a", a}, {"b", b});
  detail::check_defined("tensordot", {{"a", a}, {"b", b}});
  check(dims >= 0 && dims <= a.ndim() && dims <= b.ndim(), "tensordot: over ", dims,
        " dimensions of shapes ", a.shape(), " and ", b.shape());
  Dims last, first;
  for (int64_t i = 0; i < dims; ++i) {
    last.push_back(a.ndim() - dims + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  detail::check_defined("kron", {{"a", a}, {"b", b}});
  const int ndim = std::max(a.ndim(), b.ndim());
  check(2 * ndim <= kMaxDims, "kron: more than ", kMaxDims / 2, " dimensions: ", a.shape(), " and ",
        b.shape());
  Shape of_a, of_b, joined;
  for (int i = 0; i < ndim; ++i) {
    const int at_a = i - (ndim - a.ndim()), at_b = i - (ndim - b.ndim());
    const int64_t size_a = at_a < 0 ? 1 : a.size(at_a), size_b = at_b < 0 ? 1 : b.size(at_b);
    for (int64_t size : {size_a, int64_t{1}}) of_a.push_back(size);
    for (int64_t size : {int64_t{1}, size_b}) of_b.push_back(size);
    joined.push_back(size_a * size_b);
  }
  return reshape(reshape(a, of_a) * reshape(b, of_b), joined);
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> given) {
  detail::check_defined("cross", {{"a", a}, {"b", b}});
  check(a.ndim() == b.ndim(), "cross: shapes ", a.shape(), " and ", b.shape(),
        " differ in their number of dimensions");
  const Shape shape = broadcast_shapes("cross", a.shape(), b.shape());
  const auto size_3 = std::find(a.shape().begin(), a.shape().end(), 3);
  check(given || size_3 != a.shape().end(), "cross: no dim has 3 elements: got shapes ", a.shape(),
        " and ", b.shape());
  const int64_t dim = given ? *given : size_3 - a.shape().begin();
  const int axis = normalize_dim("cross", dim, a.ndim());
  check(a.ndim() > 0 && a.size(axis) == 3 && b.size(axis) == 3, "cross: dim ", dim,
        " must have 3 elements: got shapes ", a.shape(), " and ", b.shape());
  if (detail::any_half(a, b)) {
    return detail::in_float32("cross", AutocastRule::fallthrough, {a, b},
                              [=](const auto& in) { return cross(in[0], in[1], dim); });
  }
  const Tensor x = expand(a, shape), y = expand(b, shape);
  const auto turned = [axis](const Tensor& t, int64_t by) { return roll(t, {-by}, {axis}); };
  return turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1);
}

Tensor multi_dot(const std::vector<Tensor>& matrices) {
  const detail::Named named("multi_dot");
  detail::check_defined("multi_dot", matrices);
  check(matrices.size() >= 2, "multi_dot: needs two matrices at least: got ", matrices.size());
  if (std::any_of(matrices.begin(), matrices.end(),
                  [](const Tensor& matrix) { return detail::any_half(matrix); })) {
    return detail::in_float32("multi_dot", AutocastRule::fallthrough, matrices,
                              [](const auto& in) { return multi_dot(in); });
  }
  std::vector<Tensor> m = matrices;
  const bool row = m.front().ndim() == 1, column = m.back().ndim() == 1;
  if (row) m.front() = unsqueeze(m.front(), 0);
  if (column) m.back() = unsqueeze(m.back(), 1);
  std::vector<double> sizes = {static_cast<double>(m[0].size(0))};
  for (size_t i = 0; i < m.size(); ++i) {
    check(m[i].ndim() == 2, "multi_dot: tensor ", i, " has shape ", matrices[i].shape(),
          "; those between the first and the last must be matrices");
    const Tensor& before = m[i == 0 ? 0 : i - 1];
    check(i == 0 || m[i].size(0) == before.size(1), "multi_dot: tensors ", i - 1, " and ", i,
          " do not fit: ", before.shape(), " and ", m[i].shape());
    sizes.push_back(static_cast<double>(m[i].size(1)));
  }
  Tensor result = chain(m, best_splits(sizes), 0, m.size() - 1);
  if (column) result = squeeze(result, 1);
  return row ? squeeze(result, 0) : result;
}

}  // namespace hero
