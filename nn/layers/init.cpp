// Recipes of two kinds: those whose element i is a function of a random number i are drawn where
// they are wanted; the others (orthogonal, sparse) are computed whole in float64 and cut.
#include <cmath>
#include <vector>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/kernels/math_double_own.h>
#include <hero/nn/init.h>

namespace hero::nn {

namespace {

using core::RandomFill;

void draw(RandomFill fill, const Array& part, int64_t first, RandomStream stream) {
  fill.seed = stream.key;
  fill.stream = stream.id;
  core::backend(part.device()).run(core::call::Random{fill, first, part});
}

void draw_uniform(double bound, const Array& part, int64_t first, RandomStream stream) {
  draw({.kind = RandomFill::Kind::uniform, .a = -bound, .b = bound}, part, first, stream);
}

void draw_normal(double mean, double stddev, const Array& part, int64_t first,
                 RandomStream stream) {
  draw({.kind = RandomFill::Kind::normal, .a = mean, .b = stddev}, part, first, stream);
}

// Copies numbers computed here into `part`, in its dtype.
void store(const std::vector<double>& values, const Array& part) {
  const Array source = Array::from(values, {part.numel()}).reshape(part.shape());
  core::backend(part.device()).run(core::call::Copy{source.to(part.device()), part});
}

// A recipe of indices: element i is f(i).
template <class F>
void store_each(const Array& part, int64_t first, F&& f) {
  std::vector<double> values(static_cast<size_t>(part.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = f(first + static_cast<int64_t>(i));
  store(values, part);
}

// A recipe that must be known whole.
void store_cut(const std::vector<double>& whole, const Array& part, int64_t first) {
  const auto begin = whole.begin() + first;
  store(std::vector<double>(begin, begin + part.numel()), part);
}

// x with erf(x) = y: Giles' single precision formula (GPU Computing Gems 2, 2011), then two steps
// of Newton's method.
double inverse_erf(double y) {
  static constexpr double kMiddle[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                       -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                       -0.00417768164,  0.246640727,    1.50140941};
  static constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                     -0.00367342844,  0.00573950773,  -0.0076224613,
                                     0.00943887047,   1.00167406,     2.83297682};
  const double w = -std::log((1.0 - y) * (1.0 + y));
  const bool tail = w >= 5.0;
  const double t = tail ? std::sqrt(w) - 3.0 : w - 2.5;
  double x = 0.0;
  for (const double c : tail ? kTail : kMiddle) x = x * t + c;
  x *= y;
  for (int step = 0; step < 2; ++step) {
    x -= (math::erf(x) - y) * 0.5 * std::sqrt(std::acos(-1.0)) * std::exp(x * x);
  }
  return x;
}

double normal_cdf(double x) { return 0.5 * math::erfc(-x / std::sqrt(2.0)); }

}  // namespace

void fill_part(const Init& init, const Array& part, const Shape& whole, int64_t first,
               RandomStream stream) {
  check(part.is_contiguous(), "fill_part: the part has gaps: shape ", part.shape(), ", strides ",
        part.strides());
  check(first >= 0 && first + part.numel() <= whole.numel(), "fill_part: elements ", first, " to ",
        first + part.numel(), " lie outside ", whole);
  if (part.numel() == 0 || part.device().type == DeviceType::meta) return;
  init.fill(part, whole, first, stream);
}

void fill_part(const Init& init, const Array& part, const Shape& whole,
               const std::vector<Box>& boxes, int64_t first, RandomStream stream) {
  if (boxes.empty()) return fill_part(init, part, whole, first, stream);
  check(part.is_contiguous(), "fill_part: the part has gaps: shape ", part.shape(), ", strides ",
        part.strides());
  const Array flat = part.reshape({part.numel()});
  layout::Runs runs(whole, boxes, first, part.numel());
  for (layout::Run run; runs.next(run);) {
    fill_part(init, flat.slice(0, run.part, run.part + run.count), whole, run.whole, stream);
  }
}

namespace init {

double calculate_gain(GainOf nonlinearity, double param) {
  switch (nonlinearity) {
    case GainOf::linear:
    case GainOf::sigmoid:
      return 1.0;
    case GainOf::tanh:
      return 5.0 / 3.0;
    case GainOf::relu:
      return std::sqrt(2.0);
    case GainOf::leaky_relu:
      return std::sqrt(2.0 / (1.0 + param * param));
    case GainOf::selu:
      return 0.75;
  }
  fail("calculate_gain: unknown nonlinearity");
}

Fans calculate_fans(const Shape& shape) {
  check(shape.size() >= 2, "init: fan in and fan out need two dimensions or more, got ", shape);
  int64_t field = 1;
  for (int i = 2; i < shape.size(); ++i) field *= shape[i];
  return {shape[1] * field, shape[0] * field};
}

Init constant(double value) {
  return {[value](const Array& part, const Shape&, int64_t, RandomStream) {
    core::backend(part.device()).run(core::call::Fill{part, Scalar(value)});
  }};
}

Init zeros() { return constant(0.0); }
Init ones() { return constant(1.0); }

Init uniform(double low, double high) {
  check(low <= high, "init::uniform: no number lies in [", low, ", ", high, ")");
  return {[low, high](const Array& part, const Shape&, int64_t first, RandomStream stream) {
    draw({.kind = RandomFill::Kind::uniform, .a = low, .b = high}, part, first, stream);
  }};
}

Init normal(double mean, double stddev) {
  check(stddev >= 0.0, "init::normal: deviation ", stddev, " is negative");
  return {[mean, stddev](const Array& part, const Shape&, int64_t first, RandomStream stream) {
    draw_normal(mean, stddev, part, first, stream);
  }};
}

Init trunc_normal(double mean, double stddev, double low, double high) {
  check(stddev > 0.0 && low < high, "init::trunc_normal: deviation ", stddev, " in [", low, ", ",
        high, "]; both must be positive");
  return {[=](const Array& part, const Shape&, int64_t first, RandomStream stream) {
    const double from = normal_cdf((low - mean) / stddev);
    const double to = normal_cdf((high - mean) / stddev);
    std::vector<double> u(static_cast<size_t>(part.numel()));
    fill_uniform(u, stream, first, 2.0 * from - 1.0, 2.0 * to - 1.0);
    for (double& x : u) {
      x = std::fmin(std::fmax(mean + stddev * std::sqrt(2.0) * inverse_erf(x), low), high);
    }
    store(u, part);
  }};
}

Init xavier_uniform(double gain) {
  return {[gain](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    const Fans fans = calculate_fans(whole);
    draw_uniform(gain * std::sqrt(6.0 / static_cast<double>(fans.in + fans.out)), part, first,
                 stream);
  }};
}

Init xavier_normal(double gain) {
  return {[gain](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    const Fans fans = calculate_fans(whole);
    draw_normal(0.0, gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out)), part, first,
                stream);
  }};
}

namespace {
double kaiming_deviation(const KaimingOptions& options, const Shape& whole) {
  const Fans fans = calculate_fans(whole);
  const int64_t fan = options.mode == FanMode::fan_in ? fans.in : fans.out;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(fan));
}
}  // namespace

