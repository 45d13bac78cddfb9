#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor doubles(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

Values gradient(Tensor (*f)(const Tensor&), const Tensor& x) {
  return grad(f(x), x).to_vector<double>();
}

}  // namespace

TEST_CASE("the gradient of a product is exact with no, one and several zeros, and twice") {
  const auto product = [](const Tensor& x) { return prod(x); };
  CHECK(gradient(product, doubles({2, 3, 4})) == Values{12, 8, 6});
  CHECK(gradient(product, doubles({2, 0, 4})) == Values{0, 8, 0});
  CHECK(gradient(product, doubles({0, 3, 0})) == Values{0, 0, 0});
  const auto listed = [](const std::vector<Tensor>& x) { return prod(x[0]); };
  for (const Tensor& x : {doubles({2, 0, 4}), doubles({0, 3, 0}), doubles({0, 0, 0, 1})}) {
    CHECK(gradcheck(listed, {x}));
    CHECK(gradgradcheck(listed, {x}));
  }
}

TEST_CASE("the gradient of a running product is exact with zeros, and twice") {
  const auto running = [](const std::vector<Tensor>& x) { return cumprod(x[0], 0); };
  for (const Tensor& x : {doubles({2, 0, 4, 3, 5}), doubles({0, 3, 0, 2}), doubles({0}),
                          doubles({1, 2, 3, 4, 5, 6, 7, 8, 9})}) {
    // The values reach 9!; their second differences lose as many digits.
    CHECK(gradcheck(running, {x}));
    CHECK(gradgradcheck(running, {x}));
  }
}

TEST_CASE("amax and amin share the gradient among equal elements, max by dimension does not") {
  const Tensor x = doubles({3, 1, 3, 1});
  CHECK(grad(amax(x), x).to_vector<double>() == Values{0.5, 0, 0.5, 0});
  CHECK(grad(min(x), x).to_vector<double>() == Values{0, 0.5, 0, 0.5});
  const ValuesIndices largest = max(x, 0);
  CHECK(largest.indices.item<int64_t>() == 0);
  CHECK(grad(largest.values, x).to_vector<double>() == Values{1, 0, 0, 0});
}

TEST_CASE("NaN wins in reductions to the largest and the smallest") {
  const Tensor x = tensor({1.0, std::nan(""), 3.0});
  CHECK(std::isnan(amax(x).item()));
  CHECK(std::isnan(amin(x).item()));
  CHECK(argmax(x).item<int64_t>() == 1);
  CHECK(min(x, 0).indices.item<int64_t>() == 1);
}

TEST_CASE("logsumexp holds for infinities, for large values and for nothing") {
  const Tensor x = doubles({-kInfinity, -kInfinity, 0, -kInfinity, 1000, 1000});
  const Tensor y = logsumexp(reshape(x, {3, 2}), {1});
  CHECK(y.to_vector<double>() == Values{-kInfinity, 0, 1000 + std::log(2.0)});
  const Values g = grad(y, x, {.grad_outputs = {ones_like(y)}}).to_vector<double>();
  CHECK(g[0] == 0);
  CHECK(g[2] == 1);
  CHECK(g[3] == 0);
  // exp(-log 2) from a logarithm of size 1000: 1000 * 2^-53 relative.
  CHECK(std::abs(g[4] - 0.5) < 2e-13);
  CHECK(logsumexp(tensor({kInfinity, 1.0}), {0}).item() == kInfinity);
  CHECK(logsumexp(zeros({2, 0}), {1}).to_vector<double>() == Values{-kInfinity, -kInfinity});
}

TEST_CASE("variance and deviation at their edges") {
  CHECK(std::isnan(var(tensor({5.0})).item()));
  CHECK(var(tensor({5.0}), {.unbiased = false}).item() == 0);
  CHECK(std::isnan(var(zeros({0})).item()));
  const Tensor flat = doubles({2, 2, 2});
  CHECK(grad(hero::std(flat), flat).to_vector<double>() == Values{0, 0, 0});
  CHECK_THROWS_WITH(var(tensor({1, 2})), ContainsSubstring("var: array is int64"));
}

