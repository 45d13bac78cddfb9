// grid_sample() beside its composed definition.
#include <cmath>
#include <limits>

#include "fused.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/resampling/grid_sample.h>

using namespace hero;
using hero::test::Tensors;

namespace {

std::vector<GridSampleOptions> all_options(int dims) {
  std::vector<GridSampleOptions> all;
  for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic}) {
    if (dims == 3 && mode == GridMode::bicubic) continue;
    for (const GridPadding padding :
         {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      for (const bool align : {false, true}) all.push_back({mode, padding, align});
    }
  }
  return all;
}

std::string text_of(const GridSampleOptions& o) {
  return "mode " + std::to_string(static_cast<int>(o.mode)) + " padding " +
         std::to_string(static_cast<int>(o.padding_mode)) + (o.align_corners ? " aligned" : "");
}

// Points within the image and around it, and among them all that is special.
Tensor grid_of(const Shape& shape, DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Tensor grid = rand(shape, {.dtype = kFloat64}) * 5.0 - 2.5;
  std::vector<double> values = grid.to_vector<double>();
  const std::vector<double> special = {-1.0, 1.0,  0.0,   std::nan(""), kInf, -kInf,
                                       1e30, -1e9, -0.75, 0.25,         3.0,  -3.0};
  for (size_t i = 0; i < special.size(); ++i) values[7 * i % values.size()] = special[i];
  return tensor(values).reshape(shape).to(dtype);
}

// Both are NaN at the same places, and elsewhere differ by at most `bound`.
void check_close(const Tensor& a, const Tensor& b, double bound) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.to(kFloat64).to_vector<double>(),
                            y = b.to(kFloat64).to_vector<double>();
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    wrong += !(x[i] == y[i] || std::abs(x[i] - y[i]) <= bound * std::max(1.0, std::abs(y[i])));
  }
  CHECK(wrong == 0);
}

// Values have the same bits, and gradients are as close as sums in another order are.
void compare(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  INFO(text_of(options) << " " << name(x.dtype()));
  const Tensor y = grid_sample(x, grid, options),
               expected = hero::detail::composed_grid_sample(x, grid, options);
  check_close(y, expected, 0.0);
  const Tensor g = rand(y.shape(), {.dtype = y.dtype()}) - 0.5;
  const GradOptions how{.grad_outputs = {g}, .allow_unused = true};
  const Tensors found = grad({y}, {x, grid}, how), wanted = grad({expected}, {x, grid}, how);
  const double bound = x.dtype() == kFloat64 ? 1e-12 : 3e-5;
  check_close(found[0], wanted[0], bound);
  const bool has_slope = options.mode != GridMode::nearest;
  check_close(found[1], has_slope ? wanted[1] : zeros_like(grid), bound);
}

}  // namespace

TEST_CASE("samples of images are those of the composed definition", "[grid_sample]") {
  manual_seed(3);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const GridSampleOptions& options : all_options(2)) {
      for (const Shape& image : {Shape{2, 3, 5, 7}, Shape{2, 2, 1, 4}, Shape{2, 1, 3, 1}}) {
        const Tensor x = (rand(image, {.dtype = dtype}) - 0.5).requires_grad_();
        compare(x, grid_of({2, 9, 11, 2}, dtype).requires_grad_(), options);
      }
    }
  }
}

TEST_CASE("samples of volumes are those of the composed definition", "[grid_sample]") {
  manual_seed(4);
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const GridSampleOptions& options : all_options(3)) {
      for (const Shape& image : {Shape{2, 2, 3, 5, 4}, Shape{2, 3, 1, 2, 3}}) {
        const Tensor x = (rand(image, {.dtype = dtype}) - 0.5).requires_grad_();
        compare(x, grid_of({2, 3, 7, 5, 3}, dtype).requires_grad_(), options);
      }
    }
  }
}

TEST_CASE("grid_sample reads any layout, and takes nothing", "[grid_sample]") {
  manual_seed(5);
  const Tensor x = rand({4, 6, 2, 3}).permute({2, 3, 1, 0}), grid = rand({5, 2, 4, 2}) * 2.0 - 1.0;
  CHECK(equal(grid_sample(x, grid.permute({1, 2, 0, 3})),
              grid_sample(x.contiguous(), grid.permute({1, 2, 0, 3}).contiguous())));
  const Tensor rows = expand(rand({1, 1, 1, 3}), {2, 3, 4, 3});
  CHECK(equal(grid_sample(rows, grid.permute({1, 2, 0, 3})),
              grid_sample(rows.contiguous(), grid.permute({1, 2, 0, 3}).contiguous())));
  CHECK(grid_sample(ones({0, 2, 3, 3}), ones({0, 4, 5, 2})).shape() == Shape{0, 2, 4, 5});
  const Tensor none = ones({2, 2, 3, 3}, {.requires_grad = true});
  sum(grid_sample(none, ones({2, 0, 5, 2}))).backward();
  CHECK(equal(none.grad(), zeros({2, 2, 3, 3})));
  const Tensor points = ones({2, 4, 5, 2}, {.requires_grad = true});
  sum(grid_sample(ones({2, 0, 3, 3}), points)).backward();
  CHECK(equal(points.grad(), zeros({2, 4, 5, 2})));
}

TEST_CASE("grid_sample has derivatives of any order", "[grid_sample]") {
  for (const GridMode mode : {GridMode::bilinear, GridMode::bicubic}) {
    const auto sampled = [mode](const Tensors& in) {
      return Tensors{grid_sample(in[0], tanh(in[1]) * 0.9, {.mode = mode})};
    };
    hero::test::differentiable(sampled, {{2, 2, 3, 4}, {2, 2, 3, 2}});
  }
}

TEST_CASE("grid_sample has the same bits at any number of threads", "[grid_sample]") {
  for (const GridMode mode : {GridMode::nearest, GridMode::bilinear, GridMode::bicubic}) {
    const auto sampled = [mode](const Tensors& in) {
      return Tensors{grid_sample(in[0], in[1], {.mode = mode})};
    };
    hero::test::same_at_any_threads(sampled, {{3, 21, 9, 10}, {3, 40, 30, 2}});
  }
}
