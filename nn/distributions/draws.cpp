#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/kernels/math_double.h>
#include <hero/core/kernels/philox.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/distributions/draws.h>
#include <hero/nn/distributions/element_ops.h>
#include <hero/nn/distributions/quantile_slopes.h>

namespace hero::distributions {

namespace {

// The random numbers of one element: those of the blocks i, i + 2^48, i + 2 * 2^48, ..
class Numbers {
 public:
  Numbers(RandomStream stream, int64_t element)
      : stream_(stream), index_(static_cast<uint64_t>(element)) {}

  /// In (0, 1], in steps of 2^-53.
  double uniform() {
    if (at_ == 4) {
      block_ = philox::block(stream_.key, stream_.id, index_);
      index_ += uint64_t{1} << 48;
      at_ = 0;
    }
    at_ += 2;
    return philox::positive53(block_.word[at_ - 2], block_.word[at_ - 1]);
  }
  double normal() {
    const double u = uniform();
    return philox::box_muller(u, uniform() - 0x1p-53).first;
  }

 private:
  RandomStream stream_;
  uint64_t index_;
  philox::Block block_{};
  int at_ = 4;
};

// The logarithm of a draw. Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000; for a < 1 a draw for a + 1 times u^(1 / a), which logarithms keep from underflowing.
double log_gamma_draw(double a, Numbers numbers) {
  const bool small = a < 1.0;
  const double boost = small ? std::log(numbers.uniform()) / a : 0.0;
  const double d = (small ? a + 1.0 : a) - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = numbers.normal(), root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double u = numbers.uniform(), x2 = x * x, v = root * root * root;
    if (u < 1.0 - 0.0331 * x2 * x2 || std::log(u) < 0.5 * x2 + d * (1.0 - v + std::log(v))) {
      return std::log(d * v) + boost;
    }
  }
}

// The hat of Hoermann's transformed rejection (PTRS, "The transformed rejection method for
// generating Poisson random variables", 1993, and BTRS for the binomial distribution): a candidate
// around `middle`, and whether it lies where it is always accepted.
struct Hat {
  double a, b, middle, inner;
  double k = 0.0, slack = 0.0;  // of the latest candidate