TEST_CASE("norms have their gradient wherever the norm itself is in range") {
  const auto near = [](const Tensor& found, double expected) {
    // Powers of float32 quotients: p roundings of the quotient at most.
    const Tensor wide = found.to(kFloat64);
    return allclose(wide, full_like(wide, expected), 1e-4, 0.0);
  };
  // All n elements are equal, so each derivative is n^(1/p - 1).
  for (const double p : {2.5, 3.0, 4.0, 10.0, 100.0, -1.0, -3.0}) {
    const double expected = std::pow(3.0, 1.0 / p - 1.0);
    for (const double size : {1e-30, 1e-20, 1e-16, 1e-13, 1e-5, 3.0, 1e5, 1e20, 1e37}) {
      // The norm is computed in double, where powers of the elements are in range or it is 0, inf.
      const double power = std::abs(p * std::log10(size));
      INFO("p " << p << ", elements of " << size);
      const Tensor x = full({3}, size, {.dtype = kFloat32}).requires_grad_();
      if (power < 300) CHECK(near(grad(norm(x, p), x), expected));
      const Tensor wide = full({3}, size, {.dtype = kFloat64}).requires_grad_();
      if (power < 290) CHECK(near(grad(norm(wide, p), wide), expected));
    }
  }
  // One large element among small ones: 1 for it, and for the others (small / large)^(p - 1).
  const Tensor mixed =
      tensor({1e-20, 1e18, 0.0, -1e17}, {.dtype = kFloat32, .requires_grad = true});
  const Values g = grad(norm(mixed, 5.0), mixed).to_vector<double>();
  CHECK(g[0] == 0.0);
  CHECK(std::abs(g[1] - 1.0) < 1e-5);  // (1 + 1e-5)^(-4/5)
  CHECK(g[2] == 0.0);
  CHECK(std::abs(g[3] + 1e-4) < 1e-8);
  // Below 1 the smaller element has the larger derivative: (large / small)^(1 - p).
  const Tensor below = tensor({1e-30, 1e20}, {.dtype = kFloat32, .requires_grad = true});
  CHECK(near(grad(norm(below, 0.5), below)[0], 1e25));
  // What is made of norms.
  for (const double size : {1e-13, 3.0, 1e20}) {
    INFO("elements of " << size);
    const Tensor x = full({2, 2}, size, {.dtype = kFloat32}).requires_grad_(), none = zeros({2, 2});
    const double expected = std::pow(2.0, 1.0 / 4.0 - 1.0), order = size == 3.0 ? 100.0 : 10.0;
    const auto by_eps = [&](double eps) { return pairwise_distance(x, none, 4.0, eps); };
    CHECK(near(grad(sum(by_eps(0.0)), x), expected));
    CHECK(near(grad(sum(cdist(x, none, 4.0)), x), 2.0 * expected));
    CHECK(near(grad(sum(pdist(cat({x, none.slice(0, 0, 1)}), 4.0)), x), expected));
    CHECK(all(isfinite(grad(sum(normalize(x, 4.0)), x))).item<bool>());
    CHECK(all(isfinite(grad(sum(renorm(x, order, 0, size / 3.0)), x))).item<bool>());
  }
  const Tensor tiny = full({2, 2}, 1e-16, {.dtype = kFloat32}).requires_grad_();
  // Shorter than eps, a row is divided by eps.
  CHECK(near(grad(sum(normalize(tiny, 4.0)), tiny), 1e12));
}

TEST_CASE("norms have the gradient 0 at zero") {
  for (double p : {-2.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInfinity}) {
    const Tensor zero = doubles({0, 0});
    CHECK(grad(norm(zero, p), zero).to_vector<double>() == Values{0, 0});
  }
  const Tensor x = doubles({0, 3, -4});
  CHECK(grad(norm(x), x).to_vector<double>() == Values{0, 3 * 0.2, -4 * 0.2});
  CHECK(norm(x, 0.0).item() == 2);
  const Tensor ties = doubles({-2, 2, 1});
  CHECK(grad(norm(ties, kInfinity), ties).to_vector<double>() == Values{-0.5, 0.5, 0});
}

TEST_CASE("reductions keep PyTorch's dtypes and shapes") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(prod(x).dtype() == kInt64);
  CHECK(prod(x > 2).item<int64_t>() == 0);
  CHECK(amax(x.to(kUInt8)).dtype() == kUInt8);
  CHECK(cumsum(x.to(kInt32), 0).dtype() == kInt64);
  CHECK(to_string(argmax(x, {}, true).shape()) == "[1, 1]");
  CHECK(to_string(max(tensor(2.0), 0).values.shape()) == "[]");
  CHECK(prod(zeros({0})).item() == 1);
  CHECK_THROWS_WITH(amax(zeros({2, 0}), {1}), ContainsSubstring("max: dim 1"));
  CHECK_THROWS_WITH(topk(x, 3), ContainsSubstring("topk: k = 3"));
}
