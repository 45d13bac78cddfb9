// Composed activations and losses of margins and probabilities: borders and messages. Values and
// derivatives are compared with PyTorch's in tests/nn/test_golden_layers.cpp.
#include <cmath>
#include <iterator>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

using Doubles = std::vector<double>;

Tensor leaf(const Doubles& values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

// The gradient of the sum of f(x).
template <class F>
Doubles slopes(F f, const Doubles& values) {
  const Tensor x = leaf(values);
  sum(f(x)).backward();
  return x.grad().to_vector<double>();
}

}  // namespace

TEST_CASE("means and sums of losses have the bits of reductions of all of them") {
  using Loss = Tensor (*)(const Tensor& x, const Tensor& y, Reduction reduction);
  static constexpr Loss kLosses[] = {
      [](const Tensor& x, const Tensor& y, Reduction r) { return mse_loss(x, y, r); },
      [](const Tensor& x, const Tensor& y, Reduction r) { return l1_loss(x, y, r); },
      [](const Tensor& x, const Tensor& y, Reduction r) { return huber_loss(x, y, 0.7, r); },
      [](const Tensor& x, const Tensor& y, Reduction r) { return smooth_l1_loss(x, y, 0.3, r); },
      [](const Tensor& x, const Tensor& y, Reduction r) { return soft_margin_loss(x, y, r); },
      [](const Tensor& x, const Tensor& y, Reduction r) {
        return poisson_nll_loss(x, y, {.reduction = r});
      },
      [](const Tensor& x, const Tensor& y, Reduction r) {
        return binary_cross_entropy_with_logits(x, y, {.reduction = r});
      },
      [](const Tensor& x, const Tensor& y, Reduction r) {
        return binary_cross_entropy(sigmoid(x), sigmoid(y), {.reduction = r});
      },
      [](const Tensor& x, const Tensor& y, Reduction r) {
        return kl_div(x, exp(y),
                      r == Reduction::none   ? KlReduction::none
                      : r == Reduction::mean ? KlReduction::mean
                                             : KlReduction::sum);
      }};
  // The loss, its gradients, and their gradients.
  const auto all = [](const Loss& loss, const Tensor& x, const Tensor& y, Reduction reduction,
                      bool apart) {
    Tensor value = loss(x, y, apart ? Reduction::none : reduction);
    if (apart) value = reduction == Reduction::mean ? mean(value) : sum(value);
    std::vector<Tensor> found = grad({value}, {x, y}, {.create_graph = true});
    for (const Tensor& each : grad({sum(found[0] * found[1])}, {x, y}, {.allow_unused = true})) {
      if (each.defined()) found.push_back(each);
    }
    found.push_back(value);
    std::vector<Doubles> values;
    for (const Tensor& each : found) values.push_back(each.to(kFloat64).to_vector<double>());
    return values;
  };
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shape& shape : {Shape{1}, Shape{3, 1}, Shape{37, 301}, Shape{5, 4096}}) {
      manual_seed(7);
      const Tensor x = randn(shape, {.dtype = dtype}).detach().requires_grad_();
      const Tensor y = randn({shape.back()}, {.dtype = dtype}).expand(shape).detach();
      y.requires_grad_();
      for (size_t i = 0; i < std::size(kLosses); ++i) {
        for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
          CAPTURE(i, name(dtype), to_string(shape));
          CHECK(
              (all(kLosses[i], x, y, reduction, false) == all(kLosses[i], x, y, reduction, true)));
        }
      }
    }
  }
  CHECK(std::isnan(mse_loss(zeros({0, 3}), zeros({0, 3})).item()));
  CHECK(mse_loss(zeros({0, 3}), zeros({0, 3}), Reduction::sum).item() == 0.0);
}

