// Running sums and products.
#include <algorithm>
#include <limits>

#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/recurrence.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/functions/scaled_products.h>

namespace hero {

namespace {

namespace k = core::kernels;
using core::Direction;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Cumsum : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  int dim;
  Direction direction;
  Cumsum(int d, Direction to) : dim(d), direction(to) {}
  const char* name() const override { return "cumsum"; }
  Array forward(const Array& x) { return core::cumulative(core::ScanOp::sum, direction, x, dim); }
  Grads backward(const Tensor& g) override {
    const bool forwards = direction == Direction::forward;
    return {record(Cumsum(dim, forwards ? Direction::backward : Direction::forward), g)};
  }
};

// The elements of `dim` moved by `by` places, `fill` moving in.
Tensor moved(const Tensor& x, int dim, int64_t by, double fill) {
  std::vector<int64_t> padding(static_cast<size_t>(2 * (x.ndim() - dim)), 0);
  padding[padding.size() - 2] = by;
  padding[padding.size() - 1] = -by;
  return pad(x, padding, PadMode::constant, fill);
}

// core::recurrence(a, b). Each element reaches the result by way of the one after it, so the
// derivative by b is a recurrence in the other direction.
struct Recurrence : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b01;
  static constexpr unsigned kSaveOutputs = 1;
  int dim;
  Direction direction;
  Recurrence(int d, Direction to) : dim(d), direction(to) {}
  const char* name() const override { return "recurrence"; }
  Array forward(const Array& a, const Array& b) { return core::recurrence(a, b, dim, direction); }
  Grads backward(const Tensor& g) override {
    const bool forwards = direction == Direction::forward;
    const int64_t by = forwards ? 1 : -1;
    const Tensor by_b = record(Recurrence(dim, forwards ? Direction::backward : Direction::forward),
                               moved(input(0), dim, by, 0.0), g);
    return {moved(by_b, dim, -by, 0.0) * output(), by_b};
  }
};

// The running products along `dim`. Where a product of some factors may leave the range of the
// dtype, those of its line are of exponents apart from mantissas, if the host can look at it; at
// lines that do not lie in memory one behind the other, in copies of some at a time.
Array running_products(const Array& x, int dim) {
  const Array y = core::cumulative(core::ScanOp::prod, Direction::forward, x, dim);
  const bool looks =
      core::is_host_memory(x.device()) && (x.dtype() == kFloat32 || x.dtype() == kFloat64);
  if (!looks || x.numel() == 0 || x.ndim() == 0) return y;
  if (dim == x.ndim() - 1 && x.is_contiguous()) {
    core::correct_running_products(x, y);
    return y;
  }
  Dims order;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != dim) order.push_back(i);
  }
  order.push_back(dim);
  const Array from = x.permute(order), to = y.permute(order);
  constexpr int64_t kElements = 1 << 20;
  const int64_t step = std::max<int64_t>(1, kElements / (x.numel() / from.size(0)));
  for (int64_t at = 0; at < from.size(0); at += x.ndim() == 1 ? from.size(0) : step) {
    const int64_t end = x.ndim() == 1 ? from.size(0) : std::min(at + step, from.size(0));
    const Array lines = from.slice(0, at, end).contiguous(), part = to.slice(0, at, end);
    if (!core::may_leave_range(lines)) continue;
    const Array products = part.clone();
    core::correct_running_products(lines, products);
    core::backend(kCpu).run(core::call::Copy{products, part});
  }
  return y;
}

// y[j] = x[0] ... x[j]. dL/dx[i] = (x[0] ... x[i-1]) * r[i], where r[i], the sum over j >= i of
// g[j] * x[i+1] ... x[j], is a recurrence: no division, so zeros are no exception.
struct Cumprod : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  int dim;
  explicit Cumprod(int d) : dim(d) {}
  const char* name() const override { return "cumprod"; }
  Array forward(const Array& x) { return running_products(x, dim); }
  Grads backward(const Tensor& g) override {
    if (input_shape(0).numel() == 0 || input_shape(0).empty()) return {g};
    if (input(0).dtype() != kFloat32) return {gradient(input(0), output(), g)};
    // float64 holds products of float32 that float32 does not.
    const Tensor x = input(0).to(kFloat64);
    return {gradient(x, record(Cumprod(dim), x), g.to(kFloat64)).to(kFloat32)};
  }

 private:
  Tensor gradient(const Tensor& x, const Tensor& y, const Tensor& g) const {
    const Tensor before = moved(y, dim, 1, 1.0), after = weighed(x, g);
    const Tensor lost = lost_numbers(before, after, x, g);
    const Tensor slopes = where(lost, 0, before) * where(lost, 0, after);
    if (core::is_host_memory(x.device()) && !any(lost.detach()).item<bool>()) return slopes;
    // What a factor may still reach ends at the first zero behind it.
    const Tensor zero = x == 0.0, zeros = cumsum(zero.to(kInt64), dim);
    const auto within = [&](const Tensor& reached) {
      const Tensor found = before * weighed(where(reached, x, 0), where(reached, g, 0));
      return where(isnan(found), 0, found);  // no result depends on the factor
    };
    const Tensor none_yet = zeros == 0, first = logical_and(zero, zeros == 1);
    const Tensor of_first = where(first, within(zeros <= 1), 0);
    return where(lost, where(none_yet, within(none_yet), of_first), slopes);
  }
  // r of the derivative.
  Tensor weighed(const Tensor& x, const Tensor& g) const {
    return record(Recurrence(dim, Direction::backward), x, g);
  }
  // Where products that left the range were multiplied by 0, though all numbers are finite.
  Tensor lost_numbers(const Tensor& before, const Tensor& after, const Tensor& x,
                      const Tensor& g) const {
    const NoGrad no_grad;
    const Tensor finite = all(logical_and(isfinite(x), isfinite(g)), {dim}, true);
    return logical_and(isnan(before * after), finite);
  }
};

