// Networks of convolutions in bfloat16: products of halves as they are, and norms and pooling that
// read and write halves. core/products/test_convolve_bf16.cpp compares the products with sums in
// scalars.
#include "support/catch.h"
#include "support/half_products.h"
#include "support/kernel_cost.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>

using namespace hero;

namespace {

Tensor halves(const Shape& shape) { return randn(shape).to(kBFloat16).detach(); }

struct Shapes {
  Shape x, w;
  Conv2dOptions options = {};
};
const std::vector<Shapes> kShapes = {
    {{2, 3, 9, 9}, {5, 3, 3, 3}, {.padding = {1, 1}}},
    {{2, 4, 20, 33}, {40, 4, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {{3, 6, 8, 8}, {7, 6, 1, 1}},
    {{3, 6, 9, 9}, {8, 6, 1, 1}, {.stride = {2, 2}}},
    {{2, 6, 9, 9}, {8, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}},
    {{2, 70, 5, 4}, {9, 70, 3, 3}, {.padding = {1, 1}}},
};

// y and the gradients of x, w and bias.
std::vector<Tensor> run(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& g,
                        const Conv2dOptions& options) {
  const Tensor a = x.detach().requires_grad_(), b = w.detach().requires_grad_(),
               c = bias.detach().requires_grad_();
  const Tensor y = conv2d(a, b, c, options);
  y.backward(g.to(y.dtype()));
  return {y.detach(), a.grad(), b.grad(), c.grad()};
}

double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(kFloat64), y = b.to(kFloat64);
  return (norm(x - y) / norm(y)).item();
}

}  // namespace

TEST_CASE("a convolution of bfloat16 is rounded once, in either order of its products") {
  manual_seed(11);
  for (const Shapes& shapes : kShapes) {
    INFO(to_string(shapes.x) << " " << to_string(shapes.w));
    const Tensor x = halves(shapes.x), w = halves(shapes.w), bias = halves({shapes.w[0]});
    const Tensor g = halves(conv2d(x, w, bias, shapes.options).shape());
    const auto wide = run(x.to(kFloat32), w.to(kFloat32), bias.to(kFloat32), g, shapes.options);
    {
      const test::HalfProductsScope portable(HalfProducts::portable);
      const auto found = run(x, w, bias, g, shapes.options);
      for (size_t i = 0; i < found.size(); ++i) CHECK(equal(found[i], wide[i].to(kBFloat16)));
    }
    std::vector<Tensor> expected;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const auto found = run(x, w, bias, g, shapes.options);
      for (size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].dtype() == kBFloat16);
        // half of a unit in the last of 8 digits is 2^-8 of a number at most
        CHECK(distance(found[i], wide[i]) < 0x1p-8);
        if (!expected.empty()) CHECK(equal(found[i], expected[i]));
      }
      expected = found;
    }
    // While work is metered, and of other strides.
    hero_test::CostSum sum;
    {
      const core::CostScope metered(&sum);
      const auto found = run(x, w, bias, g, shapes.options);
      for (size_t i = 0; i < found.size(); ++i) CHECK(equal(found[i], expected[i]));
    }
    CHECK(sum.calls > 0);
    const Tensor turned = x.transpose(2, 3).contiguous().transpose(2, 3);
    CHECK(equal(conv2d(turned, w, bias, shapes.options), expected[0]));
    CHECK(equal(conv2d_relu(x, w, bias, shapes.options), relu(expected[0])));
  }
}

TEST_CASE("a transposed convolution of bfloat16 is rounded once") {
  manual_seed(12);
  for (const int64_t stride : {1, 2}) {
    const Tensor x = halves({2, 5, 6, 7}), w = halves({5, 4, 3, 3}), bias = halves({4});
    const ConvTranspose2dOptions options{.stride = {stride, stride}, .padding = {1, 1}};
    const Tensor wide =
        conv_transpose2d(x.to(kFloat32), w.to(kFloat32), bias.to(kFloat32), options);
    CHECK(distance(conv_transpose2d(x, w, bias, options), wide) < 0x1p-8);
    const test::HalfProductsScope portable(HalfProducts::portable);
    CHECK(equal(conv_transpose2d(x, w, bias, options), wide.to(kBFloat16)));
  }
}

