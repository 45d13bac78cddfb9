// NaN, infinities and the ends of the range: values and gradients of functions at them.
#include <cmath>
#include <limits>
#include <utility>

#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

using Values = std::vector<double>;
using Unary = Tensor (*)(const Tensor&);

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kFloats[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

Tensor leaf(const Values& values, DType dtype = kFloat32) {
  return tensor(values, {.dtype = kFloat64}).to(dtype).detach().requires_grad_();
}

// The gradient that 2 at y gives, and the same where backward is recorded.
Values gradient(const Tensor& y, const Tensor& x) {
  const GradOptions options{.grad_outputs = {full_like(y.detach(), 2.0)}, .retain_graph = true};
  GradOptions recorded = options;
  recorded.create_graph = true;
  const Values values = grad({y}, {x}, options)[0].to_vector<double>();
  const Values again = grad({y}, {x}, recorded)[0].to_vector<double>();
  REQUIRE(values.size() == again.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK((values[i] == again[i] || (std::isnan(values[i]) && std::isnan(again[i])) ||
           std::abs(values[i] - again[i]) <= 0.02 * std::abs(values[i])));
  }
  return values;
}

void same(const Values& values, const Values& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(i << ": " << values[i] << " and " << expected[i]);
    CHECK((values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))));
  }
}

}  // namespace

