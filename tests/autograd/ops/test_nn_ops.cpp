// Losses, normalisation, attention, cells: borders, messages and half precision. Values and
// derivatives are compared with references in test_golden_ops.cpp.
#include <cmath>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, bool requires_grad = false) {
  return randn(shape, {.dtype = kFloat64, .requires_grad = requires_grad});
}

// 1e-12: doubles, fewer than 100 terms of size 1.
bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-12); }

}  // namespace

TEST_CASE("cross_entropy names the target that is no class") {
  const Tensor x = zeros({4, 10});
  CHECK_THROWS_WITH(cross_entropy(x, tensor({1, 2, 3, 12})),
                    ContainsSubstring("cross_entropy: target 12 at position 3 is outside [0, 10)"));
  CHECK_THROWS_WITH(
      cross_entropy(x, tensor({1, -5, 3, 2})),
      ContainsSubstring("target -5 at position 1") && ContainsSubstring("ignore_index -100"));
  CHECK_THROWS_WITH(nll_loss(x, tensor({1, 2, 10, 0})),
                    ContainsSubstring("nll_loss: target 10 at position 2"));
  CHECK_NOTHROW(cross_entropy(x, tensor({1, 2, 3, 12}), {.ignore_index = 12}));
}

TEST_CASE("cross_entropy says what is wrong with dtypes, shapes and options") {
  const Tensor x = zeros({4, 10}), target = tensor({1, 2, 3, 4});
  CHECK_THROWS_WITH(cross_entropy(x, zeros({4})),
                    ContainsSubstring("target is float32; it holds class numbers"));
  CHECK_THROWS_WITH(cross_entropy(x.to(kInt64), target), ContainsSubstring("x is int64"));
  CHECK_THROWS_WITH(
      cross_entropy(x, tensor({1, 2})),
      ContainsSubstring("target [2] does not fit logits [4, 10]") && ContainsSubstring("[4]"));
  CHECK_THROWS_WITH(cross_entropy(x, target, {.weight = ones({4})}),
                    ContainsSubstring("weight [4] does not fit 10 classes"));
  CHECK_THROWS_WITH(cross_entropy(x, target, {.label_smoothing = 1.5}),
                    ContainsSubstring("label_smoothing 1.5"));
}

TEST_CASE("cross_entropy of nothing is NaN as a mean and 0 as a sum") {
  const Tensor x = random({3, 4}, true), ignored = tensor({-100, -100, -100});
  CHECK(std::isnan(cross_entropy(x, ignored).item()));
  CHECK(cross_entropy(x, ignored, {.reduction = Reduction::sum}).item() == 0.0);
  CHECK(cross_entropy(x, ignored, {.reduction = Reduction::none, .label_smoothing = 0.1})
            .to_vector<double>() == std::vector<double>{0, 0, 0});
  const Tensor none = zeros({0}, {.dtype = kInt64});
  CHECK(std::isnan(cross_entropy(zeros({0, 4}), none).item()));
  CHECK(cross_entropy(zeros({0, 4}), none, {.reduction = Reduction::sum}).item() == 0.0);
}

TEST_CASE("losses of classes give gradients of 0 where no target counts, in every form") {
  const auto check_none = [](const Tensor& loss, const Tensors& inputs, bool mean) {
    CHECK(std::isnan(loss.item()) == mean);
    for (const Tensor& g : grad({loss * 3.0}, inputs)) CHECK(equal(g, zeros_like(g)));
  };
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    const auto random_leaf = [&](const Shape& shape) {
      return randn(shape, {.dtype = dtype}).requires_grad_();
    };
    for (const int64_t rows : {3, 0}) {
      const Tensor ignored = full({rows}, -100);
      const Tensor x = random_leaf({rows, 4}), weight = random_leaf({5, 4}),
                   bias = random_leaf({5});
      const Tensor each = ones({5}, {.dtype = dtype});
      for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
        const bool mean = reduction == Reduction::mean;
        for (const double smoothing : {0.0, 0.1}) {
          for (const bool weighs : {false, true}) {
            const Tensor weights = weighs ? each : Tensor();
            INFO(dtype << ", " << rows << " rows, mean " << mean << ", smoothing " << smoothing
                       << ", weights " << weighs);
            check_none(cross_entropy(x, ignored,
                                     {.weight = weighs ? ones({4}, {.dtype = dtype}) : Tensor(),
                                      .reduction = reduction,
                                      .label_smoothing = smoothing}),
                       {x}, mean);
            for (const int64_t chunk : {1, 2, 3, 1000}) {
              const LinearCrossEntropyOptions options{.weight = weights,
                                                      .reduction = reduction,
                                                      .label_smoothing = smoothing,
                                                      .batch_chunk_size = chunk};
              check_none(linear_cross_entropy(x, weight, ignored, options), {x, weight}, mean);
              LinearCrossEntropyOptions shifted = options;
              shifted.linear_bias = bias;
              check_none(linear_cross_entropy(x, weight, ignored, shifted), {x, weight, bias},
                         mean);
            }
          }
        }
        check_none(nll_loss(x, ignored, {.reduction = reduction}), {x}, mean);
        const Tensor weights = ones({4}, {.dtype = dtype});
        check_none(nll_loss(x, ignored, {.weight = weights, .reduction = reduction}), {x}, mean);
      }
    }
  }
  // A mean of several dimensions, and a factor that is infinite itself.
  const Tensor image = random({2, 3, 4}, true), x = random({2, 4}, true), w = random({5, 4}, true);
  check_none(cross_entropy(image, full({2, 4}, -100)), {image}, true);
  const Tensor sum = linear_cross_entropy(x, w, full({2}, -100), {.reduction = Reduction::sum});
  for (const Tensor& g : grad({sum / 0.0}, {x, w})) CHECK(equal(g, zeros_like(g)));
  // Derivatives of gradients, too.
  const Tensor first = grad(linear_cross_entropy(x, w, full({2}, -100)), x, {.create_graph = true});
  CHECK(equal(first, zeros_like(first)));
}