TEST_CASE("a convolution of volumes of bfloat16 and its gradients are rounded once") {
  manual_seed(13);
  const Tensor x = halves({2, 3, 5, 6, 7}), w = halves({4, 3, 2, 3, 3}), bias = halves({4});
  const Conv3dOptions options{.padding = {1, 1, 1}};
  const auto all = [&](DType dtype) {
    const Tensor a = x.to(dtype).detach().requires_grad_(),
                 b = w.to(dtype).detach().requires_grad_();
    const Tensor y = conv3d(a, b, bias.to(dtype), options);
    y.backward(ones(y.shape(), {.dtype = dtype}));
    return std::vector<Tensor>{y, a.grad(), b.grad()};
  };
  const auto found = all(kBFloat16), wide = all(kFloat32);
  for (size_t i = 0; i < found.size(); ++i) CHECK(distance(found[i], wide[i]) < 0x1p-8);
}

TEST_CASE("an infinite weight meets no zeros around a native gradient of the output") {
  const Tensor x = ones({1, 1, 4, 4}, {.dtype = kBFloat16}).requires_grad_();
  Tensor w = ones({1, 1, 3, 3});
  w = where(arange(9).reshape({1, 1, 3, 3}) == 0.0, full({}, HUGE_VAL), w).to(kBFloat16);
  conv2d(x, w, {}, {.padding = {1, 1}}).backward(ones({1, 1, 4, 4}, {.dtype = kBFloat16}));
  CHECK(x.grad().select(2, 3).flatten().to_vector<double>() ==
        std::vector<double>{4.0, 6.0, 6.0, 4.0});
}

TEST_CASE("batch norm reads and writes bfloat16 beside float32 parameters") {
  manual_seed(14);
  for (const Shape& shape :
       {Shape{4, 6, 5, 7}, Shape{9, 20, 2, 2}, Shape{30, 5}, Shape{3, 2, 400}}) {
    for (const bool training : {true, false}) {
      INFO(to_string(shape) << " " << training);
      const Tensor x = halves(shape), g = halves(shape);
      const auto all = [&](DType dtype) {
        const Tensor a = x.to(dtype).detach().requires_grad_();
        const Tensor weight = linspace(0.5, 1.5, shape[1]).requires_grad_();
        const Tensor bias = linspace(-1.0, 1.0, shape[1]).requires_grad_();
        const Tensor mean = linspace(-0.1, 0.1, shape[1]), variance = ones({shape[1]});
        const Tensor y =
            batch_norm(a, mean, variance, {.weight = weight, .bias = bias, .training = training});
        y.backward(g.to(dtype));
        return std::vector<Tensor>{
            y.to(kBFloat16), a.grad().to(kBFloat16), weight.grad(), bias.grad(), mean, variance};
      };
      const auto found = all(kBFloat16), wide = all(kFloat32);
      for (size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].dtype() == wide[i].dtype());
        CHECK(equal(found[i], wide[i]));
      }
    }
  }
}

TEST_CASE("under Autocast halves stay halves from one convolution to the next") {
  manual_seed(15);
  const Tensor x = randn({2, 3, 8, 8}), w = randn({4, 3, 3, 3}), scale = ones({4});
  const Autocast autocast;
  const Tensor y = conv2d(x, w, {}, {.padding = {1, 1}});
  const Tensor z = batch_norm(y, {}, {}, {.weight = scale, .bias = scale, .training = true});
  CHECK(z.dtype() == kBFloat16);
  CHECK(max_pool2d(relu(z) + y, {2, 2}).dtype() == kBFloat16);
  CHECK(batch_norm(x, {}, {}, {.weight = ones({3}), .training = true}).dtype() == kFloat32);
}

TEST_CASE("max pooling of bfloat16 is that of float32") {
  manual_seed(16);
  for (const int64_t stride : {1, 2, 3}) {
    const Tensor x = halves({2, 3, 23, 37});
    const PoolOptions options{.stride = Pair{stride, stride}, .padding = {1, 1}};
    const auto all = [&](DType dtype) {
      const Tensor a = x.to(dtype).detach().requires_grad_();
      const Tensor y = max_pool2d(a, {3, 3}, options);
      y.backward(ones(y.shape(), {.dtype = dtype}));
      return std::vector<Tensor>{y.to(kFloat32), a.grad().to(kFloat32)};
    };
    const auto found = all(kBFloat16), wide = all(kFloat32);
    CHECK(equal(found[0], wide[0]));
    CHECK(equal(found[1], wide[1]));
  }
}
