// Convolution and pooling: borders, messages, and sums against plain loops.
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/core/ledger.h>
#include <hero/core/thread_pool.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor random(const Shape& shape, bool requires_grad = false) {
  return randn(shape, {.dtype = kFloat64, .requires_grad = requires_grad});
}

bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-11, 1e-11); }

// A convolution's definition, element by element.
Tensor plain_conv(const Tensor& x, const Tensor& w, const Conv2dOptions& o, const Shape& out) {
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>();
  const int64_t H = x.size(2), W = x.size(3), inner = w.size(1), outputs = out[1] / o.groups;
  std::vector<double> ys;
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t c = 0; c < out[1]; ++c)
      for (int64_t i = 0; i < out[2]; ++i)
        for (int64_t j = 0; j < out[3]; ++j) {
          double total = 0;
          for (int64_t k = 0; k < inner; ++k)
            for (int64_t a = 0; a < w.size(2); ++a)
              for (int64_t b = 0; b < w.size(3); ++b) {
                const int64_t row = i * o.stride[0] - o.padding[0] + a * o.dilation[0];
                const int64_t column = j * o.stride[1] - o.padding[1] + b * o.dilation[1];
                if (row < 0 || row >= H || column < 0 || column >= W) continue;
                const int64_t channel = c / outputs * inner + k;
                const int64_t at = ((n * x.size(1) + channel) * H + row) * W + column;
                const int64_t tap = ((c * inner + k) * w.size(2) + a) * w.size(3) + b;
                total += xs[static_cast<size_t>(at)] * ws[static_cast<size_t>(tap)];
              }
          ys.push_back(total);
        }
  return reshape(tensor(ys, {.dtype = kFloat64}), out);
}

}  // namespace

TEST_CASE("conv2d equals its definition for strides, paddings, dilations and groups") {
  for (const int64_t groups : {1, 2, 4}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t dilation : {1, 2}) {
        const Conv2dOptions options{.stride = {stride, 1},
                                    .padding = {2, dilation},
                                    .dilation = {1, dilation},
                                    .groups = groups};
        const Tensor x = random({3, 4, 7, 6}), w = random({8, 4 / groups, 3, 2});
        const Tensor y = conv2d(x, w, {}, options);
        CHECK(near(y, plain_conv(x, w, options, y.shape())));
        // One image is computed as in a batch.
        CHECK(equal(conv2d(x.select(0, 1), w, {}, options), y.select(0, 1)));
      }
    }
  }
}

TEST_CASE("convolution has derivatives of any order") {
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  const auto conv = [&](const std::vector<Tensor>& t) { return conv2d(t[0], t[1], t[2], options); };
  const auto back = [&](const std::vector<Tensor>& t) {
    return conv_transpose2d(t[0], t[1], t[2], {.stride = {2, 2}, .output_padding = {1, 0}});
  };
  const std::vector<Tensor> inputs = {random({2, 4, 5, 5}, true), random({2, 2, 3, 2}, true),
                                      random({2}, true)};
  CHECK(gradcheck(conv, inputs));
  CHECK(gradgradcheck(conv, inputs));
  const std::vector<Tensor> turned = {random({2, 3, 2, 3}, true), random({3, 2, 2, 3}, true),
                                      random({2}, true)};
  CHECK(gradgradcheck(back, turned));
  // Third order: the gradient of a squared norm of second derivatives.
  const auto third = [&](const std::vector<Tensor>& t) {
    const Tensor y = sum(square(conv2d(t[0], t[1], t[2], options)));
    return grad(y, t[1], {.create_graph = true});
  };
  CHECK(gradgradcheck(third, inputs));
}

TEST_CASE("conv2d over many images in pieces is the sum over single images") {
  // 3 * 25 rows of 32 * 32 places in float64 are 0.6 MB an image: pieces of 6 images and a rest.
  const Tensor x = random({10, 3, 36, 36}, true), w = random({2, 3, 5, 5}, true);
  const Tensor y = conv2d(x, w);
  const Tensor g = random(y.shape());
  const std::vector<Tensor> whole = grad({y}, {x, w}, {.grad_outputs = {g}});
  Tensor of_w = zeros(w.shape(), {.dtype = kFloat64});
  for (int64_t n = 0; n < 10; ++n) {
    const Tensor one = x.detach().slice(0, n, n + 1).requires_grad_();
    const Tensor out = conv2d(one, w);
    CHECK(equal(out, y.slice(0, n, n + 1)));
    const auto parts = grad({out}, {one, w}, {.grad_outputs = {g.slice(0, n, n + 1)}});
    CHECK(equal(parts[0], whole[0].slice(0, n, n + 1)));
    of_w = of_w + parts[1];
  }
  CHECK(near(whole[1], of_w));
}

