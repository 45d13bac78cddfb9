// Operations where a replay of PyTorch's table of operations found something.
#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring, Catch::Matchers::WithinRel;
using namespace hero;

namespace {

const TensorOptions kDouble{.dtype = kFloat64};

Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(); }

// The gradient of sum(y), a function of x.
template <class F>
Tensor slope(const Tensor& x, const F& f) {
  const Tensor at = leaf(x);
  sum(f(at)).backward();
  return at.grad();
}

bool near(const Tensor& a, const Tensor& b, double rtol = 1e-12) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && allclose(a, b, rtol, 1e-300);
}

}  // namespace

TEST_CASE("index_reduce takes single numbers") {
  for (const Tensor& index : {tensor({0}), tensor(0)}) {
    const Tensor found =
        index_reduce(tensor(2.0, kDouble), 0, index, tensor(5.0, kDouble), ScatterReduce::prod);
    CHECK(found.equal(tensor(10.0, kDouble)));
  }
  const Tensor rows =
      index_reduce(ones({3, 2}), 0, tensor(1), full({1, 2}, 4.0), ScatterReduce::mean, false);
  CHECK(rows.equal(tensor({{1.0, 1.0}, {4.0, 4.0}, {1.0, 1.0}})));
}

TEST_CASE("cov and corrcoef of one variable are numbers, and weights count in their own dtype") {
  const Tensor x = tensor({{1.0, 2.0, 4.0}}, kDouble);
  CHECK(near(cov(x), tensor(7.0 / 3.0, kDouble)));
  CHECK(corrcoef(x).equal(tensor(1.0, kDouble)));
  const Tensor weights = tensor({0.5, 0.25, 0.125});
  const CovOptions options{.aweights = weights};
  CHECK(cov(x.to(kFloat16), options).dtype() == kFloat32);
  CHECK(cov(x, options).dtype() == kFloat64);
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    const Tensor w = leaf(weights.to(dtype));
    cov(x.to(dtype), {.aweights = w}).backward();
    CHECK(w.grad().defined());
  }
  CHECK_THROWS_WITH(cov(x, {.aweights = -weights}), ContainsSubstring("aweights is negative"));
  CHECK_THROWS_WITH(cov(x, {.fweights = tensor({1, -1, 2})}),
                    ContainsSubstring("fweights is negative"));
}

TEST_CASE("mvlgamma_ and renorm_ have the gradients of their counterparts") {
  const Tensor x = tensor({{3.0, 4.0}, {2.5, 7.0}}, kDouble);
  CHECK(near(slope(x, [](const Tensor& a) { return (a * 1.0).mvlgamma_(3); }),
             slope(x, [](const Tensor& a) { return multigammaln(a * 1.0, 3); })));
  CHECK(near(slope(x, [](const Tensor& a) { return (a * 1.0).renorm_(2.0, 0, 0.5); }),
             slope(x, [](const Tensor& a) { return renorm(a * 1.0, 2.0, 0, 0.5); })));
}

TEST_CASE("NaN is no negative variance, and a matrix of NaN has no sign") {
  const double nan = std::nan("");
  const Tensor loss =
      gaussian_nll_loss(ones({2}), ones({2}), tensor({nan, 1.0}), {.reduction = Reduction::none});
  CHECK(std::isnan(loss[0].item()));
  CHECK(loss[1].item() == 0.0);
  CHECK(std::isnan(slogdet(full({2, 2}, nan, kFloat64)).sign.item()));
  CHECK(slogdet(-eye(3, kFloat64)).sign.item() == -1.0);
  CHECK(slogdet(zeros({2, 2}, kFloat64)).sign.item() == 0.0);
}

TEST_CASE("unravel_index gives int64, and numbers of dimensions and classes are checked") {
  for (const DType dtype : {kUInt8, kInt32, kInt64}) {
    const auto places = unravel_index(tensor({7, 11}).to(dtype), {3, 4});
    CHECK(places[0].equal(tensor({1, 2})));
    CHECK(places[1].equal(tensor({3, 3})));
  }
  CHECK(flatten(tensor(1.0), 0, -1).shape() == Shape{1});
  CHECK_THROWS_WITH(flatten(tensor(1.0), 1, -1), ContainsSubstring("flatten"));
  CHECK_THROWS_WITH(one_hot(tensor({0}), -2), ContainsSubstring("negative number of classes"));
}

TEST_CASE("lstsq with fewer equations than unknowns finds the shortest solution") {
  const Tensor a = tensor({{1.0, 2.0, 3.0}, {0.0, 1.0, -1.0}}, kDouble);
  const Tensor b = tensor({{1.0}, {2.0}}, kDouble);
  const Tensor x = lstsq(a, b);
  CHECK(near(matmul(a, x), b));
  CHECK(near(x, matmul(pinv(a), b), 1e-10));
  CHECK(near(lstsq(a, b.select(1, 0)), x.select(1, 0)));
  const Tensor batch = stack({a, a * 2.0});
  CHECK(lstsq(batch, b).shape() == Shape{2, 3, 1});
  CHECK(gradcheck([](const auto& in) { return lstsq(in[0], in[1]); }, {leaf(a), leaf(b)}));
}

