// Derivatives that are formulas: in one pass, where nothing is recorded, they have the bits that
// they have as recorded operations, at kinks, infinities and NaN too.
#include <cmath>
#include <functional>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// All pairs of numbers at which pieces meet and of others.
std::vector<Tensor> pairs(DType dtype) {
  const std::vector<double> numbers = {-kInf, -30, -6, -3,  -1.5, -1, -0.5, -0.3, -0.0, 0,    0.1,
                                       0.5,   0.7, 1,  1.5, 2,    3,  6,    20,   30,   kInf, kNan};
  std::vector<double> x, y;
  for (const double a : numbers) {
    for (const double b : numbers) x.push_back(a), y.push_back(b);
  }
  return {tensor(x, {.dtype = dtype, .requires_grad = true}),
          tensor(y, {.dtype = dtype, .requires_grad = true})};
}

void check_both_ways(const char* name, const Function& of, bool has_two) {
  INFO(name);
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const std::vector<Tensor> x = pairs(dtype);
    const std::vector<Tensor> leaves(x.begin(), x.begin() + (has_two ? 2 : 1));
    const auto gradients = [&](bool is_recorded) {
      const Tensor out = of(x);
      const Tensor weights = arange(1, out.numel() + 1).to(out.dtype()).reshape(out.shape()) * 0.01;
      return grad({out}, leaves, {.grad_outputs = {weights}, .create_graph = is_recorded});
    };
    const std::vector<Tensor> fast = gradients(false), recorded = gradients(true);
    for (size_t i = 0; i < leaves.size(); ++i) {
      REQUIRE(fast[i].dtype() == dtype);
      const auto a = fast[i].to_vector<double>(), b = recorded[i].to_vector<double>();
      for (size_t k = 0; k < a.size(); ++k) {
        if (a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]))) continue;
        FAIL(dtype << ", input " << i << " at " << x[0].to_vector<double>()[k] << ", "
                   << x[1].to_vector<double>()[k] << ": " << a[k] << " and recorded " << b[k]);
      }
    }
  }
}

}  // namespace

TEST_CASE("gradients of elementwise functions are the same recorded or not", "[autograd]") {
  // Some give no floats, or take none.
  const std::vector<Tensor> floats = pairs(kFloat32);
  const auto has_gradient = [&](const Function& f) {
    try {
      return f(floats).requires_grad();
    } catch (const Error&) {
      return false;
    }
  };
  const auto check_listed = [&](const char* name, const Function& f, bool has_two) {
    if (has_gradient(f)) check_both_ways(name, f, has_two);
  };
#define HERO_UNARY(f) \
  check_listed(       \
      #f, [](const std::vector<Tensor>& x) { return hero::f(x[0]); }, false);
#define HERO_BINARY(f, a, b) \
  check_listed(              \
      #f, [](const std::vector<Tensor>& x) { return hero::f(x[0], x[1]); }, true);
#include <hero/autograd/ops/elementwise/elementwise_list.h>
}

TEST_CASE("gradients of one input are the same recorded or not", "[autograd]") {
  using One = Tensor (*)(const Tensor&);
  const std::pair<const char*, One> all[] = {
      {"logsigmoid", logsigmoid},
      {"relu6", relu6},
      {"silu", silu},
      {"mish", mish},
      {"softsign", softsign},
      {"hardswish", hardswish},
      {"hardsigmoid", hardsigmoid},
      {"selu", selu},
      {"tanhshrink", tanhshrink},
      {"elu", [](const Tensor& x) { return elu(x, 0.7); }},
      {"celu", [](const Tensor& x) { return celu(x, 0.7); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"softplus of 2", [](const Tensor& x) { return softplus(x, 2.0, 3.0); }},
      {"clamp", [](const Tensor& x) { return clamp(x, -0.3, 0.7); }},
      {"clamp below", [](const Tensor& x) { return clamp(x, -0.3, {}); }},
      {"clamp above", [](const Tensor& x) { return clamp(x, {}, 0.7); }},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x, -0.3, 0.7); }},
      {"hardshrink", [](const Tensor& x) { return hardshrink(x, 0.3); }},
      {"softshrink", [](const Tensor& x) { return softshrink(x, 0.3); }},
      {"threshold", [](const Tensor& x) { return threshold(x, 0.1, 20.0); }},
      {"glu",
       [](const Tensor& x) {
         return glu(reshape(x, {2, x.numel() / 2}), 0);
       }},
      {"pow 3", [](const Tensor& x) { return pow(x, 3.0); }},
      {"pow 1.5", [](const Tensor& x) { return pow(x, 1.5); }},
      {"pow -2", [](const Tensor& x) { return pow(x, -2.0); }},
      {"number over", [](const Tensor& x) { return 2.0 / x; }},
      {"logit", [](const Tensor& x) { return logit(x); }}};
  for (const auto& [name, of] : all) {
    check_both_ways(
        name, [f = of](const std::vector<Tensor>& x) { return f(x[0]); }, false);
  }
}