TEST_CASE("conv2d holds columns of a few images only") {
  const Tensor x = zeros({64, 16, 32, 32}), w = zeros({16, 16, 3, 3});
  const int64_t before = current_ledger().live();
  current_ledger().reset_peak();
  const Tensor y = conv2d(x, w, {}, {.padding = {1, 1}});
  const int64_t scratch = current_ledger().peak() - before - y.array().nbytes();
  // All columns at once would be 9 times x: 37.7 MB.
  CHECK(scratch <= (int64_t{4} << 20) + w.array().nbytes());
}

TEST_CASE("convolutions keep their bits for any number of threads") {
  const Tensor x = randn({5, 6, 17, 19}), w = randn({8, 3, 3, 3});
  const auto run = [&] {
    const Tensor a = x.detach().requires_grad_(), b = w.detach().requires_grad_();
    const Tensor y = conv2d(a, b, {}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2});
    sum(square(y)).backward();
    return std::vector<Tensor>{y.detach(), a.grad(), b.grad()};
  };
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3}) {
    const ThreadLimit limit(threads);
    const std::vector<Tensor> results = run();
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i) CHECK(equal(results[i], first[i]));
  }
}

TEST_CASE("convolutions say what does not fit") {
  const Tensor x = zeros({1, 4, 5, 5});
  CHECK_THROWS_WITH(conv2d(x, zeros({2, 3, 3, 3})),
                    ContainsSubstring("conv2d: x [1, 4, 5, 5] does not fit weight [2, 3, 3, 3]"));
  CHECK_THROWS_WITH(conv2d(x, zeros({2, 4, 3, 3}, {.dtype = kFloat64})),
                    ContainsSubstring("x is float32 and weight float64"));
  CHECK_THROWS_WITH(conv2d(x, zeros({2, 4, 6, 3})), ContainsSubstring("larger than the padded"));
  CHECK_THROWS_WITH(conv2d(x, zeros({3, 2, 3, 3}), {}, {.groups = 2}),
                    ContainsSubstring("groups = 2"));
  CHECK_THROWS_WITH(conv2d(x, zeros({2, 4, 3, 3}), zeros({3})),
                    ContainsSubstring("bias has shape [3]; it should be [2]"));
  CHECK_THROWS_WITH(conv2d(x, zeros({2, 4, 3, 3}), {}, {.stride = {0, 1}}),
                    ContainsSubstring("stride"));
  CHECK_THROWS_WITH(conv1d(x, zeros({2, 4, 3})), ContainsSubstring("conv1d: x must be [N, C, L]"));
  CHECK_THROWS_WITH(conv_transpose2d(x, zeros({3, 2, 3, 3})),
                    ContainsSubstring("conv_transpose2d: x [1, 4, 5, 5] does not fit"));
  CHECK_THROWS_WITH(conv_transpose2d(x, zeros({4, 2, 3, 3}), {}, {.output_padding = {1, 0}}),
                    ContainsSubstring("output_padding 1"));
}

TEST_CASE("windows over an empty batch give empty results and zero gradients") {
  const Tensor x = zeros({0, 4, 5, 5}, {.requires_grad = true});
  const Tensor w = ones({2, 4, 3, 3}, {.requires_grad = true});
  sum(conv2d(x, w)).backward();
  CHECK(x.grad().shape() == Shape{0, 4, 5, 5});
  CHECK(equal(w.grad(), zeros({2, 4, 3, 3})));
  CHECK(max_pool2d(x, {2, 2}).shape() == Shape{0, 4, 2, 2});
  CHECK(avg_pool2d(x, {2, 2}).shape() == Shape{0, 4, 2, 2});
  CHECK(adaptive_avg_pool2d(x, {3, 2}).shape() == Shape{0, 4, 3, 2});
  CHECK(conv_transpose2d(x, zeros({4, 2, 3, 3})).shape() == Shape{0, 2, 7, 7});
}

TEST_CASE("windows keep half precision and work on the meta device") {
  const Tensor x = randn({2, 4, 6, 6}), w = randn({3, 4, 3, 3});
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor y = conv2d(x.to(dtype), w.to(dtype));
    CHECK(y.dtype() == dtype);
    // Operands are rounded the same way, products added in float and rounded once more.
    const Tensor exact = conv2d(x.to(dtype).to(kFloat32), w.to(dtype).to(kFloat32));
    CHECK(equal(y, exact.to(dtype)));
    CHECK(max_pool2d(x.to(dtype), {2, 2}).dtype() == dtype);
  }
  const Tensor meta = zeros({2, 4, 6, 6}, {.device = kMeta, .requires_grad = true});
  const Tensor y = max_pool2d(conv2d(meta, w.to(kMeta)), {2, 2});
  CHECK(y.shape() == Shape{2, 3, 2, 2});
  sum(y).backward();
  CHECK(meta.grad().shape() == meta.shape());
}