  // True when it is accepted at once; else `slack` is what its log probability has to exceed, minus
  // log(alpha).
  bool draw(Numbers& numbers) {
    const double u = numbers.uniform() - 0.5, v = numbers.uniform(), us = 0.5 - std::fabs(u);
    k = std::floor((2.0 * a / us + b) * u + middle);
    if (us >= 0.07 && v <= inner) return true;
    slack = us <= 0.0 || (us < 0.013 && v > us) ? HUGE_VAL : std::log(v / (a / (us * us) + b));
    return false;
  }
};

double poisson_draw(double rate, Numbers numbers) {
  if (!(rate < HUGE_VAL)) return rate;
  if (rate < 10.0) {  // the first k at whose end the sum of probabilities exceeds a number
    double rest = numbers.uniform(), p = std::exp(-rate), k = 0.0;
    for (; rest > p && k < 200.0; p *= rate / k) {
      rest -= p;
      k += 1.0;
    }
    return k;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), log_rate = std::log(rate);
  const double log_alpha = std::log(1.1239 + 1.1328 / (b - 3.4));
  Hat hat{-0.059 + 0.02483 * b, b, rate + 0.43, 0.9277 - 3.6224 / (b - 2.0)};
  for (;;) {
    if (hat.draw(numbers)) return hat.k;
    if (hat.k < 0.0) continue;
    if (hat.slack + log_alpha <= hat.k * log_rate - rate - math::lgamma(hat.k + 1.0)) return hat.k;
  }
}

// For p <= 1/2.
double few_of(double n, double p, Numbers& numbers) {
  const double ratio = p / (1.0 - p);
  if (n * p < 10.0) {
    double rest = numbers.uniform(), part = std::exp(n * std::log1p(-p)), k = 0.0;
    for (; rest > part && k < n && k < 200.0; part *= ratio * (n - k + 1.0) / k) {
      rest -= part;
      k += 1.0;
    }
    return k;
  }
  const double deviation = std::sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * deviation;
  const double log_alpha = std::log((2.83 + 5.1 / b) * deviation), log_ratio = std::log(ratio);
  const double mode = std::floor((n + 1.0) * p);
  const double most = math::lgamma(mode + 1.0) + math::lgamma(n - mode + 1.0);
  Hat hat{-0.0873 + 0.0248 * b + 0.01 * p, b, n * p + 0.5, 0.92 - 4.2 / b};
  for (;;) {
    const bool inner = hat.draw(numbers);
    if (hat.k < 0.0 || hat.k > n) continue;
    if (inner) return hat.k;
    const double others = math::lgamma(hat.k + 1.0) + math::lgamma(n - hat.k + 1.0);
    if (hat.slack + log_alpha <= most - others + (hat.k - mode) * log_ratio) return hat.k;
  }
}

double binomial_draw(double n, double p, Numbers& numbers) {
  return p <= 0.5 ? few_of(n, p, numbers) : n - few_of(n, 1.0 - p, numbers);
}

// Best and Fisher, "Efficient simulation of the von Mises distribution", 1979: rejection from a
// wrapped Cauchy distribution. Where their rho loses its digits the angle is uniform, or nearly
// normal.
double von_mises_draw(double kappa, Numbers numbers) {
  if (!(kappa < HUGE_VAL)) return kappa - kappa;
  const double tau = 1.0 + std::sqrt(1.0 + 4.0 * kappa * kappa);
  const double rho = (tau - std::sqrt(2.0 * tau)) / (2.0 * kappa);
  const double r = kappa < 1e-5 ? 1.0 / kappa + kappa : (1.0 + rho * rho) / (2.0 * rho);
  if (kappa > 1e8) return numbers.normal() / std::sqrt(kappa);
  for (;;) {
    const double z = std::cos(std::numbers::pi * numbers.uniform());
    const double f = (1.0 + r * z) / (r + z), c = kappa * (r - f), u = numbers.uniform();
    if (c * (2.0 - c) > u || std::log(c / u) + 1.0 >= c) {
      const double angle = std::acos(std::clamp(f, -1.0, 1.0));
      return numbers.uniform() <= 0.5 ? -angle : angle;
    }
  }
}

// f(parameters .., numbers of the element) of each element.
template <class F, class... In>
Array drawn(const F& f, const In&... parameters) {
  const RandomStream stream = default_generator().next();
  return each_element([=](int64_t i, auto... values) { return f(values..., Numbers(stream, i)); },
                      parameters...);
}

// The shared part of operations whose derivative is computed as plain numbers.
struct DrawOp : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1, kSaveOutputs = 1;
  const char* name() const override { return "rsample"; }
};

struct LogGammaDraws : DrawOp {
  Array forward(const Array& concentration) { return drawn(log_gamma_draw, concentration); }
  Grads backward(const Tensor& g) override {
    once_only("rsample");
    return {g * Tensor(each_element([](int64_t, double a, double x) { return gamma_slope(a, x); },
                                    input(0).array(), output().array()))};
  }
};

// Parts of a sum of gamma draws. The gradient is that of PyTorch (Jankowiak and Obermeyer,
// "Pathwise derivatives beyond the reparameterization trick", 2018): a part moves with its
// parameter as the beta distribution that it has by itself says, and the others shrink in
// proportion.
struct DirichletDraws : DrawOp {
  Array forward(const Array& concentration) {
    const NoGrad no_grad;
    const Tensor parts = softmax(Tensor(drawn(log_gamma_draw, concentration)), -1);
    return clamp(parts, std::numeric_limits<double>::min(), 1.0).array();
  }
  Grads backward(const Tensor& g) override {
    once_only("rsample");
    const Tensor a = input(0), x = output();
    const Tensor rest = sum(a, {-1}, true) - a;
    const Tensor slope(each_element(
        [](int64_t, double one, double others, double part) {
          return others > 0.0 ? part * beta_slope(one, others, part, 1.0 - part) : 0.0;
        },
        a.array(), expand(rest, a.shape()).array(), x.array()));
    return {slope * (g - sum(x * g, {-1}, true))};
  }
};