TEST_CASE("reflections may have fewer rows than the matrix has columns") {
  const Tensor a = tensor({{0.3, 9.0, 9.0}, {0.5, 0.7, 9.0}}, kDouble);
  const Tensor tau = tensor({1.2, 0.4}, kDouble), other = eye(2, kFloat64);
  CHECK(ormqr(a, tau, other).equal(ormqr(a.narrow(1, 0, 2), tau, other)));
  CHECK_THROWS_WITH(householder_product(a, tau), ContainsSubstring("as many rows as columns"));
}

TEST_CASE("addr promotes") {
  const Tensor found = addr(ones({2, 2}, kInt32), tensor({1, 2}), tensor({0.5, 1.5}));
  CHECK(found.equal(tensor({{1.5, 2.5}, {2.0, 4.0}})));
}

TEST_CASE("functions of two tensors that are made of several compute in their common dtype") {
  const Tensor one = tensor(1.0, kDouble);
  CHECK(near(xlog1py(one, tensor(true)), tensor(std::log(2.0), kDouble), 1e-15));
  CHECK(xlog1py(tensor({1.0, 2.0}), one).dtype() == kFloat32);
  CHECK(ldexp(one, tensor(600)).item() == std::ldexp(1.0, 600));
  CHECK(ldexp(tensor({1.0}, kDouble), tensor({600})).item() == std::ldexp(1.0, 600));
}

TEST_CASE("small gradients of logaddexp and sinc keep their digits") {
  const Tensor low = leaf(tensor({-30.0f}));
  logaddexp(tensor({0.0f}), low).backward();
  CHECK_THAT(low.grad().item(), WithinRel(std::exp(-30.0), 1e-6));
  const auto f = [](const Tensor& x) { return sinc(x); };
  for (const double x : {1e-30, 1e-12, 1e-4, 0.1, 0.1249}) {
    // The slope is -pi^2 x / 3 + pi^4 x^3 / 30 - ..
    double expected = 0.0, power = x;
    for (int k = 1; k < 12; ++k) {
      const double share = 2.0 * k * std::pow(M_PI, 2 * k) / std::tgamma(2.0 * k + 2.0) * power;
      expected += k % 2 == 1 ? -share : share;
      power *= x * x;
    }
    CHECK_THAT(slope(tensor({x}, kDouble), f).item(), WithinRel(expected, 1e-12));
    CHECK_THAT(slope(tensor({x}), f).item(), WithinRel(expected, 1e-5));
  }
  CHECK(gradcheck([](const auto& in) { return sinc(in[0]); },
                  {leaf(tensor({0.0, 0.2, 0.3, -0.7, 2.5}, kDouble))}));
}

TEST_CASE("the mantissa of a subnormal number has a finite gradient, nextafter has that of x") {
  const double tiny = 0x1p-140;
  CHECK(slope(tensor({tiny}) * 1.0, [](const Tensor& x) {
          return frexp(x).mantissa * 0x1p-60;
        }).item() == 0x1p79);
  const Tensor a = leaf(tensor({1.0, 2.0, 5.0})), b = leaf(tensor({3.0, 1.0, 5.0}));
  sum(nextafter(a, b)).backward();
  CHECK(a.grad().equal(tensor({1.0, 1.0, 0.0})));
  CHECK(b.grad().equal(zeros({3})));
}

TEST_CASE("numbers stand in front of tensors") {
  const Tensor x = tensor({6, 3});
  CHECK(bitwise_and(5, x).equal(tensor({4, 1})));
  CHECK(bitwise_or(5, x).equal(tensor({7, 7})));
  CHECK(bitwise_xor(5, x).equal(tensor({3, 6})));
  CHECK(bitwise_left_shift(1, x).equal(tensor({64, 8})));
  CHECK(bitwise_right_shift(64, x).equal(tensor({1, 8})));
  CHECK(float_power(2, x).equal(tensor({64.0, 8.0}, kDouble)));
  CHECK(div(7, tensor({2, -2}), Rounding::floor).equal(tensor({3, -4})));
  CHECK(div(7, tensor({2, -2}), Rounding::trunc).equal(tensor({3, -3})));
  CHECK(near(xlog1py(2.0, tensor({1.0}, kDouble)), tensor({2.0 * std::log(2.0)}, kDouble), 1e-15));
  CHECK(near(xlog1py(tensor({2.0}, kDouble), 1), tensor({2.0 * std::log(2.0)}, kDouble), 1e-15));
}