TEST_CASE("max pooling takes the first of equals, keeps NaN and never the padding") {
  const Tensor x = reshape(tensor({-5.0, -5.0, -7.0, -5.0}, {.requires_grad = true}), {1, 1, 2, 2});
  x.retain_grad();
  const Tensor y = max_pool2d(x, {2, 2});
  CHECK(y.item() == -5.0);
  y.backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 0, 0, 0});
  const Tensor padded = max_pool2d(x.detach(), {2, 2}, {.stride = Pair{1, 1}, .padding = {1, 1}});
  CHECK(padded.to_vector<double>() == std::vector<double>{-5, -5, -5, -5, -5, -5, -7, -5, -5});
  const Tensor with_nan = reshape(tensor({1.0, std::nan(""), 3.0, 2.0}), {1, 1, 2, 2});
  CHECK(std::isnan(max_pool2d(with_nan, {2, 2}).item()));
}

TEST_CASE("ceil_mode adds a last window only where it starts inside the image") {
  const Tensor x = zeros({1, 1, 5, 4});
  const auto size = [&](Pair kernel, Pair stride, Pair padding) {
    return max_pool2d(x, kernel, {.stride = stride, .padding = padding, .ceil_mode = true}).shape();
  };
  CHECK(size({2, 2}, {2, 2}, {0, 0}) == Shape{1, 1, 3, 2});
  CHECK(size({3, 3}, {2, 2}, {0, 0}) == Shape{1, 1, 2, 2});
  // The window at 6 - 1 would start in the right padding.
  CHECK(size({2, 2}, {3, 3}, {1, 1}) == Shape{1, 1, 2, 2});
}

TEST_CASE("pooling says what does not fit") {
  const Tensor x = zeros({1, 1, 4, 4});
  CHECK_THROWS_WITH(max_pool2d(x, {5, 5}), ContainsSubstring("a window of 5 does not fit"));
  CHECK_THROWS_WITH(max_pool2d(x, {2, 2}, {.padding = {2, 2}}),
                    ContainsSubstring("padding 2 must lie between 0 and half"));
  CHECK_THROWS_WITH(avg_pool2d(x, {2, 2}, {.dilation = {2, 2}}),
                    ContainsSubstring("dilation is for max pooling only"));
  CHECK_THROWS_WITH(max_pool2d(zeros({4, 4}), {2, 2}), ContainsSubstring("[N, C, H, W]"));
  CHECK_THROWS_WITH(adaptive_avg_pool2d(x, {-2, 1}), ContainsSubstring("must not be negative"));
}

TEST_CASE("one number stands for all dimensions of a window") {
  const Tensor x = randn({2, 3, 6, 6}), volume = randn({2, 3, 4, 4, 4});
  CHECK(equal(max_pool2d(x, 2), max_pool2d(x, {2, 2})));
  CHECK(equal(avg_pool2d(x, 3, {.stride = 1, .padding = 1}),
              avg_pool2d(x, {3, 3}, {.stride = Pair{1, 1}, .padding = {1, 1}})));
  CHECK(equal(adaptive_avg_pool2d(x, 4), adaptive_avg_pool2d(x, {4, 4})));
  CHECK(equal(adaptive_avg_pool2d(x, 1), mean(x, {2, 3}, true)));
  CHECK(equal(adaptive_max_pool2d(x, -1), x));
  CHECK(equal(lp_pool2d(x, 1.0, 2), lp_pool2d(x, 1.0, {2, 2})));
  CHECK(equal(upsample_nearest2d(x, 12), upsample_nearest2d(x, {12, 12})));
  CHECK(equal(max_pool3d(volume, 2), max_pool3d(volume, {2, 2, 2})));
  CHECK(equal(avg_pool3d(volume, 2, {.stride = 1}),
              avg_pool3d(volume, {2, 2, 2}, {.stride = Triple{1, 1, 1}})));
  CHECK(equal(adaptive_avg_pool3d(volume, 2), adaptive_avg_pool3d(volume, {2, 2, 2})));
  CHECK(equal(fold(unfold(x, 2, {.stride = 2}), 6, 2, {.stride = 2}), x));
  const ValuesIndices found = max_pool2d_with_indices(x, 2);
  CHECK(max_unpool2d(found.values, found.indices, 6).shape() == x.shape());
  const Tensor weight = randn({3, 3, 3, 3});
  CHECK(equal(conv2d(x, weight, {}, {.stride = 2, .padding = 1}),
              conv2d(x, weight, {}, {.stride = {2, 2}, .padding = {1, 1}})));
  const auto [height, width] = Pair(3);
  CHECK(height == 3);
  CHECK(width == 3);
}

