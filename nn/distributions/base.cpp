#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/parameters.h>

namespace hero::distributions {

void check_all(const Tensor& holds, const Tensor& numbers, const char* what) {
  if (holds.device().type == DeviceType::meta) return;
  const NoGrad no_grad;
  if (all(holds).item() != 0.0) return;
  const auto first = argmin(flatten(holds).to(kInt32)).item<int64_t>();
  fail(what, ": it is ", flatten(numbers)[first].item(), " at element ", first, " of ",
       numbers.shape());
}

const Tensor& check_positive(const char* name, const char* parameter, const Tensor& numbers) {
  check_all(numbers > 0, numbers,
            (std::string(name) + ": " + parameter + " must be positive").c_str());
  return numbers;
}

std::vector<Tensor> broadcast(const char* name, const std::vector<Tensor>& parameters) {
  Shape shape;
  for (const Tensor& x : parameters) {
    check(x.defined() && is_floating(x.dtype()), name, ": parameters are ",
          x.defined() ? to_string(x.dtype()) : "undefined", "; convert them to a floating dtype");
    shape = broadcast_shapes(name, shape, x.shape());
  }
  std::vector<Tensor> result;
  for (const Tensor& x : parameters) result.push_back(expand(x, shape));
  return result;
}

namespace {

double least_of(DType dtype) {
  if (dtype == kFloat64) return std::numeric_limits<double>::min();
  return dtype == kFloat16 ? 0x1p-14 : double{std::numeric_limits<float>::min()};
}

}  // namespace

Tensor at_least_normal(const Tensor& x, DType dtype, double most) {
  return clamp(x, least_of(dtype), most).to(dtype);
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return std::numeric_limits<double>::epsilon();
    case kFloat16:
      return 0x1p-10;
    case kBFloat16:
      return 0x1p-7;
    default:
      return double{std::numeric_limits<float>::epsilon()};
  }
}

Tensor within_unit(const Tensor& x) {
  return clamp(x, least_of(x.dtype()), 1.0 - epsilon_of(x.dtype()));
}

Tensor unit_exponential(const Shape& shape, const Tensor& like) {
  const NoGrad no_grad;
  return at_least_normal(empty(shape, beside(like)).exponential_(), like.dtype());
}

Tensor sum_last(const Tensor& x, int n) {
  Dims dims;
  for (int i = 1; i <= n; ++i) dims.push_back(-i);
  return n == 0 ? x : sum(x, dims);
}

void Distribution::lacks(const char* what) const {
  fail(name(), ": it has no ", what, " in closed form");
}

Tensor Distribution::entropy() const { lacks("entropy"); }
Tensor Distribution::mean() const { lacks("mean"); }
Tensor Distribution::variance() const { lacks("variance"); }
Tensor Distribution::cdf(const Tensor& /*value*/) const { lacks("cdf"); }
Tensor Distribution::icdf(const Tensor& /*probability*/) const { lacks("icdf"); }
Tensor Distribution::stddev() const { return sqrt(variance()); }

Shape Distribution::extended(const Shape& shape) const {
  Shape whole = shape;
  for (const int64_t size : batch_shape_) whole.push_back(size);
  for (const int64_t size : event_shape_) whole.push_back(size);
  return whole;
}

Tensor Distribution::sample(const Shape& shape) const {
  const NoGrad no_grad;
  return draw(shape).detach();
}

Tensor Distribution::rsample(const Shape& /*shape*/) const {
  fail(name(), ": a draw is discrete and has no gradient; use sample() and log_prob()");
}

DrawWithLogProb Distribution::rsample_with_log_prob(const Shape& shape) const {
  const Tensor value = rsample(shape);
  return {value, log_prob(value)};
}

LocationScale::LocationScale(const char* name, const Tensor& l, const Tensor& s)
    : LocationScale(name, broadcast(name, {l, s})) {}

LocationScale::LocationScale(const char* name, const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), loc(both[0]), scale(both[1]) {
  check_all(loc == loc, loc, (std::string(name) + ": loc must be a number").c_str());
  check_positive(name, "scale", scale);
}

}  // namespace hero::distributions
