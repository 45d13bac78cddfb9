// Dtypes of normalisations and losses whose inputs differ in theirs.
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Values = std::vector<double>;

namespace {

constexpr DType kFloats[] = {kFloat16, kBFloat16, kFloat32, kFloat64};

struct Norm {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)> run;
};

std::vector<Norm> norms() {
  using T = const Tensor&;
  return {
      {"layer_norm", [](T x, T w, T b) { return layer_norm(x, {4}, w, b); }},
      {"layer_norm without bias", [](T x, T w, T) { return layer_norm(x, {4}, w); }},
      {"rms_norm", [](T x, T w, T) { return rms_norm(x, w); }},
      {"group_norm", [](T x, T w, T b) { return group_norm(x, 2, w, b); }},
      {"batch_norm of a batch",
       [](T x, T w, T b) {
         return batch_norm(x, {}, {}, {.weight = w, .bias = b, .training = true});
       }},
      {"batch_norm",
       [](T x, T w, T b) {
         return batch_norm(x, b.detach(), abs(w.detach()), {.weight = w, .bias = b});
       }},
  };
}

// The largest difference of a half, in units of the last place of the largest element.
double units_apart(const Tensor& a, const Tensor& exact) {
  const double unit = a.dtype() == kFloat16 ? 0x1p-10 : 0x1p-7;
  const Tensor apart = abs(a.to(kFloat64) - exact);
  return amax(apart).item() / (amax(abs(exact)).item() * unit);
}

}  // namespace

TEST_CASE("normalisations keep x's dtype, and gradients each input's, whatever the parameters'") {
  manual_seed(1);
  const Tensor x64 = randn({6, 4}, {.dtype = kFloat64}) + 0.5;
  const Tensor w64 = randn({4}, {.dtype = kFloat64}), b64 = randn({4}, {.dtype = kFloat64});
  for (const Norm& norm : norms()) {
    for (const DType of_x : kFloats) {
      for (const DType of_parameters : kFloats) {
        INFO(norm.name << " of " << name(of_x) << " with " << name(of_parameters));
        const Tensor x = x64.to(of_x).detach(), w = w64.to(of_parameters).detach(),
                     b = b64.to(of_parameters).detach();
        const Tensor exact = norm.run(x.to(kFloat64), w.to(kFloat64), b.to(kFloat64));
        for (const Tensor* leaf : {&x, &w, &b}) leaf->requires_grad_();
        const Tensor y = norm.run(x, w, b);
        CHECK(y.dtype() == of_x);
        // Rounded once: half a unit of the last place, and what float32 leaves of it.
        if (item_size(of_x) == 2) CHECK(units_apart(y.detach(), exact) < 0.75);
        sum(y * y).backward();
        CHECK(x.grad().dtype() == of_x);
        CHECK(w.grad().dtype() == of_parameters);
        // The recorded derivative, by the composed definition, has the same dtypes.
        const Tensor again = norm.run(x, w, b);
        const Tensor g = grad(sum(square(again)), x, {.create_graph = true});
        CHECK(g.dtype() == of_x);
        CHECK(grad(sum(square(g)), w).dtype() == of_parameters);
      }
    }
  }
}

TEST_CASE("half rows with float32 parameters are normalised in float32 and rounded once") {
  manual_seed(2);
  for (const DType half : {kFloat16, kBFloat16}) {
    const Tensor x = randn({5, 40}).to(half), w = randn({40}), b = randn({40});
    CHECK(equal(layer_norm(x, {40}, w, b), layer_norm(x.to(kFloat32), {40}, w, b).to(half)));
    CHECK(equal(rms_norm(x, w, 1e-5), rms_norm(x.to(kFloat32), w, 1e-5).to(half)));
    // Beside a residual, too.
    const Tensor r = randn({5, 40}).to(half);
    CHECK(add_layer_norm(x, r, {40}, w, b).norm.dtype() == half);
    CHECK(add_rms_norm(x, r, w).norm.dtype() == half);
  }
}

TEST_CASE("running statistics keep their dtype beside a half batch") {
  const Tensor x = randn({8, 3}).to(kBFloat16), mean = zeros({3}), variance = ones({3});
  const Tensor y = batch_norm(x, mean, variance, {.training = true});
  CHECK(y.dtype() == kBFloat16);
  CHECK(mean.dtype() == kFloat32);
  CHECK(amax(abs(mean)).item() > 0.0);
}

TEST_CASE("an empty batch is normalised to nothing and leaves the running statistics") {
  for (const Shape& shape : {Shape{0, 4}, Shape{0, 4, 3}, Shape{2, 4, 0}}) {
    const Tensor mean = full({4}, 5.0), variance = full({4}, 7.0);
    const Tensor w = ones({4}, {.requires_grad = true});
    const Tensor x = zeros(shape, {.requires_grad = true});
    for (const bool training : {false, true}) {
      const Tensor y = batch_norm(x, mean, variance, {.weight = w, .training = training});
      CHECK(y.shape() == shape);
      sum(y).backward();
    }
    CHECK(mean.to_vector<double>() == Values(4, 5.0));
    CHECK(variance.to_vector<double>() == Values(4, 7.0));
    CHECK(w.grad().to_vector<double>() == Values(4, 0.0));
  }
}

