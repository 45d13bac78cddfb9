// Transposed convolution against its definition: where every element of x goes, written as loops.
#include <random>

#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

using Values = std::vector<double>;

struct Case {
  int64_t images, channels, outputs, groups;  // outputs: of a group
  Pair size, kernel;
  ConvTranspose2dOptions options;

  Shape x() const { return {images, channels, size[0], size[1]}; }
  Shape w() const { return {channels, outputs, kernel[0], kernel[1]}; }
  Shape y() const { return {images, outputs * groups, length(0), length(1)}; }
  int64_t length(size_t axis) const {
    return (size[axis] - 1) * options.stride[axis] - 2 * options.padding[axis] +
           options.dilation[axis] * (kernel[axis] - 1) + options.output_padding[axis] + 1;
  }
};

std::string text(const Case& c) {
  const auto pair = [](const Pair& p) {
    return std::to_string(p[0]) + "," + std::to_string(p[1]) + " ";
  };
  return "x " + to_string(c.x()) + " w " + to_string(c.w()) + " groups " +
         std::to_string(c.groups) + " stride " + pair(c.options.stride) + "padding " +
         pair(c.options.padding) + "output_padding " + pair(c.options.output_padding) +
         "dilation " + pair(c.options.dilation);
}

// Calls body(x's position, w's, y's) for every product that y adds up.
template <class Body>
void each_product(const Case& c, Body&& body) {
  const int64_t per_group = c.channels / c.groups;
  const Shape y = c.y();
  for (int64_t n = 0; n < c.images; ++n)
    for (int64_t k = 0; k < c.channels; ++k)
      for (int64_t i = 0; i < c.size[0]; ++i)
        for (int64_t j = 0; j < c.size[1]; ++j)
          for (int64_t o = 0; o < c.outputs; ++o)
            for (int64_t a = 0; a < c.kernel[0]; ++a)
              for (int64_t b = 0; b < c.kernel[1]; ++b) {
                const ConvTranspose2dOptions& s = c.options;
                const int64_t row = i * s.stride[0] - s.padding[0] + a * s.dilation[0];
                const int64_t column = j * s.stride[1] - s.padding[1] + b * s.dilation[1];
                if (row < 0 || row >= y[2] || column < 0 || column >= y[3]) continue;
                const int64_t channel = k / per_group * c.outputs + o;
                body(static_cast<size_t>(((n * c.channels + k) * c.size[0] + i) * c.size[1] + j),
                     static_cast<size_t>(((k * c.outputs + o) * c.kernel[0] + a) * c.kernel[1] + b),
                     static_cast<size_t>(((n * y[1] + channel) * y[2] + row) * y[3] + column));
              }
}

// Whole numbers, whose sums are exact in any order.
Tensor whole(const Shape& shape) {
  return randint(-4, 5, shape).to(kFloat64).detach().requires_grad_();
}

Tensor as(const Values& values, const Shape& shape) {
  return reshape(tensor(values, {.dtype = kFloat64}), shape);
}

void check_case(const Case& c) {
  INFO(text(c));
  const Tensor x = whole(c.x()), w = whole(c.w()), bias = whole({c.outputs * c.groups});
  const Tensor g = whole(c.y()).detach();
  Values y(static_cast<size_t>(c.y().numel())), g_x(static_cast<size_t>(x.numel()));
  Values g_w(static_cast<size_t>(w.numel()));
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), gs = g.to_vector<double>();
  each_product(c, [&](size_t at_x, size_t at_w, size_t at_y) {
    y[at_y] += xs[at_x] * ws[at_w];
    g_x[at_x] += gs[at_y] * ws[at_w];
    g_w[at_w] += gs[at_y] * xs[at_x];
  });
  const Tensor result = conv_transpose2d(x, w, bias, c.options);
  REQUIRE(result.shape() == c.y());
  REQUIRE(equal(result, as(y, c.y()) + reshape(bias, {bias.numel(), 1, 1})));
  const std::vector<Tensor> grads = grad({result}, {x, w, bias}, {.grad_outputs = {g}});
  REQUIRE(equal(grads[0], as(g_x, c.x())));
  REQUIRE(equal(grads[1], as(g_w, c.w())));
  REQUIRE(equal(grads[2], sum(g, {0, 2, 3})));
}

// Every combination of small numbers is likely, those with output_padding >= stride too.
Case random_case(std::mt19937_64& draws) {
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(draws() % static_cast<uint64_t>(high - low + 1));
  };
  Case c;
  c.images = draw(1, 3);
  c.groups = draw(1, 3);
  c.channels = c.groups * draw(1, 3);
  c.outputs = draw(1, 3);
  c.options.groups = c.groups;
  for (size_t axis = 0; axis < 2; ++axis) {
    do {
      c.size[axis] = draw(1, 5);
      c.kernel[axis] = draw(1, 4);
      c.options.stride[axis] = draw(1, 4);
      c.options.dilation[axis] = draw(1, 4);
      c.options.padding[axis] = draw(0, 4);
      const int64_t bound = std::max(c.options.stride[axis], c.options.dilation[axis]);
      c.options.output_padding[axis] = draw(0, bound - 1);
    } while (c.length(axis) <= 0);
  }
  return c;
}

}  // namespace

TEST_CASE("conv_transpose2d and its gradients equal their definition for any window") {
  manual_seed(3);
  std::mt19937_64 draws(5);
  int beyond = 0;
  for (int i = 0; i < 1500; ++i) {
    const Case c = random_case(draws);
    if (c.options.output_padding[0] >= c.options.stride[0]) ++beyond;
    check_case(c);
  }
  CHECK(beyond > 150);
}

