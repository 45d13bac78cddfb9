// Convolutions have the bits of a product with columns of windows, however they find the windows.
#include "support/catch.h"
#include "support/kernel_cost.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>

using namespace hero;

namespace {

struct Shapes {
  Shape x, w;
  UnfoldOptions unfold = {};
};

Conv2dOptions options_of(const UnfoldOptions& o) {
  return {.stride = o.stride, .padding = o.padding, .dilation = o.dilation};
}

Tensor by_columns(const Tensor& x, const Tensor& w, const Tensor& bias, const UnfoldOptions& o) {
  const Tensor columns = unfold(x, {w.size(2), w.size(3)}, o);
  const Tensor y = matmul(w.reshape({w.size(0), -1}), columns) + bias.unsqueeze(1);
  const Shape plane = conv2d(x, w, bias, options_of(o)).shape();
  return y.reshape({x.size(0), w.size(0), plane[2], plane[3]});
}

const std::vector<Shapes> kShapes = {
    {{2, 3, 9, 9}, {5, 3, 3, 3}, {.padding = {1, 1}}},
    {{3, 8, 7, 7}, {16, 8, 3, 3}, {.padding = {1, 1}}},
    {{1, 4, 30, 57}, {3, 4, 5, 3}, {.padding = {2, 0}}},
    {{2, 2, 20, 33}, {40, 2, 7, 7}, {.padding = {3, 3}, .stride = {2, 2}}},
    {{1, 3, 17, 40}, {4, 3, 2, 3}, {.dilation = {3, 2}, .padding = {0, 4}, .stride = {1, 3}}},
    {{2, 40, 6, 1}, {7, 40, 3, 1}, {.padding = {1, 0}}},  // k in several blocks, lines of one
    {{1, 3, 64, 100}, {2, 3, 1, 5}},
    {{1, 1, 4, 5}, {1, 1, 4, 5}},
    {{1, 2, 3, 3}, {450, 2, 2, 2}},                      // more rows than a tile has
    {{2, 2, 3, 2}, {3, 2, 1, 1}, {.padding = {1, 20}}},  // zeros that are longer than a line
    {{1, 2, 4, 16}, {3, 2, 2, 3}, {.padding = {0, 1}}},
};

}  // namespace

TEST_CASE("a convolution has the bits of a product with columns, on any number of threads") {
  manual_seed(3);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shapes& shapes : kShapes) {
      INFO(to_string(shapes.x) << " " << to_string(shapes.w));
      const Tensor x = randn(shapes.x, {.dtype = dtype}), w = randn(shapes.w, {.dtype = dtype});
      const Tensor bias = randn({w.size(0)}, {.dtype = dtype});
      const Tensor expected = by_columns(x, w, bias, shapes.unfold);
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        CHECK(equal(conv2d(x, w, bias, options_of(shapes.unfold)), expected));
      }
      // Of other strides, and while work is metered, which is done with columns.
      const Tensor turned = x.transpose(2, 3).contiguous().transpose(2, 3);
      CHECK(equal(conv2d(turned, w, bias, options_of(shapes.unfold)), expected));
      hero_test::CostSum sum;
      const core::CostScope metered(&sum);
      CHECK(equal(conv2d(x, w, bias, options_of(shapes.unfold)), expected));
      CHECK(sum.calls > 0);
    }
  }
}

namespace {

// The gradients of x and w, with the upstream gradient g.
std::vector<Tensor> gradients(const Tensor& x, const Tensor& w, const Tensor& g,
                              const Conv2dOptions& options) {
  const Tensor a = x.detach().requires_grad_(), b = w.detach().requires_grad_();
  conv2d(a, b, {}, options).backward(g);
  return {a.grad(), b.grad()};
}

}  // namespace