// y[j] = log(exp(x[0]) + ... + exp(x[j])). Of float32 it is computed in double: sums on the way may
// be far from 0 where one of them is near it. dL/dx[i] = exp(x[i] - y[i]) r[i], where r[i], the sum
// over j >= i of g[j] exp(y[i] - y[j]), is a recurrence whose factors are at most 1.
struct LogCumSumExp : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  int dim;
  explicit LogCumSumExp(int d) : dim(d) {}
  const char* name() const override { return "logcumsumexp"; }
  Array forward(const Array& x) {
    if (x.ndim() == 0) return x.clone();
    const Array wide = x.dtype() == kFloat32 ? x.to(kFloat64) : x;
    // A GPU need not wait for the answer which lines are near.
    const bool asks = core::is_host_memory(x.device()) && x.numel() > 0;
    return (asks ? by_line(wide) : in_rounds(wide)).to(x.dtype());
  }
  Grads backward(const Tensor& g) override {
    if (input_shape(0).numel() == 0 || input_shape(0).empty()) return {g};
    if (input(0).dtype() != kFloat32) return {gradient(input(0), output(), g)};
    // Far from 0 a float32 has too few digits for the differences whose exponentials are taken.
    const Tensor x = input(0).to(kFloat64);
    return {gradient(x, record(LogCumSumExp(dim), x), g.to(kFloat64)).to(kFloat32)};
  }

 private:
  // One sum of exponentials, none of which is above 1, for lines in which none underflows in
  // double; the others, and those of NaN and infinities, in rounds.
  Array by_line(const Array& x) const {
    const auto limit = [&](core::ReduceKind kind) {
      return core::reduce(kind, x, {dim}, core::KeepDims::yes);
    };
    const Array most = limit(core::ReduceKind::max);
    const Array near =
        core::map<k::Less>(core::map<k::Sub>(most, limit(core::ReduceKind::min)), Scalar(600.0));
    const Array terms = core::map<k::Exp>(core::map<k::Sub>(x, most));
    const Array sums = core::cumulative(core::ScanOp::sum, Direction::forward, terms, dim);
    const Array y = core::map<k::Add>(core::map<k::Log>(sums), most);
    const bool all = core::reduce(core::ReduceKind::min, near.to(kInt32)).item<int64_t>() == 1;
    return all ? y : core::map<k::Where>(near, y, in_rounds(x));
  }
  // Each round lets every element see twice as far.
  Array in_rounds(const Array& x) const {
    Array y = x.clone();
    for (int64_t reach = 1; reach < x.size(dim); reach *= 2) {
      const Array own = y.slice(dim, reach, y.size(dim));
      const Array before = y.slice(dim, 0, y.size(dim) - reach);
      core::backend(x.device()).run(core::call::Copy{core::map<k::LogAddExp>(own, before), own});
    }
    return y;
  }
  Tensor gradient(const Tensor& x, const Tensor& y, const Tensor& g) const {
    const Tensor factors = share(moved(y, dim, 1, -kInfinite), y);
    return share(x, y) * record(Recurrence(dim, Direction::backward), factors, g);
  }
  // exp(part - whole) of logarithms, 0 where the part is nothing.
  static Tensor share(const Tensor& part, const Tensor& whole) {
    const Tensor nothing = part == -kInfinite;
    return where(nothing, 0, exp(where(nothing, 0, part) - where(nothing, 0, whole)));
  }
};

}  // namespace

Tensor logcumsumexp(const Tensor& x, int64_t dim) {
  detail::check_defined("logcumsumexp", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("logcumsumexp", AutocastRule::fallthrough, {x},
                              [=](const auto& in) { return logcumsumexp(in[0], dim); });
  }
  check(is_floating(x.dtype()), "logcumsumexp: array is ", x.dtype(),
        "; convert to a floating dtype first");
  return record(LogCumSumExp(normalize_dim("logcumsumexp", dim, x.ndim())), x);
}

Tensor cumsum(const Tensor& x, int64_t dim) {
  detail::check_defined("cumsum", {{"x", x}});
  return record(Cumsum(normalize_dim("cumsum", dim, x.ndim()), Direction::forward), x);
}

Tensor cumprod(const Tensor& x, int64_t dim) {
  detail::check_defined("cumprod", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("cumprod", AutocastRule::float32, {x},
                              [=](const auto& in) { return cumprod(in[0], dim); });
  }
  return record(Cumprod(normalize_dim("cumprod", dim, x.ndim())), x);
}

}  // namespace hero