TEST_CASE("conv_transpose1d takes an output padding between stride and dilation") {
  manual_seed(4);
  std::mt19937_64 draws(6);
  for (int i = 0; i < 300; ++i) {
    Case c = random_case(draws);
    c.size[0] = c.kernel[0] = 1;
    c.options.stride[0] = c.options.dilation[0] = 1;
    c.options.padding[0] = c.options.output_padding[0] = 0;
    INFO(text(c));
    const Tensor x = whole(c.x()), w = whole(c.w());
    const Tensor line = conv_transpose1d(squeeze(x, 2), squeeze(w, 2), {},
                                         {.stride = c.options.stride[1],
                                          .padding = c.options.padding[1],
                                          .output_padding = c.options.output_padding[1],
                                          .dilation = c.options.dilation[1],
                                          .groups = c.groups});
    REQUIRE(equal(unsqueeze(line, 2), conv_transpose2d(x, w, {}, c.options)));
  }
}

TEST_CASE("what lies beyond the last tap of a transposed convolution is 0") {
  const Tensor x = ones({1, 1, 2, 2}), w = ones({1, 1, 2, 2});
  const Tensor y = conv_transpose2d(x, w, {}, {.output_padding = {1, 1}, .dilation = {2, 2}});
  CHECK(y.select(0, 0).select(0, 0).select(0, 0).to_vector<double>() == Values{1, 1, 1, 1, 0});
  CHECK(equal(y.select(2, 4), zeros({1, 1, 5})));
  // A kernel of one tap does not count as a product of pixels here.
  const Tensor point =
      conv_transpose2d(x, ones({1, 1, 1, 1}), {}, {.output_padding = {1, 1}, .dilation = {2, 2}});
  CHECK(equal(point, pad(x, {0, 1, 0, 1})));
}

TEST_CASE("convolutions of bfloat16 and their gradients have shapes on the meta device") {
  const TensorOptions meta{.dtype = kBFloat16, .device = kMeta, .requires_grad = true};
  const Tensor x = empty({2, 8, 6, 6}, meta), w = empty({8, 8, 3, 3}, meta);
  for (const Tensor& y :
       {conv2d(x, w, {}, {.padding = {1, 1}}), conv_transpose2d(x, w, {}, {.padding = {1, 1}}),
        conv_transpose2d(x, w, {}, {.stride = {2, 2}, .groups = 2})}) {
    const std::vector<Tensor> found = grad({sum(y)}, {x, w});
    CHECK(found[0].shape() == x.shape());
    CHECK(found[1].shape() == w.shape());
  }
}

TEST_CASE("a transposed convolution that is cut off altogether is empty, with zeros as gradients") {
  const Tensor x = ones({2, 3, 2}, {.requires_grad = true});
  const Tensor w = ones({3, 1, 3}, {.requires_grad = true});
  const Tensor line = conv_transpose1d(x, w, {}, {.padding = 2});
  CHECK(line.shape() == Shape{2, 1, 0});
  const std::vector<Tensor> found = grad({sum(line)}, {x, w});
  CHECK(equal(found[0], zeros({2, 3, 2})));
  CHECK(equal(found[1], zeros({3, 1, 3})));
  const Tensor image = ones({1, 2, 2, 2}), taps = ones({2, 1, 3, 3});
  CHECK(conv_transpose2d(image, taps, {}, {.padding = {2, 1}}).shape() == Shape{1, 1, 0, 2});
  const Tensor volume = ones({1, 2, 2, 2, 2}), cubes = ones({2, 1, 3, 3, 3});
  CHECK(conv_transpose3d(volume, cubes, {}, {.padding = {2, 1, 1}}).shape() ==
        Shape{1, 1, 0, 2, 2});
  CHECK(conv_transpose3d(volume, cubes, {}, {.padding = {1, 2, 2}}).shape() ==
        Shape{1, 1, 2, 0, 0});
  CHECK_THROWS_AS(conv_transpose1d(x, w, {}, {.padding = 3}), Error);
}

TEST_CASE(
    "a transposed convolution in groups of fewer taps than its stride has places is computed") {
  // Two taps, of which a stride of 3 leaves one place: less than one product a place.
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    const TensorOptions leaf{.dtype = dtype, .requires_grad = true};
    const Tensor x = tensor({2.0, 3.0}, {.dtype = dtype}).reshape({1, 2, 1}).requires_grad_();
    const Tensor w = tensor({5.0, 7.0, 11.0, 13.0}, {.dtype = dtype}).reshape({2, 1, 2});
    const ConvTranspose1dOptions options{
        .stride = 3, .padding = 1, .output_padding = 1, .groups = 2};
    const Tensor y = conv_transpose1d(x, w, {}, options);
    CHECK(y.to_vector<double>() == Values{14, 39});
    CHECK(grad(sum(y), x).to_vector<double>() == Values{7, 13});
    const ConvTranspose2dOptions squares{.stride = {3, 3}, .padding = {1, 1}, .groups = 2};
    const Tensor image = ones({1, 2, 1, 1}, leaf), taps = ones({2, 1, 3, 3}, leaf);
    CHECK(conv_transpose2d(image, taps, {}, squares).to_vector<double>() == Values{1, 1});
  }
  const Tensor volume = ones({1, 1, 2, 2, 2}), cube = ones({1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(conv_transpose3d(volume, cube, {}, {.output_padding = {0, 0, 1}}),
                    ContainsSubstring("conv_transpose3d: output_padding 1"));
}