Init kaiming_uniform(const KaimingOptions& options) {
  return {[options](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    draw_uniform(std::sqrt(3.0) * kaiming_deviation(options, whole), part, first, stream);
  }};
}

Init kaiming_normal(const KaimingOptions& options) {
  return {[options](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    draw_normal(0.0, kaiming_deviation(options, whole), part, first, stream);
  }};
}

Init uniform_fan(int64_t fan_in) {
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
  return uniform(-bound, bound);
}

Init orthogonal(double gain) {
  return {[gain](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    check(whole.size() >= 2, "init::orthogonal: needs two dimensions or more, got ", whole);
    const int64_t rows = whole[0], columns = whole.numel() / rows;
    const int64_t tall = std::max(rows, columns), wide = std::min(rows, columns);
    Array flat = Array::empty({tall, wide}, kFloat64);
    draw_normal(0.0, 1.0, flat, 0, stream);
    const core::QR qr = core::qr(flat);
    const std::vector<double> q = qr.q.to_vector<double>(), r = qr.r.to_vector<double>();
    std::vector<double> out(q.size());
    for (int64_t i = 0; i < tall; ++i) {
      for (int64_t j = 0; j < wide; ++j) {
        const double sign = r[static_cast<size_t>(j * wide + j)] < 0.0 ? -1.0 : 1.0;
        const int64_t to = rows < columns ? j * tall + i : i * wide + j;
        out[static_cast<size_t>(to)] = gain * sign * q[static_cast<size_t>(i * wide + j)];
      }
    }
    store_cut(out, part, first);
  }};
}

Init eye() {
  return {[](const Array& part, const Shape& whole, int64_t first, RandomStream) {
    check(whole.size() == 2, "init::eye: needs a matrix, got ", whole);
    store_each(part, first, [&](int64_t i) { return i / whole[1] == i % whole[1] ? 1.0 : 0.0; });
  }};
}

Init dirac(int64_t groups) {
  return {[groups](const Array& part, const Shape& whole, int64_t first, RandomStream) {
    check(whole.size() >= 3, "init::dirac: needs a convolution's weight [O, C, K...], got ", whole);
    check(groups > 0 && whole[0] % groups == 0, "init::dirac: ", whole[0],
          " channels do not split into ", groups, " groups");
    const int64_t per_group = whole[0] / groups;
    int64_t field = 1, middle = 0;
    for (int i = 2; i < whole.size(); ++i) {
      middle = middle * whole[i] + whole[i] / 2;
      field *= whole[i];
    }
    store_each(part, first, [&](int64_t i) {
      const int64_t out = i / (whole[1] * field), in = i / field % whole[1];
      return out % per_group == in && i % field == middle ? 1.0 : 0.0;
    });
  }};
}

Init sparse(double sparsity, double stddev) {
  check(sparsity >= 0.0 && sparsity <= 1.0, "init::sparse: sparsity ", sparsity,
        " lies outside [0, 1]");
  return {[=](const Array& part, const Shape& whole, int64_t first, RandomStream stream) {
    check(whole.size() == 2, "init::sparse: needs a matrix, got ", whole);
    const int64_t rows = whole[0], columns = whole[1];
    std::vector<double> out(static_cast<size_t>(whole.numel()));
    fill_normal(out, stream, 0, 0.0, stddev);
    const auto zeros = static_cast<size_t>(std::ceil(sparsity * static_cast<double>(rows)));
    uint64_t seed = 0;
    fill_bits(std::span<uint64_t>(&seed, 1), stream, whole.numel());
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (int64_t column = 0; column < columns; ++column) {
      fill_permutation(order, {seed, static_cast<uint64_t>(column)});
      for (size_t i = 0; i < zeros; ++i) {
        out[static_cast<size_t>(order[i] * columns + column)] = 0.0;
      }
    }
    store_cut(out, part, first);
  }};
}

const Tensor& fill_(const Tensor& x, const Init& recipe) {
  const NoGrad no_grad;
  const Array values = Array::empty(x.shape(), x.dtype(), x.device());
  fill_part(recipe, values, x.shape(), 0, default_generator().next());
  return x.copy_(Tensor(values));
}

}  // namespace init

}  // namespace hero::nn