TEST_CASE("adaptive pools to a size of 0 give nothing, with zeros as the gradient") {
  const Tensor x = randn({2, 3, 4, 5}).requires_grad_();
  CHECK(adaptive_avg_pool2d(x, 0).shape() == Shape{2, 3, 0, 0});
  CHECK(adaptive_avg_pool2d(x[0], {2, 0}).shape() == Shape{3, 2, 0});
  const ValuesIndices found = adaptive_max_pool2d_with_indices(x, {0, 7});
  CHECK(found.values.shape() == Shape{2, 3, 0, 7});
  CHECK(found.indices.shape() == Shape{2, 3, 0, 7});
  CHECK(adaptive_avg_pool1d(x[0], 0).shape() == Shape{3, 4, 0});
  CHECK(adaptive_max_pool1d(x[0], 0).shape() == Shape{3, 4, 0});
  CHECK(adaptive_avg_pool3d(unsqueeze(x, 0), {0, 1, 2}).shape() == Shape{1, 2, 0, 1, 2});
  CHECK(adaptive_max_pool3d(unsqueeze(x, 0), {1, 0, 2}).shape() == Shape{1, 2, 1, 0, 2});
  (adaptive_avg_pool2d(x, {0, 2}).sum() + adaptive_max_pool2d(x, {3, 0}).sum()).backward();
  CHECK(equal(x.grad(), zeros_like(x)));
  const InterpolateOptions no_columns{.size = {2, 0}, .mode = Interpolation::area};
  const Tensor none = interpolate(x, no_columns);
  CHECK(none.shape() == Shape{2, 3, 2, 0});
  CHECK(equal(grad(none.sum(), x), zeros_like(x)));
  CHECK_THROWS_WITH(interpolate(x, {.size = {2, 0}}), ContainsSubstring("must be positive"));
  CHECK_THROWS_WITH(adaptive_avg_pool2d(x, -2),
                    ContainsSubstring("output_size must not be negative"));
  CHECK_THROWS_WITH(adaptive_max_pool2d(zeros({2, 3, 0, 4}), 2),
                    ContainsSubstring("x has no pixels"));
}

TEST_CASE("max pooling refuses windows of padding alone") {
  const auto alone = Catch::Matchers::ContainsSubstring("has padding alone");
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    // Positions -1 and 3 of three.
    const Tensor line = arange(1, 4).to(dtype).reshape({1, 1, 3});
    CHECK_THROWS_WITH(max_pool1d(line, 2, {.stride = 1, .padding = 1, .dilation = 4}), alone);
    const Tensor image = line.reshape({1, 3, 1}), volume = line.reshape({1, 3, 1, 1});
    CHECK_THROWS_WITH(
        max_pool2d(image, {2, 1}, {.stride = 1, .padding = {1, 0}, .dilation = {4, 1}}), alone);
    CHECK_THROWS_WITH(
        max_pool3d(volume, {2, 1, 1}, {.stride = 1, .padding = {1, 0, 0}, .dilation = {4, 1, 1}}),
        alone);
    // Positions -1 and 2, 0 and 3: each window has one element.
    const Tensor x = line.detach().requires_grad_();
    const ValuesIndices found =
        max_pool1d_with_indices(x, 2, {.stride = 1, .padding = 1, .dilation = 3});
    CHECK(found.values.to_vector<double>() == std::vector<double>{3, 1});
    CHECK(found.indices.to_vector<double>() == std::vector<double>{2, 0});
    CHECK(grad(sum(found.values), x).to_vector<double>() == std::vector<double>{1, 0, 1});
    // Windows that hang over the end, from -2 on: taps at 1 and 4.
    const Pool1dOptions hanging{.stride = 6, .padding = 2, .dilation = 3, .ceil_mode = true};
    CHECK(max_pool1d(line.narrow(2, 0, 2), 4, hanging).to_vector<double>() ==
          std::vector<double>{2});
    CHECK_THROWS_WITH(max_pool1d(line.narrow(2, 0, 1), 4, hanging), alone);
  }
}