TEST_CASE("a convolution's gradients have the bits of those by columns, on any number of threads") {
  manual_seed(5);
  std::vector<Shapes> all = kShapes;
  all.push_back({{9, 3, 7, 7}, {20, 3, 3, 3}, {.padding = {1, 1}}});  // panels of several images
  all.push_back({{3, 6, 11, 20}, {300, 6, 3, 2}, {.dilation = {2, 3}, .padding = {4, 1}}});
  all.push_back({{2, 600, 3, 4}, {530, 600, 2, 2}, {.padding = {1, 0}}});  // chains of blocks
  all.push_back({{70, 8, 40, 40}, {8, 8, 3, 3}, {.padding = {1, 1}}});     // chunks of images
  all.push_back({{2, 5, 9, 9}, {4, 5, 3, 3}, {.padding = {3, 3}}});  // beyond the kernel's reach
  all.push_back({{3, 20, 14, 15}, {33, 20, 3, 3}, {.padding = {1, 1}, .stride = {2, 2}}});
  all.push_back({{1, 5, 13, 40}, {300, 5, 4, 3}, {.dilation = {2, 3}, .stride = {2, 2}}});
  all.push_back({{2, 7, 16, 19}, {6, 7, 4, 2}, {.stride = {5, 3}}});  // a phase without taps
  all.push_back({{2, 9, 1, 1}, {17, 9, 3, 3}, {.padding = {1, 1}}});  // taps that meet only zeros
  all.push_back({{4, 31, 20, 13}, {40, 31, 3, 5}, {.dilation = {1, 2}, .padding = {2, 6}}});
  all.push_back({{3, 16, 9, 10}, {35, 16, 3, 3}, {.padding = {1, 1}, .stride = {3, 2}}});
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Shapes& shapes : all) {
      INFO(to_string(shapes.x) << " " << to_string(shapes.w));
      const Conv2dOptions options = options_of(shapes.unfold);
      const Tensor x = randn(shapes.x, {.dtype = dtype}), w = randn(shapes.w, {.dtype = dtype});
      const Tensor g = randn(conv2d(x, w, {}, options).shape(), {.dtype = dtype});
      hero_test::CostSum sum;
      std::vector<Tensor> expected;
      {
        const core::CostScope metered(&sum);
        expected = gradients(x, w, g, options);
      }
      CHECK(sum.calls > 0);
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        const std::vector<Tensor> got = gradients(x, w, g, options);
        CHECK(equal(got[0], expected[0]));
        CHECK(equal(got[1], expected[1]));
      }
      // Of other strides.
      const Tensor turned = x.transpose(1, 3).contiguous().transpose(1, 3);
      CHECK(equal(gradients(turned, w, g, options)[1], expected[1]));
      // One image: columns are the gradient's definition.
      const Tensor image = x.slice(0, 0, 1), of_y = g.slice(0, 0, 1);
      const Tensor columns = unfold(image, {w.size(2), w.size(3)}, shapes.unfold);
      const Tensor rows = of_y.reshape({1, w.size(0), -1});
      const std::vector<Tensor> alone = gradients(image, w, of_y, options);
      CHECK(equal(alone[1].reshape({w.size(0), -1}), matmul(rows, columns.transpose(1, 2))[0]));
      const Tensor products = matmul(w.reshape({w.size(0), -1}).t(), rows);
      CHECK(equal(alone[0],
                  fold(products, {x.size(2), x.size(3)}, {w.size(2), w.size(3)}, shapes.unfold)));
    }
  }
}

