// Order statistics: found by their positions in the sorted order.
#include <limits>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

// Where the elements of x would lie if they were sorted. Their values are taken from x itself: so a
// gradient goes back to them alone, and not by way of zeros for all that was sorted.
Tensor order_of(const Tensor& x, int dim) { return sort(x.detach(), dim).indices; }

// x's elements at `indices`, which have size 1 in `dim`.
ValuesIndices at(const Tensor& x, const Tensor& indices, int dim, bool keepdim) {
  const Tensor values = gather(x, dim, indices);
  if (keepdim) return {values, indices};
  return {squeeze(values, dim), squeeze(indices, dim)};
}

// Those at `position`, int64 with size 1 in `dim`, of x in `order`.
ValuesIndices chosen(const Tensor& x, const Tensor& order, const Tensor& position, int dim,
                     bool keepdim) {
  return at(x, gather(order, dim, position), dim, keepdim);
}

// Where element k would lie if x were sorted.
Tensor kth(const Tensor& x, int64_t k, int dim) {
  return Tensor(core::kth_positions(x.array(), k, dim));
}

// How many are no NaN, with size 1 in `dim`.
Tensor numbers_along(const Tensor& x, int dim) { return sum(x == x, {dim}, true); }

// Whether there is no NaN in lines of `size`, where the host can look: then places in the sorted
// order are the same in all lines.
bool is_whole(const Tensor& count, int64_t size) {
  return core::is_host_memory(count.device()) && all(count == size).item<bool>();
}

ValuesIndices middle(const char* op, const Tensor& x, int64_t dim, bool keepdim, bool skip_nan) {
  const int axis = normalize_dim(op, dim, x.ndim());
  if (x.ndim() == 0) return {clone(x), zeros({}, {.dtype = kInt64, .device = x.device()})};
  const int64_t size = x.size(axis);
  check(size > 0, op, ": dim ", dim, " of shape ", x.shape(), " has no elements");
  const Tensor count = numbers_along(x.detach(), axis);
  if (is_whole(count, size)) return at(x, kth(x, (size - 1) / 2, axis), axis, keepdim);
  const Tensor half = floor_divide(clamp(count - 1, 0, {}), 2);
  // The first NaN stands where the numbers end.
  const Tensor position = skip_nan ? half : where(count < size, count, half);
  return chosen(x, order_of(x, axis), position, axis, keepdim);
}

// One of x's elements, whose gradient those that are equal to it share.
struct SharedChoice : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  Array value;
  explicit SharedChoice(Array v) : value(std::move(v)) {}
  const char* name() const override { return "median"; }
  Array forward(const Array&) { return value; }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0).detach(), y = output().detach();
    const Tensor equal = logical_or(x == y, logical_and(isnan(x), isnan(y)));
    return {where(equal, g / sum(equal).to(g.dtype()), 0)};
  }
};

Tensor middle_of_all(const char* op, const Tensor& x, bool skip_nan) {
  if (x.numel() == 0) {
    check(is_floating(x.dtype()), op, ": nothing has no ", op, " of ", x.dtype());
    return full({}, std::numeric_limits<double>::quiet_NaN(),
                {.dtype = x.dtype(), .device = x.device()});
  }
  const Tensor value = middle(op, ravel(x.detach()), 0, false, skip_nan).values;
  return record(SharedChoice(value.array()), x);
}

// Positions of the shares q [Q] among `count` [.., 1] numbers, as [.., Q].
Tensor ranks(const Tensor& q, const Tensor& count, const Tensor& size, bool skip_nan) {
  const Tensor last = (count - 1).to(q.dtype()), rank = clamp(q * last, 0, {});
  // With a NaN among them the last one is taken, which is NaN.
  return skip_nan ? rank : where(count < size, (size - 1).to(q.dtype()), rank);
}