TEST_CASE("activations have PyTorch's gradient where their pieces meet") {
  CHECK(slopes([](const Tensor& x) { return hardtanh(x); }, {-1, 0, 1}) == Doubles{0, 1, 0});
  CHECK(slopes([](const Tensor& x) { return hardsigmoid(x); }, {-3, 3}) == Doubles{0, 0});
  CHECK(slopes([](const Tensor& x) { return softshrink(x); }, {-0.5, 0, 0.5}) == Doubles{0, 0, 0});
  CHECK(slopes([](const Tensor& x) { return hardshrink(x); }, {-0.5, 0.6}) == Doubles{0, 1});
  CHECK(slopes([](const Tensor& x) { return threshold(x, 1, 7); }, {1, 2}) == Doubles{0, 1});
  CHECK(slopes([](const Tensor& x) { return celu(x, 2.0); }, {0, 1}) == Doubles{1, 1});
  const Tensor weight = leaf({0.25});
  CHECK(slopes([&](const Tensor& x) { return prelu(x, weight); }, {0, 1}) == Doubles{0.25, 1});
}

TEST_CASE("activations keep NaN and survive large numbers") {
  const double nan = std::nan("");
  using Activation = Tensor (*)(const Tensor&);
  const Activation all_of[] = {[](const Tensor& x) { return hardtanh(x); },
                               [](const Tensor& x) { return softshrink(x); },
                               [](const Tensor& x) { return hardshrink(x); },
                               [](const Tensor& x) { return threshold(x, 1, 7); },
                               [](const Tensor& x) { return celu(x); },
                               selu,
                               hardsigmoid};
  for (const Activation f : all_of) {
    const Doubles y = f(tensor({nan, 1e300, -1e300}, {.dtype = kFloat64})).to_vector<double>();
    CHECK(std::isnan(y[0]));
    CHECK_FALSE(std::isnan(y[1]));
    CHECK_FALSE(std::isnan(y[2]));
    for (const double slope : slopes(f, {1e4, -1e4})) CHECK(std::isfinite(slope));
  }
}

TEST_CASE("activations say which argument does not fit") {
  CHECK_THROWS_WITH(glu(zeros({2, 3})),
                    ContainsSubstring("glu: size 3 of dimension -1 does not halve"));
  CHECK_THROWS_WITH(prelu(zeros({2, 3}), zeros({4})),
                    ContainsSubstring("prelu: weight [4] does not fit the 3 channels"));
  CHECK_THROWS_WITH(hardtanh(zeros({2}), 1.0, -1.0), ContainsSubstring("min_val 1 is above"));
  CHECK_THROWS_WITH(softshrink(zeros({2}), -1.0), ContainsSubstring("must not be negative: -1"));
}

TEST_CASE("binary cross entropy of certain answers is finite, as PyTorch's") {
  const Tensor x = leaf({0, 1, 0, 1}), y = tensor({0, 1, 1, 0}, {.dtype = kFloat64});
  const Tensor loss = binary_cross_entropy(x, y, {.reduction = Reduction::none});
  CHECK(loss.to_vector<double>() == Doubles{0, 0, 100, 100});
  sum(loss).backward();
  CHECK(x.grad().to_vector<double>() == Doubles{0, 0, -1e12, 1e12});
}

TEST_CASE("binary cross entropy refuses what is no probability") {
  const Tensor y = zeros({2});
  CHECK_THROWS_WITH(binary_cross_entropy(tensor({0.5f, 1.5f}), y),
                    ContainsSubstring("x holds values outside [0, 1]: lowest 0.5, highest 1.5"));
  CHECK_THROWS_WITH(binary_cross_entropy(tensor({std::nanf(""), 0.5f}), y),
                    ContainsSubstring("outside [0, 1]"));
  CHECK_THROWS_WITH(binary_cross_entropy(zeros({2}), y, {.weight = ones({3})}),
                    ContainsSubstring("weight [3]"));
  CHECK_THROWS_WITH(binary_cross_entropy_with_logits(zeros({2}), y, {.pos_weight = ones({2, 2})}),
                    ContainsSubstring("pos_weight [2, 2] does not broadcast to [2]"));
}