TEST_CASE("a convolution in groups and its gradients have the bits of those by columns") {
  struct Grouped {
    Shape x, w;
    int64_t groups;
    UnfoldOptions unfold = {};
  };
  const std::vector<Grouped> all = {
      {{2, 5, 9, 9}, {5, 1, 3, 3}, 5, {.padding = {1, 1}}},
      {{3, 40, 7, 7}, {40, 1, 3, 3}, 40, {.padding = {1, 1}}},
      {{2, 37, 7, 7}, {37, 1, 3, 3}, 37, {.padding = {1, 1}}},
      {{1, 20, 3, 4}, {20, 1, 3, 3}, 20, {.padding = {1, 1}}},
      {{1, 16, 5, 3}, {16, 1, 3, 3}, 16, {.padding = {1, 1}}},  // pieces of lines that overlap
      {{1, 16, 4, 15}, {16, 1, 3, 3}, 16, {.padding = {1, 1}}},
      {{2, 16, 3, 17}, {16, 1, 3, 2}, 16, {.padding = {1, 0}, .stride = {1, 2}}},
      {{1, 32, 3, 19}, {32, 16, 3, 3}, 2, {.padding = {1, 1}}},
      {{1, 9, 30, 29}, {9, 1, 7, 7}, 9, {.padding = {3, 3}}},
      {{2, 10, 9, 12}, {10, 1, 1, 2}, 10, {.stride = {2, 2}}},  // a phase without taps
      {{2, 19, 14, 21}, {19, 1, 7, 7}, 19, {.padding = {3, 3}}},
      {{2, 18, 23, 40}, {18, 1, 3, 3}, 18, {.padding = {1, 1}, .stride = {2, 2}}},
      {{1, 17, 15, 18},
       {17, 1, 5, 4},
       17,
       {.dilation = {2, 3}, .padding = {3, 4}, .stride = {3, 2}}},
      {{2, 33, 1, 700}, {33, 1, 1, 4}, 33, {.padding = {0, 3}}},  // lines
      {{1, 16, 90, 95}, {16, 1, 3, 3}, 16, {.padding = {1, 1}}},  // several bands
      {{1, 3, 40, 300}, {3, 1, 3, 3}, 3, {.padding = {2, 2}}},    // and beyond the kernel's reach
      {{2, 6, 9, 17}, {12, 2, 3, 3}, 3, {.padding = {1, 1}}},
      {{2, 15, 9, 17}, {21, 5, 3, 2}, 3, {.padding = {1, 0}, .stride = {2, 3}}},
      {{1, 128, 6, 6}, {14, 64, 3, 3}, 2, {.padding = {1, 1}}},  // chains of blocks
      {{1, 4, 5, 5}, {600, 2, 2, 2}, 2},                         // too many outputs
      {{2, 32, 9, 17}, {32, 16, 3, 3}, 2, {.padding = {1, 1}}},  // a vector of outputs
      {{2, 48, 7, 7}, {40, 24, 3, 3}, 2, {.padding = {1, 1}, .stride = {2, 2}}},
      {{2, 8, 9, 9}, {8, 2, 1, 1}, 4, {.stride = {2, 2}}},
      {{3, 40, 9, 9}, {36, 20, 3, 3}, 2, {.padding = {1, 1}}},  // lanes of channels
      {{2, 18, 31, 61}, {34, 9, 3, 1}, 2, {.padding = {1, 0}}},
      {{2, 24, 17, 16},
       {15, 8, 5, 4},
       3,
       {.dilation = {1, 2}, .padding = {2, 3}, .stride = {2, 1}}},
      {{2, 64, 90, 9}, {8, 32, 2, 2}, 2},
      {{2, 28, 9, 17}, {28, 4, 3, 3}, 7, {.padding = {1, 1}}},  // of several groups
      {{1, 20, 40, 33}, {25, 4, 3, 2}, 5, {.padding = {0, 1}, .stride = {1, 2}}},
      {{2, 24, 31, 30}, {18, 8, 3, 1}, 3},
      {{2, 32, 7, 7}, {20, 8, 2, 2}, 4},
  };
  manual_seed(6);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Grouped& shapes : all) {
      INFO(to_string(shapes.x) << " " << to_string(shapes.w));
      Conv2dOptions options = options_of(shapes.unfold);
      options.groups = shapes.groups;
      const Tensor x = randn(shapes.x, {.dtype = dtype}), w = randn(shapes.w, {.dtype = dtype});
      const auto run = [&] {
        const Tensor y = conv2d(x, w, {}, options);
        manual_seed(7);
        std::vector<Tensor> results = gradients(x, w, randn(y.shape(), {.dtype = dtype}), options);
        results.push_back(y);
        return results;
      };
      hero_test::CostSum sum;
      std::vector<Tensor> expected;
      {
        const core::CostScope metered(&sum);
        expected = run();
      }
      CHECK(sum.calls > 0);
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        const std::vector<Tensor> got = run();
        for (size_t i = 0; i < got.size(); ++i) CHECK(equal(got[i], expected[i]));
      }
    }
  }
}