Tensor at_share(const char* op, const Tensor& x, const Tensor& q, const QuantileOptions& options,
                bool skip_nan) {
  if (const AutocastInputs in(AutocastRule::float32, x, q); in.changed()) {
    return at_share(op, in[0], in[1], options, skip_nan);
  }
  check(x.dtype() == kFloat32 || x.dtype() == kFloat64, op, ": x is ", x.dtype(),
        "; it must be float32 or float64");
  check(q.dtype() == x.dtype(), op, ": q is ", q.dtype(), ", x is ", x.dtype(),
        "; convert with to()");
  check(q.ndim() <= 1, op, ": q must be a number or a vector: got shape ", q.shape());
  check(x.numel() > 0, op, ": nothing has no quantile: shape ", x.shape());
  if (core::has_values(q.device()) && !all(logical_and(q >= 0, q <= 1)).item<bool>()) {
    fail(op, ": q lies outside [0, 1]: ", min(q).item(), " to ", max(q).item());
  }
  const Tensor line = options.dim ? atleast_1d(x) : ravel(x);
  const int axis = options.dim ? normalize_dim(op, *options.dim, line.ndim()) : 0;
  const Tensor rows = movedim(line, axis, -1),
               count = numbers_along(rows.detach(), rows.ndim() - 1);
  const Tensor size = full_like(count, rows.size(-1));
  Tensor rank = ranks(ravel(q), count, size, skip_nan);
  if (options.interpolation == Quantile::lower) rank = floor(rank);
  if (options.interpolation == Quantile::higher) rank = ceil(rank);
  if (options.interpolation == Quantile::nearest) rank = round(rank);
  constexpr int64_t kFew = 4;  // of more shares everything is sorted
  const int last = rows.ndim() - 1;
  const bool finds = q.numel() > 0 && q.numel() <= kFew && is_whole(count, rows.size(-1));
  const Tensor order = finds ? Tensor() : order_of(rows, last), below = floor(rank);
  const auto numbers = [&](const Tensor& place) {
    const Tensor position = place.to(kInt64);
    if (!finds) return gather(rows, -1, gather(order, -1, position));
    std::vector<Tensor> found;
    for (const int64_t k : position.reshape({-1, q.numel()}).select(0, 0).to_vector<int64_t>()) {
      found.push_back(kth(rows, k, last));
    }
    return gather(rows, -1, cat(found, -1));
  };
  Tensor result = numbers(below);
  if (options.interpolation == Quantile::linear || options.interpolation == Quantile::midpoint) {
    const Tensor above = numbers(ceil(rank)), part = options.interpolation == Quantile::linear
                                                         ? rank - below
                                                         : full_like(below, 0.5);
    result = lerp(result, above, part);
  }
  // [.., Q] to [Q, ..], with the dimension back in its place where it is kept.
  result = movedim(result, -1, 0);
  if (options.keepdim) {
    Shape kept = Shape::filled(x.ndim(), 1);
    if (options.dim && x.ndim() > 0) {
      kept = x.shape();
      kept[axis] = 1;
    }
    kept.insert(0, q.numel());
    result = reshape(result, kept);
  }
  return q.ndim() == 0 ? squeeze(result, 0) : result;
}

Tensor share(const Tensor& x, double q) {
  return full({}, q, {.dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32, .device = x.device()});
}

}  // namespace

Tensor median(const Tensor& x) {
  detail::check_defined("median", {{"x", x}});
  return middle_of_all("median", x, false);
}
ValuesIndices median(const Tensor& x, int64_t dim, bool keepdim) {
  detail::check_defined("median", {{"x", x}});
  return middle("median", x, dim, keepdim, false);
}
Tensor nanmedian(const Tensor& x) {
  detail::check_defined("nanmedian", {{"x", x}});
  return middle_of_all("nanmedian", x, true);
}
ValuesIndices nanmedian(const Tensor& x, int64_t dim, bool keepdim) {
  detail::check_defined("nanmedian", {{"x", x}});
  return middle("nanmedian", x, dim, keepdim, true);
}

ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
  detail::check_defined("kthvalue", {{"x", x}});
  const int axis = normalize_dim("kthvalue", dim, x.ndim());
  const int64_t size = x.ndim() == 0 ? 1 : x.size(axis);
  check(k >= 1 && k <= size, "kthvalue: k is ", k, ", but dim ", dim, " of shape ", x.shape(),
        " has ", size, " elements");
  const Tensor line = atleast_1d(x);
  return at(line, kth(line, k - 1, axis), axis, keepdim && x.ndim() > 0);
}

// The end of the longest run of equal neighbours among the sorted: of several the first, whose
// number is the smallest.
ValuesIndices mode(const Tensor& x, int64_t dim, bool keepdim) {
  detail::check_defined("mode", {{"x", x}});
  const int axis = normalize_dim("mode", dim, x.ndim());
  if (x.ndim() == 0) return {clone(x), zeros({}, {.dtype = kInt64, .device = x.device()})};
  check(x.size(axis) > 0, "mode: dim ", dim, " of shape ", x.shape(), " has no elements");
  const ValuesIndices sorted = sort(x.detach(), axis);
  const Tensor& values = sorted.values;
  const Tensor begins = slice(values, axis, 1) != slice(values, axis, 0, -1);
  Shape along = Shape::filled(x.ndim(), 1), first = x.shape();
  along[axis] = x.size(axis);
  first[axis] = 1;
  const Tensor place(detail::positions(x.size(axis), x.device()).reshape(along));
  const Tensor zero = zeros(first, {.dtype = kInt64, .device = x.device()});
  const Tensor start =
      cummax(cat({zero, where(begins, slice(place, axis, 1), 0)}, axis), axis).values;
  return chosen(x, sorted.indices, argmax(place - start, axis, true), axis, keepdim);
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  detail::check_defined("quantile", {{"x", x}});
  return at_share("quantile", x, share(x, q), options, false);
}
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  detail::check_defined("quantile", {{"x", x}, {"q", q}});
  return at_share("quantile", x, q, options, false);
}
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options) {
  detail::check_defined("nanquantile", {{"x", x}});
  return at_share("nanquantile", x, share(x, q), options, true);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  detail::check_defined("nanquantile", {{"x", x}, {"q", q}});
  return at_share("nanquantile", x, q, options, true);
}
Tensor msort(const Tensor& x) {
  detail::check_defined("msort", {{"x", x}});
  return x.ndim() == 0 ? clone(x) : sort(x, 0).values;
}

}  // namespace hero