TEST_CASE("rms_norm's eps is by default that of the dtype it computes in") {
  CHECK_THAT(rms_norm(full({4}, 1e-3)).to_vector<float>()[0], WithinAbs(0.9452, 1e-4));
  CHECK_THAT(rms_norm(full({4}, 1e-3, {.dtype = kFloat64})).to_vector<double>()[0],
             WithinAbs(1.0, 1e-9));
  CHECK(rms_norm(full({4}, 1e-2, {.dtype = kFloat16})).to_vector<float>()[0] == 0.99951171875f);
  CHECK(rms_norm(full({4}, 1e-2, {.dtype = kBFloat16})).to_vector<float>()[0] == 1.0f);
  const Tensor x = full({2, 4}, 1e-3);
  CHECK(equal(add_rms_norm(x, zeros({2, 4})).norm, rms_norm(x)));
  CHECK(equal(rms_norm(x), rms_norm(x, {}, 0x1p-23)));
}

TEST_CASE("losses that are one operation in PyTorch keep x's dtype") {
  for (const DType of_x : kFloats) {
    for (const DType of_y : kFloats) {
      INFO(name(of_x) << " " << name(of_y));
      const Tensor x = tensor({0.25, 0.5, 0.75}, {.dtype = of_x, .requires_grad = true});
      const Tensor y = tensor({1.0, 0.0, 1.0}, {.dtype = of_y});
      for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
        CHECK(huber_loss(x, y, 1.0, reduction).dtype() == of_x);
        CHECK(soft_margin_loss(x, y, reduction).dtype() == of_x);
        CHECK(binary_cross_entropy(x, y, {.reduction = reduction}).dtype() == of_x);
        CHECK(binary_cross_entropy(x, x.detach(), {.weight = y, .reduction = reduction}).dtype() ==
              of_x);
        CHECK(binary_cross_entropy_with_logits(x, x.detach(), {.weight = y, .reduction = reduction})
                  .dtype() == of_x);
        CHECK(binary_cross_entropy_with_logits(x, x.detach(),
                                               {.pos_weight = y, .reduction = reduction})
                  .dtype() == of_x);
        CHECK(hinge_embedding_loss(x, y, 1.0, reduction).dtype() == of_x);
        // The others are made of operations and promote.
        CHECK(mse_loss(x, y, reduction).dtype() == promote(of_x, of_y));
        CHECK(l1_loss(x, y, reduction).dtype() == promote(of_x, of_y));
        CHECK(smooth_l1_loss(x, y, 1.0, reduction).dtype() == promote(of_x, of_y));
        CHECK(binary_cross_entropy_with_logits(x, y, {.reduction = reduction}).dtype() ==
              promote(of_x, of_y));
      }
      sum(huber_loss(x, y) + soft_margin_loss(x, y) + binary_cross_entropy(x, y)).backward();
      CHECK(x.grad().dtype() == of_x);
    }
  }
}

TEST_CASE("binary_cross_entropy refuses what is no probability, on either side") {
  const double nan = std::nan("");
  const Tensor half = tensor({0.5});
  for (const double wrong : {7.0, -0.1, nan}) {
    CHECK_THROWS_WITH(binary_cross_entropy(half, tensor({wrong})),
                      ContainsSubstring("y holds values outside [0, 1]"));
    CHECK_THROWS_WITH(binary_cross_entropy(tensor({wrong}), half),
                      ContainsSubstring("x holds values outside [0, 1]"));
  }
  CHECK(binary_cross_entropy(tensor({0.0, 1.0}), tensor({0.0, 1.0})).item() == 0.0);
  CHECK_NOTHROW(bce_with_logits(half, tensor({7.0})));
}

TEST_CASE("a weight without outputs is one of a single output whose dimension is dropped") {
  const Tensor w = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  CHECK(linear(ones({2, 3}), w).to_vector<double>() == Values{6, 6});
  CHECK(linear(ones({2, 2, 3}), w).shape() == Shape{2, 2});
  CHECK(linear(ones({3}), w).shape() == Shape{});
  CHECK(linear(ones({3}), w, tensor(1.0)).item() == 7.0);
  CHECK(linear_relu(ones({2, 3}), -w).to_vector<double>() == Values{0, 0});
  sum(linear(ones({2, 3}), w)).backward();
  CHECK(w.grad().to_vector<double>() == Values{2, 2, 2});
  CHECK_THROWS_WITH(linear(ones({2, 4}), w), ContainsSubstring("inner sizes differ"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), w, ones({2})), ContainsSubstring("a single output"));
}

TEST_CASE("whole channels drop out of rows and of volumes") {
  manual_seed(3);
  const Tensor rows = dropout2d(ones({20, 30}), 0.5, true);
  CHECK(all(logical_or(rows == 0, rows == 2)).item<bool>());
  CHECK(any(rows == 0).item<bool>());
  CHECK(any(rows == 2).item<bool>());
  const Tensor volumes = dropout2d(ones({4, 5, 2, 2, 2}), 0.5, true);
  CHECK(equal(amin(volumes, {2, 3, 4}), amax(volumes, {2, 3, 4})));
  CHECK_THROWS_WITH(dropout2d(ones({3}), 0.5, true), ContainsSubstring("must be [N, C, ...]"));
}