TEST_CASE("zeros around the gradient of a convolution's output meet no infinite weight") {
  const Tensor x = ones({1, 1, 4, 4}), g = ones({1, 1, 4, 4});
  Tensor w = ones({1, 1, 3, 3});
  w = where(arange(9).reshape({1, 1, 3, 3}) == 0.0, full({}, HUGE_VAL), w);
  const Tensor of_x = gradients(x, w, g, {.padding = {1, 1}})[0];
  CHECK(of_x.select(2, 0).flatten().to_vector<double>() ==
        std::vector<double>{HUGE_VAL, HUGE_VAL, HUGE_VAL, 4.0});
  CHECK(of_x.select(2, 3).flatten().to_vector<double>() == std::vector<double>{4.0, 6.0, 6.0, 4.0});
}

TEST_CASE("an infinite gradient of a convolution's output meets the zeros around the image") {
  const Tensor x = ones({1, 9, 4, 4}), w = ones({8, 9, 3, 3});
  const Tensor g = where(arange(128).reshape({1, 8, 4, 4}) == 0.0, full({}, HUGE_VAL), ones({}));
  const Tensor of_w = gradients(x, w, g, {.padding = {1, 1}})[1].select(0, 0).select(0, 8);
  CHECK(isnan(of_w).to(kFloat32).flatten().to_vector<double>() ==
        std::vector<double>{1, 1, 1, 1, 0, 0, 1, 0, 0});
}

TEST_CASE("a convolution of volumes has the bits of one of planes with the taps as channels") {
  manual_seed(4);
  const Tensor x = randn({2, 3, 6, 9, 20}), w = randn({5, 3, 3, 3, 2}), bias = randn({5});
  const Tensor y = conv3d(x, w, bias, {.stride = {2, 1, 2}, .padding = {1, 1, 0}});
  const Tensor padded = pad(x, {0, 0, 0, 0, 1, 1});
  const Tensor rows = w.permute({0, 2, 1, 3, 4}).reshape({5, 9, 3, 2});
  for (int64_t d = 0; d < y.size(2); ++d) {
    const Tensor taps = padded.slice(2, 2 * d, 2 * d + 3).permute({0, 2, 1, 3, 4});
    const Tensor plane =
        conv2d(taps.reshape({2, 9, 9, 20}), rows, bias, {.stride = {1, 2}, .padding = {1, 0}});
    CHECK(equal(y.select(2, d), plane));
  }
}

TEST_CASE(
    "the gradient of the weight of a convolution of volumes has the bits of that by columns") {
  manual_seed(8);
  // the second one in several products of some planes
  for (const Shape& shape : {Shape{2, 3, 6, 9, 20}, Shape{2, 16, 9, 40, 40}}) {
    const Tensor x = randn(shape), w = randn({5, shape[1], 3, 3, 2}).requires_grad_();
    const Conv3dOptions options{.stride = {2, 1, 1}, .padding = {1, 1, 0}};
    const Tensor y = conv3d(x, w, {}, options), g = randn(y.shape());
    hero_test::CostSum sum;
    Tensor expected;
    {
      const core::CostScope metered(&sum);
      expected = grad({y}, {w}, {.grad_outputs = {g}, .retain_graph = true})[0];
    }
    CHECK(sum.calls > 0);
    for (const int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      const Tensor got = grad({y}, {w}, {.grad_outputs = {g}, .retain_graph = true})[0];
      CHECK(equal(got, expected));
    }
  }
}