TEST_CASE("activations let the gradient of NaN through, whose result is NaN") {
  struct Row {
    const char* name;
    Unary f;
  };
  const Row rows[] = {{"relu", relu},
                      {"relu6", relu6},
                      {"celu", [](const Tensor& x) { return celu(x, 0.7); }},
                      {"elu", [](const Tensor& x) { return elu(x); }},
                      {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
                      {"softshrink", [](const Tensor& x) { return softshrink(x); }},
                      {"hardshrink", [](const Tensor& x) { return hardshrink(x); }},
                      {"threshold", [](const Tensor& x) { return threshold(x, 0.5, -7.0); }}};
  for (const Row& row : rows) {
    for (const DType dtype : kFloats) {
      INFO(row.name << " " << std::string(name(dtype)));
      const Tensor x = leaf({kNan, 0.75, kNan}, dtype), y = row.f(x);
      CHECK(std::isnan(y.to_vector<double>()[0]));
      same(gradient(y, x), {2, 2, 2});
    }
  }
  const Tensor x = leaf({kNan, 1.0}, kFloat64);
  CHECK(gradient(selu(x), x)[0] == gradient(selu(x), x)[1]);
}

TEST_CASE(
    "clamp gives no gradient on a bound, of NaN or beyond, and an absent bound binds nothing") {
  for (const DType dtype : kFloats) {
    INFO(std::string(name(dtype)));
    const Tensor x = leaf({-kInf, 0.0, 0.5, 1.0, kInf, kNan}, dtype);
    same(gradient(clamp(x, 0, 1), x), {0, 0, 2, 0, 0, 0});
    same(gradient(clamp(x, 0, {}), x), {0, 0, 2, 2, 2, 0});
    same(gradient(clamp(x, {}, 1), x), {2, 2, 2, 0, 0, 0});
    same(gradient(clamp(x, 1, 0), x), {0, 0, 0, 0, 0, 0});
    same(gradient(clamp(x, -kInf, 1), x), {0, 2, 2, 0, 0, 0});
    same(gradient(clamp(x, kNan, 1), x), {0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("linear and conv2d with relu let the gradient of NaN through") {
  const Tensor x = leaf({kNan, 1.0, 1.0, 2.0}).reshape({2, 2}).detach().requires_grad_();
  const Tensor w = ones({1, 2}), bias = zeros({1}, {.requires_grad = true});
  same(gradient(linear_relu(x, w, bias), bias), {4});
  const Tensor image = reshape(x.detach(), {1, 1, 2, 2});
  const Tensor shift = zeros({1}, {.requires_grad = true});
  same(gradient(conv2d_relu(image, ones({1, 1, 1, 1}), shift), shift), {8});
}

TEST_CASE("softsign's gradient at infinity is its limit, hardsigmoid lets that of NaN through") {
  const Tensor x = leaf({kInf, -kInf, kNan, 1.0}, kFloat64);
  const Values slope = gradient(softsign(x), x);
  CHECK(slope[0] == 0.0);
  CHECK(slope[1] == 0.0);
  CHECK(slope[3] == 0.5);
  const Values hard = gradient(hardsigmoid(x), x);
  CHECK(hard[2] == hard[3]);
}

TEST_CASE("maximum and minimum give both sides the gradient where one is NaN") {
  for (const auto f : {maximum, minimum}) {
    const Tensor a = leaf({kNan, 1.0, kNan, 3.0, 1.0}), b = leaf({1.0, kNan, kNan, 3.0, 2.0});
    const Tensor y = f(a, b);
    const bool is_max = f == maximum;
    same(gradient(y, a), {2, 2, 2, 1, is_max ? 0.0 : 2.0});
    same(gradient(y, b), {2, 2, 2, 1, is_max ? 2.0 : 0.0});
  }
}

TEST_CASE("atan2 has the gradient 0 at the origin, of any signs") {
  for (const DType dtype : kFloats) {
    const Tensor y = leaf({0.0, 0.0, -0.0, -0.0, 1.0}, dtype);
    const Tensor x = leaf({0.0, -0.0, 0.0, -0.0, 0.0}, dtype);
    const Tensor angle = atan2(y, x);
    same(gradient(angle, y), {0, 0, 0, 0, 0});
    same(gradient(angle, x), {0, 0, 0, 0, -2});
    const Tensor twice = grad({sum(grad({sum(angle)}, {y}, {.create_graph = true})[0])}, {x},
                              {.allow_unused = true})[0];
    CHECK(all(isfinite(twice)).item<bool>());
  }
}

TEST_CASE("huber_loss without a bound is half the square") {
  const Values values{0.0, 1.5, -3.0, 1e6, kInf};
  const Tensor x = leaf(values, kFloat64), zero = zeros({5}, {.dtype = kFloat64});
  const Tensor loss = huber_loss(x, zero, kInf, Reduction::none);
  same(loss.to_vector<double>(), {0.0, 1.125, 4.5, 5e11, kInf});
  same(gradient(loss, x), {0.0, 3.0, -6.0, 2e6, kInf});
  const Tensor y = leaf(values, kFloat64);
  same(gradient(huber_loss(zero, y, kInf, Reduction::none), y), {0.0, 3.0, -6.0, 2e6, kInf});
}

TEST_CASE("smooth_l1_loss and huber_loss have a slope of 1 at an infinite difference") {
  for (const DType dtype : kFloats) {
    const Tensor x = leaf({kInf, -kInf, 4.0, 0.5}, dtype), y = zeros({4}, {.dtype = dtype});
    same(gradient(smooth_l1_loss(x, y, 1.0, Reduction::none), x), {2, -2, 2, 1});
    same(gradient(l1_loss(x, y, Reduction::none), x), {2, -2, 2, 2});
    same(gradient(huber_loss(x, y, 1.0, Reduction::none), x), {2, -2, 2, 1});
  }
}

TEST_CASE("an infinite element reaches the cells of adaptive_avg_pool that cover it") {
  const Tensor x = ones({1, 1, 5, 7});
  const Tensor spoiled = x.clone();
  spoiled.select(2, 4).select(2, 6).fill_(kInf);
  const Tensor y = adaptive_avg_pool2d(spoiled, {3, 4});
  CHECK(isinf(y.select(2, 2).select(2, 3)).item<bool>());
  CHECK(sum(isinf(y)).item() == 1.0);
  CHECK(sum(y == 1.0).item() == 11.0);
  const Tensor line = leaf({1.0, kInf, 3.0, 4.0, 5.0, 6.0, kNan});
  const Tensor means = adaptive_avg_pool1d(reshape(line, {1, 7}), 3);
  same(means.to_vector<double>(), {kInf, 4.0, kNan});
}

// Cells that overlap, of two lengths, more cells than elements.
TEST_CASE("adaptive_avg_pool is the mean of each cell, and its gradient the cells' shares") {
  manual_seed(5);
  for (const auto& [size, cells] : {std::pair<Pair, Pair>{{5, 7}, {3, 4}},
                                    {{4, 9}, {4, 2}},
                                    {{3, 2}, {7, 5}},
                                    {{11, 1}, {4, 3}},
                                    {{10, 10}, {7, 7}}}) {
    const Tensor x = randn({2, 3, size[0], size[1]}, {.dtype = kFloat64, .requires_grad = true});
    const Tensor y = adaptive_avg_pool2d(x, cells);
    const Tensor g = randn(y.shape(), {.dtype = kFloat64});
    Tensor expected = zeros(y.shape(), {.dtype = kFloat64});
    Tensor g_x = zeros(x.shape(), {.dtype = kFloat64});
    for (int64_t i = 0; i < cells[0]; ++i) {
      for (int64_t j = 0; j < cells[1]; ++j) {
        const auto first = [](int64_t at, int64_t n, int64_t of) { return at * n / of; };
        const auto last = [](int64_t at, int64_t n, int64_t of) {
          return ((at + 1) * n + of - 1) / of;
        };
        const auto part = [&](const Tensor& of) {
          return slice(slice(of, 2, first(i, size[0], cells[0]), last(i, size[0], cells[0])), 3,
                       first(j, size[1], cells[1]), last(j, size[1], cells[1]));
        };
        const auto cell = [&](const Tensor& of) { return narrow(narrow(of, 2, i, 1), 3, j, 1); };
        const Tensor area = part(x.detach());
        cell(expected).copy_(mean(area, {2, 3}, true));
        const double share = 1.0 / static_cast<double>(area.size(2) * area.size(3));
        part(g_x).add_(cell(g).expand(area.shape()), share);
      }
    }
    CHECK(allclose(y, expected, 1e-13, 1e-13));
    CHECK(allclose(grad({y}, {x}, {.grad_outputs = {g}})[0], g_x, 1e-13, 1e-13));
  }
}

TEST_CASE("var, std and norm of float32 reach its ends") {
  const auto near = [](const Tensor& x, double expected) {
    return std::abs(x.item() - expected) <= 1e-6 * expected;
  };
  for (const double size : {1e20, 1e-25, 3e37, 1e-38}) {
    INFO(size);
    const Tensor x = tensor({size, -size, 0.5 * size, -0.5 * size});
    CHECK(near(hero::std(x, {.unbiased = false}), size * std::sqrt(0.625)));
    CHECK(near(norm(x), size * std::sqrt(2.5)));
    CHECK(near(norm(x, 3.0), size * std::cbrt(2.25)));
    CHECK(near(hero::std(x.reshape({2, 2}), {.dims = {1}, .unbiased = false}).select(0, 0), size));
    // Beside it a row of ordinary numbers keeps its bits.
    const Tensor rows = stack({x, tensor({1.0, 2.0, 4.5, 7.0})});
    CHECK(hero::std(rows, {.dims = {1}}).select(0, 1).item() ==
          hero::std(tensor({1.0, 2.0, 4.5, 7.0})).item());
  }
  const Tensor x = leaf({1e20, -1e20});
  const Values slope = gradient(hero::std(x), x);
  CHECK(std::abs(slope[0] - std::sqrt(2.0)) < 1e-6);
  CHECK(std::abs(slope[1] + std::sqrt(2.0)) < 1e-6);
  CHECK(std::isinf(var(tensor({1e20, -1e20})).item()));  // 2e40 is no float32
  CHECK(hero::std(full({5}, 3.0)).item() == 0.0);
  CHECK(std::isnan(hero::std(tensor({1.0, kNan})).item()));
  CHECK(norm(zeros({4})).item() == 0.0);
}

TEST_CASE("gaussian_nll_loss takes one variance a sample, and no shape that is another's") {
  const Tensor x = zeros({2, 2}), y = zeros({2, 2});
  const GaussianNllOptions each{.reduction = Reduction::none};
  const Tensor variance = tensor({1.0, 100.0});
  const double half_log = 0.5 * std::log(100.0);
  const Tensor loss = gaussian_nll_loss(x, y, variance, each);
  CHECK(allclose(loss, tensor({{0.0, 0.0}, {half_log, half_log}}), 1e-6, 1e-6));
  CHECK(equal(gaussian_nll_loss(x, y, variance.reshape({2, 1}), each), loss));
  CHECK(allclose(gaussian_nll_loss(x, y, variance.reshape({1, 2}), each), loss.t(), 1e-6, 1e-6));
  const auto fits = [&](const Shape& of_x, const Shape& of_variance) {
    const Tensor z = zeros(of_x);
    return gaussian_nll_loss(z, z, ones(of_variance), each).shape() == of_x;
  };
  for (const Shape& shape :
       {Shape{2, 2, 3}, Shape{2, 2}, Shape{2, 2, 1}, Shape{2, 1, 3}, Shape{1, 2, 3}, Shape{}}) {
    INFO(to_string(shape));
    CHECK(fits({2, 2, 3}, shape));
  }
  CHECK(fits({2}, {1}));
  CHECK(fits({}, {}));
  for (const Shape& shape : {Shape{3}, Shape{2}, Shape{1}, Shape{2, 3}, Shape{1, 1, 3},
                             Shape{2, 1, 1}, Shape{1, 2, 2, 3}, Shape{2, 2, 4}}) {
    INFO(to_string(shape));
    CHECK_THROWS_WITH(fits({2, 2, 3}, shape), ContainsSubstring("does not fit x [2, 2, 3]"));
  }
  // Gradients of each sample's variance.
  const Tensor v = leaf({2.0, 4.0}, kFloat64), a = zeros({2, 3}, {.dtype = kFloat64});
  same(gradient(gaussian_nll_loss(a, a, v, each), v), {1.5, 0.75});
}

TEST_CASE("isclose and allclose refuse negative and NaN tolerances") {
  const Tensor x = ones({2});
  for (const auto& [rtol, atol] : {std::pair{-1e-5, 1e-8}, {1e-5, -1e-8}, {kNan, 0.0}}) {
    const auto refused = ContainsSubstring(": tolerances must not be negative: rtol ");
    CHECK_THROWS_WITH(isclose(x, x, rtol, atol), refused);
    CHECK_THROWS_WITH(allclose(x, x, rtol, atol), refused);
  }
  CHECK_THROWS_WITH(isclose(x, x, -0.5, 0.25), ContainsSubstring("rtol -0.5, atol 0.25"));
  CHECK(allclose(x, x, 0.0, 0.0));
}

TEST_CASE("glu of nothing is nothing") {
  for (const Shape& shape : {Shape{2, 0}, Shape{0, 4}, Shape{0}, Shape{3, 0, 2}}) {
    const int dim = shape == Shape{3, 0, 2} ? 1 : shape.size() - 1;
    const Tensor x = zeros(shape, {.requires_grad = true});
    const Tensor y = glu(x, dim);
    Shape expected = shape;
    expected[dim] /= 2;
    CHECK(y.shape() == expected);
    CHECK(grad(sum(y), x).shape() == shape);
  }
}

TEST_CASE("linear algebra of nothing has the shapes of something") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const TensorOptions leafs{.dtype = dtype, .requires_grad = true};
    const auto spd = [&](const Shape& batch, int64_t n) {
      Shape shape = batch;
      shape.push_back(n);
      shape.push_back(n);
      return (eye(n, {.dtype = dtype}) * 2.0).expand(shape).contiguous().requires_grad_();
    };
    // No right sides, no equations, no matrices.
    for (const auto& [batch, n, k] : {std::tuple<Shape, int64_t, int64_t>{{}, 3, 0},
                                      {{2}, 3, 0},
                                      {{}, 0, 2},
                                      {{}, 0, 0},
                                      {{0}, 3, 2},
                                      {{2, 0}, 3, 0}}) {
      const Tensor a = spd(batch, n);
      Shape shape = batch;
      shape.push_back(n);
      shape.push_back(k);
      const Tensor b = zeros(shape, leafs);
      for (const Tensor& x : {solve(a, b), lstsq(a, b)}) {
        CHECK(x.shape() == shape);
        const std::vector<Tensor> grads = grad({sum(x)}, {a, b});
        CHECK(equal(grads[0], zeros_like(a)));
        CHECK(grads[1].shape() == shape);
      }
      CHECK(inv(a).shape() == a.shape());
      CHECK(cholesky(a).shape() == a.shape());
      CHECK(qr(a).q.shape() == a.shape());
      CHECK(det(a).shape() == batch);
      CHECK(slogdet(a).logabsdet.shape() == batch);
      CHECK(grad(sum(det(a)), a).shape() == a.shape());
      CHECK(grad(sum(inv(a)), a).shape() == a.shape());
      CHECK(grad(sum(cholesky(a)), a).shape() == a.shape());
    }
    CHECK_THROWS_WITH(solve(zeros({2, 2}, leafs), zeros({2, 0}, leafs)),
                      ContainsSubstring("singular"));
    CHECK(lstsq(ones({3, 0}, leafs), ones({3, 2}, leafs)).shape() == Shape{0, 2});
    CHECK(qr(ones({3, 0}, leafs)).q.shape() == Shape{3, 0});
    CHECK(qr(ones({0, 3}, leafs)).r.shape() == Shape{0, 3});
  }
}

TEST_CASE("digamma and trigamma have their poles' values beside them, on both sides") {
  for (const double x : {1e-300, 1e-40, 1e-20, 1e-17, 3e-9}) {
    for (const double side : {1.0, -1.0}) {
      const Tensor at = tensor({side * x}, {.dtype = kFloat64});
      CHECK(std::fabs(digamma(at).item() * side * x + 1.0) < 1e-8);  // -1 / x
      if (x > 1e-150) CHECK(std::fabs(polygamma(1, at).item() * x * x - 1.0) < 1e-8);
      const double narrow = digamma(tensor({side * x})).item();
      if (x > 1e-37 && x < 1e-8) CHECK(std::fabs(narrow * side * x + 1.0) < 1e-6);
    }
  }
  // psi(-1 + e) = -1 / e + 1 - gamma + ..
  const double gap = 0x1p-40;
  for (const double e : {gap, -gap}) {
    const Tensor at = tensor({-1.0 + e}, {.dtype = kFloat64});
    const double expected = -1.0 / e + 1.0 - 0.57721566490153286;
    CHECK(std::fabs(digamma(at).item() / expected - 1.0) < 1e-15);
  }
  CHECK(std::fabs(polygamma(1, tensor({1e200}, {.dtype = kFloat64})).item() / 1e-200 - 1.0) <
        1e-12);
  CHECK(polygamma(1, tensor({-2.5e-35})).item() == kInf);  // 1.6e69 is beyond float32
}

TEST_CASE("the gradients of expm1 and celu keep their digits where the results are near -1") {
  for (const DType dtype : kFloats) {
    for (const double at : {-3.0, -6.0, -20.0}) {
      INFO(dtype << " at " << at);
      const double tolerance = dtype == kFloat64 ? 1e-14 : (dtype == kFloat32 ? 1e-6 : 1e-2);
      const double least = dtype == kFloat16 ? 0x1p-24 : 0.0;
      const Tensor x = leaf({at}, dtype), half = leaf({at / 2}, dtype);
      const double first = gradient(expm1(x), x)[0] / 2;
      CHECK(std::fabs(first - std::exp(at)) <= tolerance * std::exp(at) + least);
      const double second = gradient(celu(half, 0.5), half)[0] / 2;
      CHECK(std::fabs(second - std::exp(at)) <= tolerance * std::exp(at) + least);
    }
  }
}

TEST_CASE(
    "the gradient of bce_with_logits keeps its digits on both sides, with and without weights") {
  for (const double at : {-40.0, -20.0, -10.0, -1.0, 0.0, 1.0, 10.0, 20.0, 40.0}) {
    for (const double target : {0.0, 1.0, 0.25}) {
      for (const double weight : {1.0, 3.0}) {
        INFO(at << " " << target << " " << weight);
        const Tensor x = leaf({at}), y = leaf({target}), p = leaf({weight});
        const Tensor loss = binary_cross_entropy_with_logits(
            x, y, {.pos_weight = weight == 1.0 ? Tensor() : p, .reduction = Reduction::none});
        const double above = 1.0 / (1.0 + std::exp(at)), below = 1.0 / (1.0 + std::exp(-at));
        const double expected = (1.0 - target) * below - weight * target * above;
        CHECK(std::fabs(gradient(loss, x)[0] / 2 - expected) <= 1e-6 * std::fabs(expected));
        const double log_above = -std::log1p(std::exp(-std::fabs(at))) + std::min(at, 0.0);
        const double of_target = (1.0 - weight) * log_above - at;
        CHECK(std::fabs(gradient(loss, y)[0] / 2 - of_target) <= 1e-6 * std::fabs(of_target));
        if (weight == 1.0) continue;
        const double of_weight = -target * log_above;
        CHECK(std::fabs(gradient(loss, p)[0] / 2 - of_weight) <= 1e-6 * std::fabs(of_weight));
      }
    }
  }
}