TEST_CASE("cross entropy against probabilities equals the one against classes for certain rows") {
  const Tensor x = randn({3, 4}, {.dtype = kFloat64}), target = tensor({1, 3, 0});
  const Tensor share = one_hot(target, 4).to(kFloat64);
  // Two sums of four doubles of size 1 in another order.
  CHECK(std::abs(cross_entropy(x, share).item() - cross_entropy(x, target).item()) < 1e-14);
  CHECK_THROWS_WITH(cross_entropy(x, share, {.ignore_index = 2}),
                    ContainsSubstring("ignore_index 2 has no meaning"));
}

TEST_CASE("cross entropy of large logits keeps the digits of their differences") {
  const Tensor target = tensor({0, 3});
  for (const double top : {0.0, 1e4, 1e7, -1e7, 3e38}) {
    CAPTURE(top);
    const Tensor logits = full({2, 4}, top, {.requires_grad = true});
    const Tensor weight = full({4, 1}, top, {.requires_grad = true});
    for (const Tensor& loss :
         {cross_entropy(logits, target), linear_cross_entropy(ones({2, 1}), weight, target)}) {
      CHECK(loss.item() == Approx(std::log(4.0)).epsilon(1e-7));
      loss.backward();
    }
    CHECK(logits.grad().to_vector<float>() ==
          std::vector{-0.375f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, -0.375f});
    CHECK(weight.grad().to_vector<float>() == std::vector{-0.25f, 0.25f, 0.25f, -0.25f});
  }
}

TEST_CASE("losses of margins say which argument does not fit") {
  const Tensor x = zeros({3, 4}), y = ones({3});
  CHECK_THROWS_WITH(hinge_embedding_loss(x, y), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(margin_ranking_loss(x, x, y), ContainsSubstring("target [3] does not fit"));
  CHECK_THROWS_WITH(cosine_embedding_loss(x, x, ones({4})), ContainsSubstring("it should be [3]"));
  CHECK_THROWS_WITH(multi_margin_loss(x, tensor({1, 2})), ContainsSubstring("it should be [3]"));
  CHECK_THROWS_WITH(multi_margin_loss(x, tensor({1, 2, 0}), {.p = 3}),
                    ContainsSubstring("p must be 1 or 2: 3"));
  CHECK_THROWS_WITH(triplet_margin_loss(x, x, zeros({3, 5})), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(gaussian_nll_loss(y, y, -y), ContainsSubstring("a variance is negative"));
}

TEST_CASE("one-dimensional pooling and bilinear maps say which shape they expect") {
  CHECK_THROWS_WITH(max_pool1d(zeros({4}), 2),
                    ContainsSubstring("max_pool1d: x must be [N, C, L] or [C, L]: got shape [4]"));
  CHECK_THROWS_WITH(adaptive_max_pool2d(zeros({4, 4}), {2, 2}),
                    ContainsSubstring("adaptive_max_pool2d: x must be [N, C, H, W]"));
  CHECK_THROWS_WITH(bilinear(zeros({2, 3}), zeros({2, 3}), zeros({5, 3, 4})),
                    ContainsSubstring("do not fit weight [5, 3, 4]"));
  CHECK_THROWS_WITH(dropout2d(zeros({3})), ContainsSubstring("dropout2d: x must be"));
}

TEST_CASE("dropout of channels zeroes whole channels and scales the rest") {
  manual_seed(3);
  const Tensor x = ones({8, 16, 3, 2});
  const std::vector<float> y = dropout2d(x, 0.25).to_vector<float>();
  int kept = 0;
  for (size_t channel = 0; channel < 128; ++channel) {
    for (size_t i = 1; i < 6; ++i) CHECK(y[channel * 6 + i] == y[channel * 6]);
    CHECK((y[channel * 6] == 0.0f || y[channel * 6] == 1.0f / 0.75f));
    kept += y[channel * 6] != 0.0f;
  }
  // 96 expected; 5 standard deviations are 25.
  CHECK(kept > 71);
  CHECK(kept < 121);
  CHECK(is_same(dropout2d(x, 0.25, false), x));
}