struct GammaCdf : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 3;
  const char* name() const override { return "gamma_cdf"; }
  Array forward(const Array& a, const Array& x) {
    return each_element(
        [](int64_t, double shape, double at) {
          return at > 0.0 ? gamma_below(shape, std::log(at)) : (at != at ? at : 0.0);
        },
        a, x);
  }
  Grads backward(const Tensor& g) override {
    once_only("cdf");
    const Array a = input(0).array(), x = input(1).array();
    const auto density = [](int64_t, double shape, double at) {
      return at > 0.0 ? gamma_weight(shape, std::log(at)) / at : 0.0;
    };
    const auto by_shape = [](int64_t, double shape, double at) {
      if (!(at > 0.0)) return 0.0;
      return -gamma_weight(shape, std::log(at)) * gamma_slope(shape, std::log(at));
    };
    return {needs(0) ? g * Tensor(each_element(by_shape, a, x)) : Tensor(),
            needs(1) ? g * Tensor(each_element(density, a, x)) : Tensor()};
  }
};

}  // namespace

Tensor log_gamma_draws(const Tensor& concentration) {
  return record(LogGammaDraws{}, concentration.to(kFloat64).contiguous());
}

Tensor dirichlet_draws(const Tensor& concentration) {
  return record(DirichletDraws{}, concentration.to(kFloat64).contiguous());
}

Tensor poisson_draws(const Tensor& rate) {
  return Tensor(drawn(poisson_draw, rate.array())).to(rate.dtype());
}

Tensor binomial_draws(const Tensor& count, const Tensor& probs) {
  const auto draw = [](double n, double p, Numbers numbers) {
    return binomial_draw(n, p, numbers);
  };
  return Tensor(drawn(draw, count.array(), probs.array())).to(probs.dtype());
}

Tensor von_mises_draws(const Tensor& concentration) {
  return Tensor(drawn(von_mises_draw, concentration.array())).to(concentration.dtype());
}

// One category after the other, of the draws that the ones before have left.
Tensor multinomial_draws(int64_t count, const Tensor& probs) {
  const RandomStream stream = default_generator().next();
  if (probs.device().type == DeviceType::meta) return zeros_like(probs);
  const Array p = host_doubles(probs.array()), out = Array::empty(probs.shape(), kFloat64);
  const int64_t width = probs.size(-1), rows = probs.numel() / std::max<int64_t>(width, 1);
  parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> tail(static_cast<size_t>(width));
    for (int64_t row = begin; row < end; ++row) {
      const double* from = p.data<double>() + row * width;
      double* to = out.data<double>() + row * width;
      double sum = 0.0, left = static_cast<double>(count);
      for (int64_t k = width; k-- > 0;) tail[static_cast<size_t>(k)] = sum += from[k];
      Numbers numbers(stream, row);
      for (int64_t k = 0; k < width; ++k) {
        const double share = from[k] > 0.0 ? from[k] / tail[static_cast<size_t>(k)] : 0.0;
        to[k] = binomial_draw(left, std::min(share, 1.0), numbers);
        left -= to[k];
      }
    }
  });
  return Tensor(out.to(probs.dtype()).to(probs.device()));
}

Tensor gamma_cdf(const Tensor& concentration, const Tensor& x) {
  const Shape shape = broadcast_shapes("cdf", concentration.shape(), x.shape());
  return record(GammaCdf{}, expand(concentration.to(kFloat64), shape),
                expand(x.to(kFloat64), shape));
}

}  // namespace hero::distributions