TEST_CASE("members in place take what their functions take") {
  CHECK(tensor({7, -7}).div_(tensor({2, 2}), Rounding::floor).equal(tensor({3, -4})));
  CHECK(tensor({7, -7}).div_(2, Rounding::trunc).equal(tensor({3, -3})));
  CHECK(tensor({7.0, 8.0}).sub_(tensor({1.0, 2.0}), 2).equal(tensor({5.0, 4.0})));
  CHECK(tensor({1.25, 8.14}).round_(1).equal(round(tensor({1.25, 8.14}), 1)));
  CHECK(tensor({1.0, -2.0}).copysign_(-1).equal(tensor({-1.0, -2.0})));
  CHECK(zeros({1, 2, 1, 1}).squeeze_(std::vector<int64_t>{0, -1}).shape() == Shape{2, 1});
}

TEST_CASE("hsplit, vsplit and dsplit cut at indices, diff has values before and behind") {
  const Tensor x = arange(24).reshape({2, 3, 4});
  const auto columns = hsplit(x, std::vector<int64_t>{1});
  CHECK(columns.size() == 2);
  CHECK(columns[1].equal(x.narrow(1, 1, 2)));
  CHECK(vsplit(x, std::vector<int64_t>{1})[0].equal(x.narrow(0, 0, 1)));
  CHECK(dsplit(x, std::vector<int64_t>{1, 3})[1].equal(x.narrow(2, 1, 2)));
  CHECK(hsplit(arange(4), std::vector<int64_t>{3})[1].equal(tensor({3})));
  CHECK_THROWS_WITH(dsplit(x[0], std::vector<int64_t>{1}), ContainsSubstring("3 dimensions"));
  const Tensor y = tensor({1, 4, 9});
  CHECK(diff(y, 1, 0, tensor({0}), tensor({16, 25})).equal(tensor({1, 3, 5, 7, 9})));
  CHECK(diff(y, 2, 0, {}, tensor({16})).equal(tensor({2, 2})));
}

TEST_CASE("functions of infinities have their limits") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({inf, -inf}, kDouble), up = tensor(inf, kDouble);
  CHECK(i0(x).equal(tensor({inf, inf}, kDouble)));
  CHECK(i1(x).equal(x));
  for (const auto f : {bessel_j0, bessel_j1}) CHECK(f(x).equal(tensor({0.0, 0.0}, kDouble)));
  for (const auto f : {bessel_y0, bessel_y1}) CHECK(f(up).item() == 0.0);
  CHECK(polygamma(2, up).item() == 0.0);
  CHECK(zeta(up, tensor(3.0, kDouble)).item() == 0.0);
  CHECK(var_mean(tensor({1.0, inf}, kDouble)).mean.item() == inf);
  CHECK(std_mean(tensor({1.0, -inf}, kDouble)).mean.item() == -inf);
}

TEST_CASE("Bessel functions have their double-precision values") {
  CHECK_THAT(bessel_j0(tensor(3.0, kDouble)).item(), WithinRel(-0.2600519549019334, 1e-14));
  CHECK_THAT(bessel_j0(tensor(8.0, kDouble)).item(), WithinRel(0.17165080713755390, 1e-14));
}

TEST_CASE("no integers have no median") {
  CHECK_THROWS_WITH(median(zeros({0}, kInt64)), ContainsSubstring("no median of int64"));
  CHECK(std::isnan(median(zeros({0})).item()));
}

TEST_CASE("norms refuse a negative eps") {
  const Tensor x = ones({2, 4});
  CHECK_THROWS_WITH(layer_norm(x, {4}, {}, {}, -0.5),
                    ContainsSubstring("eps must not be negative"));
  CHECK_THROWS_WITH(group_norm(x, 2, {}, {}, -0.5), ContainsSubstring("eps must not be negative"));
  CHECK_THROWS_WITH(rms_norm(x, {}, -0.5), ContainsSubstring("eps must not be negative"));
}

TEST_CASE("singular values up to atol do not count") {
  const Tensor a = tensor({{4.0, 0.0}, {0.0, 0.5}}, kDouble);
  CHECK(matrix_rank(a).item<int64_t>() == 2);
  CHECK(matrix_rank(a, {}, 0.5).item<int64_t>() == 1);
  CHECK(matrix_rank(a, 0.2, 0.1).item<int64_t>() == 1);
  CHECK(near(pinv(a, {}, 1.0), tensor({{0.25, 0.0}, {0.0, 0.0}}, kDouble)));
}

TEST_CASE("index_copy spreads no single number") {
  const Tensor five = tensor(5.0);
  CHECK(index_copy(zeros({3}), 0, tensor({1}), five).equal(tensor({0.0, 5.0, 0.0})));
  CHECK(index_copy(zeros({}), 0, tensor({0}), five).equal(five));
  CHECK_THROWS_WITH(index_copy(zeros({3, 2}), 0, tensor({1}), five), ContainsSubstring("does not"));
  CHECK_THROWS_WITH(index_copy(zeros({3}), 0, tensor({1, 2}), five), ContainsSubstring("does not"));
  CHECK(index_fill(zeros({2, 2}), 1, tensor({1}), five).equal(tensor({{0.0, 5.0}, {0.0, 5.0}})));
  CHECK(index_fill(zeros({}), 0, tensor({0, 0}), five).equal(five));
}