TEST_CASE("gradients of two inputs are the same recorded or not", "[autograd]") {
  using Two = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Two> all[] = {
      {"lerp", [](const Tensor& x, const Tensor& y) { return lerp(x, y, y); }},
      {"addcmul", [](const Tensor& x, const Tensor& y) { return addcmul(x, x, y, 0.5); }},
      {"prelu",
       [](const Tensor& x, const Tensor& y) {
         return prelu(reshape(x, {1, x.numel()}), y);
       }},
      {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }},
      {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }},
      {"huber_loss", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y, 1.5); }},
      {"smooth_l1_loss",
       [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y, 0.5); }},
      {"kl_div of logs",
       [](const Tensor& x, const Tensor& y) { return kl_div(x, y, KlReduction::sum, true); }},
      {"soft_margin_loss", [](const Tensor& x, const Tensor& y) { return soft_margin_loss(x, y); }},
      {"bce_with_logits", [](const Tensor& x, const Tensor& y) { return bce_with_logits(x, y); }},
      {"poisson_nll_loss",
       [](const Tensor& x, const Tensor& y) { return poisson_nll_loss(x, y); }}};
  for (const auto& [name, of] : all) {
    check_both_ways(
        name, [f = of](const std::vector<Tensor>& x) { return f(x[0], x[1]); }, true);
  }
}

TEST_CASE("small whole powers of float32 are those of float64, rounded once", "[autograd]") {
  const Tensor x(test::noise({1000}));
  for (const double e : {3.0, 4.0, 5.0, 7.0, 8.0, -2.0, -3.0}) {
    const Tensor wide = pow(x.to(kFloat64), e).to(kFloat32);
    CHECK(all(pow(x, e) == wide).item<bool>());
  }
  CHECK(pow(tensor({-2.0, -0.0, kInf, -kInf}), 3.0).to_vector<double>() ==
        std::vector<double>{-8, -0.0, kInf, -kInf});
  CHECK(pow(tensor({-2.0, 0.0, kInf}), -2.0).to_vector<double>() ==
        std::vector<double>{0.25, kInf, 0});
}

TEST_CASE("the gradient of a logit that is far from its target is not lost", "[autograd]") {
  const Tensor x = tensor({-40.0, 40.0, -40.0, 40.0}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor y = tensor({0.0, 1.0, 1.0, 0.0}, {.dtype = kFloat32});
  const Tensor loss = binary_cross_entropy_with_logits(x, y, {.reduction = Reduction::sum});
  const auto slopes = grad(loss, x).to_vector<double>();
  CHECK_THAT(slopes[0], Catch::Matchers::WithinRel(std::exp(-40.0), 1e-6));
  CHECK_THAT(slopes[1], Catch::Matchers::WithinRel(-std::exp(-40.0), 1e-6));
  CHECK(slopes[2] == -1.0);
  CHECK(slopes[3] == 1.0);
}
