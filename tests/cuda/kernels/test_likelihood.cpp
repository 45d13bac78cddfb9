// Log-likelihoods of classes on the GPU beside the CPU's in float64. Of halves they are float32.
#include <limits>

#include "cuda/close.h"

#include <hero/core/device/backend.h>

using namespace hero;
using namespace hero_test;
using test::make;
using test::noise;

namespace {

struct Likelihood {
  Array out, log_sum;
};

Likelihood likelihood(const Array& x, const Array& classes) {
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Array out = Array::empty(classes.shape(), dtype, x.device());
  const Likelihood result{out, Array::empty({x.size(0), 2}, dtype, x.device())};
  core::backend(x.device()).run(core::call::LogLikelihood{x, classes, result.out, result.log_sum});
  return result;
}

Array classes_of(int64_t rows, int64_t n) {
  return make(
      {rows}, [n](int64_t i) { return (i * 7919 + n - 1) % n; }, kInt64);
}

// The exponentials of halves are good to 2^-21 each, which the sum of many only improves; what is
// added up is rounded as float32.
double allowed_of(DType dtype) { return dtype == kFloat64 ? allowed(dtype) : allowed(kFloat32); }

}  // namespace

TEST_CASE("log-likelihoods and their gradients are the CPU's in float64, to rounding") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 1},
                                  {70, 10},
                                  {5, 33},
                                  {3, 256},
                                  {3, 1025},
                                  {2, 5003},
                                  {1, 20000}}) {
      const Array x = noise({rows, n}, dtype), classes = classes_of(rows, n);
      const Array there = x.to(kGpu), classes_there = classes.to(kGpu);
      const Likelihood exact = likelihood(x.to(kFloat64), classes);
      const Likelihood found = likelihood(there, classes_there);
      INFO(name(dtype) << " " << rows << " x " << n);
      // With one class both are x - x.
      CHECK(distance(found.log_sum, exact.log_sum) <= allowed_of(dtype));
      CHECK((n == 1 || distance(found.out, exact.out) <= allowed_of(dtype)));

      const Array g = noise({rows}, found.out.dtype(), 3);
      Array expected = Array::empty({rows, n}, kFloat64);
      core::backend(kCpu).run(core::call::LogLikelihoodBack{g.to(kFloat64), x.to(kFloat64), classes,
                                                            exact.log_sum, expected});
      const Array g_x = there.empty_like();
      core::backend(kGpu).run(
          core::call::LogLikelihoodBack{g.to(kGpu), there, classes_there, found.log_sum, g_x});
      if (n > 1) CHECK(distance(g_x, expected) <= 2 * allowed(dtype));
      // In place of the scores.
      core::backend(kGpu).run(
          core::call::LogLikelihoodBack{g.to(kGpu), there, classes_there, found.log_sum, there});
      CHECK(same_bits(there, g_x.to(kCpu)));
    }
  }
}

TEST_CASE("log-likelihoods of large scores keep the digits of their differences") {
  HERO_NEEDS_GPU();
  for (const double top : {1e4, 1e7}) {
    for (const int64_t n : {4, 3000}) {
      INFO(top << " " << n);
      const Array classes = classes_of(2, n), zeros = Array::zeros({2, n}, kFloat64);
      const Array x = Array::full({2, n}, top, kFloat32, kGpu), g_x = x.empty_like();
      const Likelihood exact = likelihood(zeros, classes), found = likelihood(x, classes.to(kGpu));
      CHECK(distance(found.out, exact.out) <= allowed(kFloat32));
      const Array g = Array::full({2}, 1.0, kFloat64), expected = zeros.empty_like();
      core::backend(kCpu).run(
          core::call::LogLikelihoodBack{g, zeros, classes, exact.log_sum, expected});
      core::backend(kGpu).run(core::call::LogLikelihoodBack{g.to(kFloat32).to(kGpu), x,
                                                            classes.to(kGpu), found.log_sum, g_x});
      CHECK(distance(g_x, expected) <= allowed(kFloat32));
    }
  }
}

TEST_CASE("log-likelihoods of infinities and NaN are the CPU's, and of nothing nothing") {
  HERO_NEEDS_GPU();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatDTypes) {
    for (const int64_t n : {9, 3000}) {
      Array x = noise({5, n}, dtype);
      const double special[] = {kInf, -kInf, std::nan("")};
      for (int row = 0; row < 3; ++row) {
        core::backend(kCpu).run(core::call::Fill{x.select(0, row).slice(0, 4, 5), special[row]});
      }
      core::backend(kCpu).run(core::call::Fill{x.select(0, 3), -kInf});
      const Array classes = classes_of(5, n);
      const Likelihood exact = likelihood(x.to(kFloat64), classes);
      const Likelihood found = likelihood(x.to(kGpu), classes.to(kGpu));
      INFO(name(dtype) << " " << n);
      CHECK(distance(found.log_sum, exact.log_sum) <= allowed_of(dtype));
      CHECK(distance(found.out, exact.out) <= allowed_of(dtype));
    }
  }
  const Array none = Array::empty({0, 7}, kFloat32, kGpu);
  CHECK(likelihood(none, Array::empty({0}, kInt64, kGpu)).out.numel() == 0);
}

TEST_CASE("log-likelihoods have the same bits from call to call, read in packs or not") {
  HERO_NEEDS_GPU();
  const Array x = noise({3, 4096}, kBFloat16), classes = classes_of(3, 4096).to(kGpu);
  const Array there = x.to(kGpu);
  const Array first = likelihood(there, classes).log_sum.to(kCpu);
  CHECK(same_bits(likelihood(there, classes).log_sum, first));
  const Array moved = Array::zeros({3 * 4096 + 1}, kBFloat16, kGpu).slice(0, 1).reshape({3, 4096});
  core::backend(kGpu).run(core::call::Copy{there, moved});
  CHECK(same_bits(likelihood(moved, classes).log_sum, first));
}

TEST_CASE("a likelihood and its gradient in place have the bits of the two operations") {
  HERO_NEEDS_GPU();
  for (const DType dtype : kFloatDTypes) {
    // Teams of a lane, of a warp's part, of a warp and of a block; odd rows; and rows that no
    // multiprocessor holds.
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{300, 5},
                                  {70, 16},
                                  {9, 1001},
                                  {3, 4096},
                                  {2, 9000},
                                  {2, 5003},
                                  {1, 29000},
                                  {1, 120000}}) {
      INFO(name(dtype) << " " << rows << " x " << n);
      const Array x = noise({rows, n}, dtype).to(kGpu), classes = classes_of(rows, n).to(kGpu);
      const Likelihood two = likelihood(x, classes);
      const Array g = noise({rows}, two.out.dtype(), 3).to(kGpu), g_x = x.empty_like();
      core::backend(kGpu).run(core::call::LogLikelihoodBack{g, x, classes, two.log_sum, g_x});

      const Likelihood one{two.out.empty_like(), two.log_sum.empty_like()};
      core::backend(kGpu).run(
          core::call::LogLikelihoodInPlace{g, x, classes, one.out, one.log_sum});
      CHECK(same_bits(one.out, two.out.to(kCpu)));
      CHECK(same_bits(one.log_sum, two.log_sum.to(kCpu)));
      CHECK(same_bits(x, g_x.to(kCpu)));
    }
  }
}
