// Running sums and products.
#include <limits>

#include <hero/autograd/creation.h>
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/place.h>
#include <hero/autograd/reduce_ops.h>
#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

using core::Direction;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Cumsum : Op {
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

// r[i] = b[i] + a[i] * r[i + 1] along dim, r = 0 beyond the end. Each round lets every element see
// twice as far, so the recurrence is log2(n) rounds of whole-array operations.
Tensor recurrence(Tensor a, Tensor b, int dim) {
  for (int64_t reach = 1; reach < b.size(dim); reach *= 2) {
    b = b + a * moved(b, dim, -reach, 0.0);
    a = a * moved(a, dim, -reach, 0.0);
  }
  return b;
}

// y[j] = x[0] ... x[j]. dL/dx[i] = (x[0] ... x[i-1]) * r[i], where r[i], the sum over j >= i of
// g[j] * x[i+1] ... x[j], is a recurrence: no division, so zeros are no exception.
struct Cumprod : Op {
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  int dim;
  explicit Cumprod(int d) : dim(d) {}
  const char* name() const override { return "cumprod"; }
  Array forward(const Array& x) {
    return core::cumulative(core::ScanOp::prod, Direction::forward, x, dim);
  }
  Grads backward(const Tensor& g) override {
    if (input_shape(0).numel() == 0 || input_shape(0).empty()) return {g};
    const Tensor before = moved(output(), dim, 1, 1.0);
    return {before * recurrence(moved(input(0), dim, -1, 0.0), g, dim)};
  }
};

// y[j] = log(exp(x[0]) + ... + exp(x[j])), in rounds like those of recurrence(). dL/dx[i] =
// exp(x[i] - y[i]) r[i], where r[i], the sum over j >= i of g[j] exp(y[i] - y[j]), is a recurrence
// whose factors are at most 1.
struct LogCumSumExp : Op {
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  int dim;
  explicit LogCumSumExp(int d) : dim(d) {}
  const char* name() const override { return "logcumsumexp"; }
  Array forward(const Array& x) {
    if (x.ndim() == 0) return x.clone();
    Array y = x.clone();
    for (int64_t reach = 1; reach < x.size(dim); reach *= 2) {
      const Array own = y.slice(dim, reach, y.size(dim));
      const Array before = y.slice(dim, 0, y.size(dim) - reach);
      const Array both = core::map<core::kernels::LogAddExp>(own, before);
      core::backend(x.device()).copy(both, own);
    }
    return y;
  }
  Grads backward(const Tensor& g) override {
    if (input_shape(0).numel() == 0 || input_shape(0).empty()) return {g};
    const Tensor y = output();
    return {share(input(0), y) * recurrence(share(y, moved(y, dim, -1, kInfinite)), g, dim)};
  }

 private:
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
    return detail::in_float32("logcumsumexp", {x},
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
    return detail::in_float32("cumprod", {x}, [=](const auto& in) { return cumprod(in[0], dim); });
  }
  return record(Cumprod(normalize_dim("cumprod", dim, x.ndim())), x);
}

}  // namespace hero
