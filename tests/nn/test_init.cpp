#include <cmath>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/init.h>

using namespace hero;
namespace init = hero::nn::init;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using hero::test::same;

namespace {

struct Moments {
  double mean = 0.0, stddev = 0.0, low = 0.0, high = 0.0;
};

Moments moments(const Tensor& x) {
  const std::vector<double> v = x.to_vector<double>();
  Moments m{0.0, 0.0, v[0], v[0]};
  for (const double e : v) {
    m.mean += e / static_cast<double>(v.size());
    m.low = std::min(m.low, e);
    m.high = std::max(m.high, e);
  }
  for (const double e : v) m.stddev += (e - m.mean) * (e - m.mean) / static_cast<double>(v.size());
  m.stddev = std::sqrt(m.stddev);
  return m;
}

}  // namespace

TEST_CASE("initialisers have PyTorch's bounds and deviations") {
  manual_seed(5);
  const Tensor w = empty({300, 200});
  // 60000 draws: the deviation of a mean is 1/245 of theirs, four of those are allowed; that of a
  // deviation is smaller
  const auto uniform_in = [&](double bound) {
    const Moments m = moments(w);
    CHECK_THAT(m.mean, WithinAbs(0.0, 0.0163 * bound));
    CHECK_THAT(m.stddev, WithinAbs(bound / std::sqrt(3.0), 0.0163 * bound));
    CHECK(m.low >= -bound);
    CHECK(m.high < bound);
    CHECK(m.high > 0.99 * bound);
  };
  const auto normal_of = [&](double stddev) {
    const Moments m = moments(w);
    CHECK_THAT(m.mean, WithinAbs(0.0, 0.0163 * stddev));
    CHECK_THAT(m.stddev, WithinAbs(stddev, 0.0163 * stddev));
    CHECK(m.high > 3.0 * stddev);
  };
  init::kaiming_uniform_(w, {.a = std::sqrt(5.0)});
  uniform_in(1.0 / std::sqrt(200.0));
  init::kaiming_uniform_(w, {.mode = init::FanMode::fan_out, .nonlinearity = init::GainOf::relu});
  uniform_in(std::sqrt(6.0 / 300.0));
  init::xavier_uniform_(w, 2.0);
  uniform_in(2.0 * std::sqrt(6.0 / 500.0));
  init::kaiming_normal_(w, {.nonlinearity = init::GainOf::relu});
  normal_of(std::sqrt(2.0 / 200.0));
  init::xavier_normal_(w);
  normal_of(std::sqrt(2.0 / 500.0));
  init::normal_(w, 0.0, 0.02);
  normal_of(0.02);
  init::trunc_normal_(w, 1.0, 0.5, 0.0, 2.0);
  const Moments m = moments(w);
  CHECK(m.low >= 0.0);
  CHECK(m.high <= 2.0);
  CHECK_THAT(m.mean, WithinAbs(1.0, 0.01));
  // a standard normal cut at two deviations has the deviation 0.8796
  CHECK_THAT(m.stddev, WithinAbs(0.5 * 0.8796, 0.005));
  CHECK(init::calculate_fans({8, 4, 3, 3}).in == 36);
  CHECK(init::calculate_fans({8, 4, 3, 3}).out == 72);
  CHECK_THROWS_WITH(init::xavier_uniform_(empty({3})), ContainsSubstring("two dimensions"));
}

TEST_CASE("orthogonal matrices are orthonormal in their shorter direction") {
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}, Shape{4, 2, 3}}) {
    const Tensor w = empty(shape, {.dtype = kFloat64});
    init::orthogonal_(w, 2.0);
    const Tensor flat = w.reshape({shape[0], -1});
    const Tensor gram =
        flat.size(0) <= flat.size(1) ? matmul(flat, flat.t()) : matmul(flat.t(), flat);
    // products of a dozen float64 terms
    CHECK(allclose(gram, eye(gram.size(0), {.dtype = kFloat64}) * 4.0, 1e-13, 1e-13));
  }
}

TEST_CASE("identities and sparse matrices") {
  const Tensor w = empty({3, 4});
  init::eye_(w);
  CHECK(same(w.array(), eye(3, 4).array()));
  const Tensor kernel = empty({4, 2, 3, 3});
  init::dirac_(kernel, 2);
  const Tensor x = randn({1, 4, 5, 5});
  CHECK(same(conv2d(x, kernel, {}, {.padding = {1, 1}, .groups = 2}).array(), x.array()));
  const Tensor thin = empty({10, 6});
  init::sparse_(thin, 0.35);
  const Tensor zeros_per_column = sum(eq(thin, 0.0).to(kInt64), {0});
  CHECK(zeros_per_column.to_vector<int64_t>() == std::vector<int64_t>(6, 4));
}

TEST_CASE("every recipe fills parts with the bits of the whole") {
  const Shape shape{6, 4, 3};
  const RandomStream stream{11, 2};
  for (const nn::Init& recipe :
       {init::constant(2.5), init::uniform(-1, 1), init::normal(1, 2), init::trunc_normal(),
        init::xavier_uniform(), init::kaiming_normal(), init::orthogonal(), init::dirac()}) {
    const Array whole = Array::empty(shape);
    nn::fill_part(recipe, whole, shape, 0, stream);
    for (const int64_t cut : {1, 17, 71}) {
      const Array head = Array::empty({cut}), tail = Array::empty({72 - cut});
      nn::fill_part(recipe, head, shape, 0, stream);
      nn::fill_part(recipe, tail, shape, cut, stream);
      const Array flat = whole.reshape({72});
      CHECK(same(head, flat.slice(0, 0, cut)));
      CHECK(same(tail, flat.slice(0, cut)));
    }
  }
}