TEST_CASE("cross_entropy gives ignored rows no gradient and takes int32 targets") {
  const Tensor x = random({3, 4}, true);
  cross_entropy(x, tensor({1, -100, 2}).to(kInt32)).backward();
  const std::vector<double> g = x.grad().to_vector<double>();
  for (size_t i = 4; i < 8; ++i) CHECK(g[i] == 0.0);
  CHECK(g[1] < 0.0);
  // Two rows count: (softmax - onehot) / 2.
  Tensor expected = softmax(x.detach(), 1) / 2;
  expected = expected - one_hot(tensor({1, 0, 2}), 4).to(kFloat64) / 2;
  CHECK(near(x.grad().slice(0, 0, 1), expected.slice(0, 0, 1)));
  CHECK(near(x.grad().slice(0, 2), expected.slice(0, 2)));
}

TEST_CASE("cross_entropy is log_softmax and nll_loss, also in derivatives with recording on") {
  const Tensor target = tensor({1, 3, 0}), weight = tensor({0.5, 2.0, 1.0, 3.0});
  const auto loss = [&](const std::vector<Tensor>& x) {
    return cross_entropy(x[0], target, {.weight = weight.to(kFloat64), .label_smoothing = 0.2});
  };
  const Tensor x = random({3, 4}, true);
  CHECK(gradcheck(loss, {x}));
  CHECK(gradgradcheck(loss, {x}));
  CHECK(near(cross_entropy(x, target), nll_loss(log_softmax(x, 1), target)));
}

TEST_CASE("losses of two tensors refuse shapes that would broadcast") {
  const Tensor x = zeros({4, 1}), y = zeros({4});
  CHECK_THROWS_WITH(mse_loss(x, y), ContainsSubstring("mse_loss: shapes differ: [4, 1] and [4]"));
  CHECK_THROWS_WITH(l1_loss(x, y), ContainsSubstring("l1_loss: shapes differ"));
  CHECK_THROWS_WITH(kl_div(x, y), ContainsSubstring("kl_div: shapes differ"));
  CHECK_THROWS_WITH(bce_with_logits(x, y), ContainsSubstring("bce_with_logits: shapes differ"));
  CHECK_THROWS_WITH(huber_loss(y, y, 0.0), ContainsSubstring("delta must be positive"));
}

TEST_CASE("binary cross entropy stays finite for large logits") {
  const Tensor x = tensor({-1e4, 1e4, -1e4, 1e4}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = tensor({0.0, 1.0, 1.0, 0.0}, {.dtype = kFloat64});
  const Tensor loss = bce_with_logits(x, y, {}, Reduction::none);
  CHECK(loss.to_vector<double>() == std::vector<double>{0, 0, 1e4, 1e4});
  sum(loss).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, -1, 1});
}

TEST_CASE("cosine similarity of parallel, orthogonal and zero vectors") {
  const Tensor a = tensor({{3, 4}, {1, 0}, {0, 0}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor b = tensor({{6, 8}, {0, 2}, {1, 1}}, {.dtype = kFloat64});
  const Tensor similarity = cosine_similarity(a, b);
  CHECK(near(similarity, tensor({1.0, 0.0, 0.0}, {.dtype = kFloat64})));
  sum(similarity).backward();
  CHECK(all(isfinite(a.grad())).item() == 1.0);
  const auto f = [](const std::vector<Tensor>& x) { return cosine_similarity(x[0], x[1], 0); };
  CHECK(gradgradcheck(f, {random({3, 2}, true), random({3, 1}, true)}));
}

TEST_CASE("softmax takes a scalar, refuses integers and keeps half precision") {
  CHECK(softmax(tensor(3.0), 0).item() == 1.0);
  CHECK(log_softmax(tensor(3.0), -1).item() == 0.0);
  CHECK_THROWS_WITH(softmax(tensor({1, 2}), 0), ContainsSubstring("softmax: x is int64"));
  CHECK_THROWS_WITH(log_softmax(zeros({2}), 1), ContainsSubstring("log_softmax: "));
  const Tensor x = tensor({1.0f, 2.0f, 3.0f}).to(kBFloat16).requires_grad_();
  const Tensor y = softmax(x, 0);
  CHECK(y.dtype() == kBFloat16);
  sum(y * y).backward();
  CHECK(x.grad().dtype() == kBFloat16);
}

TEST_CASE("softmax's fused gradient is the composed one") {
  const Tensor x = random({5, 7}, true), g = random({5, 7});
  using Softmax = Tensor (*)(const Tensor&, int64_t);
  for (const Softmax f : {Softmax(softmax), Softmax(log_softmax)}) {
    const Tensor fused = grad(f(x, 1), x, {.grad_outputs = {g}});
    const Tensor composed = grad(f(x, 1), x, {.grad_outputs = {g}, .create_graph = true});
    CHECK(near(fused, composed));
  }
}

TEST_CASE("normalisation says which shape it expects") {
  const Tensor x = zeros({2, 6, 3});
  CHECK_THROWS_WITH(layer_norm(x, {6}), ContainsSubstring("normalized_shape [6] is not a tail of "
                                                          "x's shape [2, 6, 3]"));
  CHECK_THROWS_WITH(layer_norm(x, {3}, ones({6})),
                    ContainsSubstring("weight has shape [6]; it should be [3]"));
  CHECK_THROWS_WITH(group_norm(x, 4), ContainsSubstring("6 channels do not divide into 4 groups"));
  CHECK_THROWS_WITH(rms_norm(x, ones({6})), ContainsSubstring("rms_norm: weight has shape [6]"));
  CHECK_THROWS_WITH(batch_norm(x, {}, {}), ContainsSubstring("needed unless training"));
  CHECK_THROWS_WITH(batch_norm(zeros({1, 6}), {}, {}, {.training = true}),
                    ContainsSubstring("more than one value per channel"));
  CHECK_THROWS_WITH(layer_norm(x.to(kInt64), {3}), ContainsSubstring("x is int64"));
}

TEST_CASE("normalisation of an empty batch is empty") {
  const Tensor x = zeros({0, 4}, {.requires_grad = true});
  sum(layer_norm(x, {4}, ones({4}), zeros({4}))).backward();
  CHECK(x.grad().shape() == Shape{0, 4});
  CHECK(group_norm(zeros({0, 4, 3}), 2).shape() == Shape{0, 4, 3});
  CHECK(rms_norm(zeros({0, 4})).shape() == Shape{0, 4});
}

TEST_CASE("batch_norm updates running statistics in training only") {
  const Tensor x = tensor({{1, 10}, {3, 20}, {5, 60}}, {.dtype = kFloat64});
  const Tensor mean = zeros({2}, {.dtype = kFloat64}), variance = ones({2}, {.dtype = kFloat64});
  batch_norm(x, mean, variance, {.training = false});
  CHECK(mean.to_vector<double>() == std::vector<double>{0, 0});
  batch_norm(x, mean, variance, {.training = true, .momentum = 0.5});
  CHECK(near(mean, tensor({1.5, 15.0}, {.dtype = kFloat64})));
  // Unbiased variances 4 and 700.
  CHECK(near(variance, tensor({2.5, 350.5}, {.dtype = kFloat64})));
  const Tensor y = batch_norm(x, {}, {}, {.training = true});
  CHECK(near(y.sum({0}), zeros({2}, {.dtype = kFloat64})));
}

TEST_CASE("batch_norm reads half precision and keeps its statistics in float") {
  const Tensor x = randn({64, 2}).to(kBFloat16);
  const Tensor mean = zeros({2}), variance = ones({2});
  CHECK(batch_norm(x, mean, variance, {.training = true}).dtype() == kBFloat16);
  CHECK(mean.dtype() == kFloat32);
}

TEST_CASE("normalisation does not lose its digits to a large mean") {
  // The variance is taken from deviations: mean 1e6 leaves float's 24 bits about 4 for the digits.
  const Tensor x = tensor({1e6f - 1, 1e6f, 1e6f + 1, 1e6f});
  const std::vector<float> y = layer_norm(x, {4}).to_vector<float>();
  // 1 / sqrt(0.5 + 1e-5), in float.
  CHECK(std::abs(y[0] + 1.4141995f) < 1e-6f);
  CHECK(std::abs(y[2] - 1.4141995f) < 1e-6f);
}

TEST_CASE("attention says which operands do not fit") {
  const Tensor q = zeros({2, 3, 4});
  CHECK_THROWS_WITH(scaled_dot_product_attention(q, zeros({2, 3, 5}), q),
                    ContainsSubstring("q and k differ in their last size"));
  CHECK_THROWS_WITH(scaled_dot_product_attention(q, q, zeros({2, 5, 4})),
                    ContainsSubstring("k and v differ in their number of rows"));
  CHECK_THROWS_WITH(scaled_dot_product_attention(q, q, q, {.mask = ones({3, 3})}),
                    ContainsSubstring("mask is float32; pass numbers to add as bias"));
}

TEST_CASE("causal attention does not look ahead") {
  const Tensor q = random({1, 4, 3}), k = random({1, 4, 3}), v = random({1, 4, 2});
  const Tensor before = scaled_dot_product_attention(q, k, v, {.is_causal = true});
  const Tensor changed = cat({v.slice(1, 0, 3), random({1, 1, 2})}, 1);
  const Tensor after = scaled_dot_product_attention(q, k, changed, {.is_causal = true});
  CHECK(equal(before.slice(1, 0, 3), after.slice(1, 0, 3)));
  CHECK_FALSE(equal(before.slice(1, 3), after.slice(1, 3)));
  CHECK(near(before.select(1, 0), v.select(1, 0)));
}

TEST_CASE("cells name the weight that does not fit") {
  const Tensor x = zeros({2, 3}), h = zeros({2, 4});
  CellWeights weights{zeros({16, 3}), zeros({16, 4}), zeros({16}), zeros({16})};
  CHECK(lstm_cell(x, {h, h}, weights).h.shape() == Shape{2, 4});
  CHECK_THROWS_WITH(gru_cell(x, h, weights),
                    ContainsSubstring("gru_cell: w_ih has shape [16, 3]; it should be [12, 3]"));
  CHECK_THROWS_WITH(rnn_cell(x, zeros({3, 4}), weights),
                    ContainsSubstring("state [3, 4] does not fit x [2, 3]"));
  weights.b_ih = weights.b_hh = {};
  CHECK(lstm_cell(x, {h, h}, weights).c.shape() == Shape{2, 4});
}

TEST_CASE("rms_norm takes the shape over which it normalises") {
  const Tensor x = randn({4, 2, 3}), weight = rand({2, 3}), one = rand({3});
  const Tensor flat = rms_norm(reshape(x, {4, 6}), reshape(weight, {6}), 0.125);
  CHECK(equal(rms_norm(x, {2, 3}, weight, 0.125), reshape(flat, {4, 2, 3})));
  CHECK(equal(rms_norm(x, {3}, one), rms_norm(x, one)));
  CHECK(equal(rms_norm(x, Shape{3}), rms_norm(x)));
  CHECK(equal(rms_norm(x, {}, 0.5), rms_norm(x, Tensor(), 0.5)));
  CHECK_THROWS_WITH(rms_norm(x, {4, 3}), ContainsSubstring("normalized_shape [4, 3] must be"));
  CHECK_THROWS_WITH(rms_norm(x, {2, 3}, one), ContainsSubstring("weight of shape [3]"));
}

TEST_CASE("kl_div of one number is a batch of one") {
  const Tensor x = tensor(std::log(0.5)), y = tensor(0.25);
  CHECK(equal(kl_div(x, y, KlReduction::batchmean), kl_div(x, y, KlReduction::sum)));
}

TEST_CASE("normalisations refuse an eps that would make a root of negative numbers") {
  const Tensor x = ones({2, 4}), zero = zeros({4}), one = ones({4});
  const auto says = [](const std::string& op) { return ContainsSubstring(op + ": eps must not"); };
  CHECK_THROWS_WITH(layer_norm(x, {4}, {}, {}, -1.0), says("layer_norm"));
  CHECK_THROWS_WITH(rms_norm(x, {}, -1.0), says("rms_norm"));
  CHECK_THROWS_WITH(group_norm(x, 2, {}, {}, -1e-5), says("group_norm"));
  CHECK_THROWS_WITH(batch_norm(x, zero, one, {.eps = -1.0}), says("batch_norm"));
  CHECK_THROWS_WITH(batch_norm(x, {}, {}, {.training = true, .eps = std::nan("")}),
                    says("batch_norm"));
}
