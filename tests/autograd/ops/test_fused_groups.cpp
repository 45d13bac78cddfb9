// Group norm in one operation against its definition: planes of many lengths, also of halves.
#include <cmath>
#include <limits>

#include "autograd/ops/fused.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using namespace hero::test;

namespace {

struct Given {
  int64_t groups;
  bool weight, bias;
};

Function fused_groups(const Given& given) {
  return [given](const Tensors& x) {
    return Tensors{group_norm(x[0], given.groups, given.weight ? x[1] : Tensor(),
                              given.bias ? x.back() : Tensor(), 0.1)};
  };
}

Function composed_groups(const Given& given) {
  return [given](const Tensors& x) {
    const int64_t rows = x[0].size(0) * given.groups;
    const Tensor flat = x[0].reshape({rows, x[0].numel() / rows});
    const Tensor apart = flat - mean(flat, {1}, true);
    Tensor y = (apart / sqrt(mean(square(apart), {1}, true) + 0.1)).reshape(x[0].shape());
    if (given.weight) y = y * as_channels(x[1], x[0]);
    if (given.bias) y = y + as_channels(x.back(), x[0]);
    return Tensors{y};
  };
}

std::vector<Given> all_of(int64_t channels) {
  std::vector<Given> all;
  for (const int64_t groups : {int64_t{1}, int64_t{2}, channels}) {
    for (const bool weight : {false, true}) {
      all.push_back({groups, weight, false});
      all.push_back({groups, weight, true});
    }
  }
  return all;
}

// Planes that are too short for loops of their own, as short as they may be, with a rest, of
// several blocks; one sample and many.
const Shape kShapes[] = {{5, 6},         {3, 4, 15},   {3, 4, 16},   {2, 6, 7, 7},
                         {40, 4, 3, 17}, {2, 4, 1030}, {1, 2, 2100}, {2, 2, 3, 5, 4}};

}  // namespace

TEST_CASE("group_norm in one operation is its definition") {
  for (const Shape& shape : kShapes) {
    for (const Given& given : all_of(shape[1])) {
      INFO(to_string(shape) << " in groups " << given.groups);
      agree(fused_groups(given), composed_groups(given), shapes_of(shape, given));
    }
  }
}

TEST_CASE("group_norm has first and second derivatives") {
  for (const Given& given : all_of(4)) {
    differentiable(fused_groups(given), shapes_of({2, 4, 3}, given));
    // Those of float32 are another operation's.
    const auto twice = [](const Function& f) -> Function {
      return [f](const Tensors& x) {
        manual_seed(3);
        const Tensor y = f(x)[0], g = randn(y.shape(), {.dtype = kFloat64}).to(y.dtype());
        Tensors first = grad({y}, x, {.grad_outputs = {g}, .create_graph = true});
        for (size_t i = 0; i < x.size(); ++i) first[i] = first[i] + x[i] * 0.5;  // depends on all
        return first;
      };
    };
    agree(twice(fused_groups(given)), twice(composed_groups(given)),
          shapes_of({2, 4, 5, 5}, given));
  }
}

TEST_CASE("group_norm has the same bits at any number of threads", "[threads]") {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    same_at_any_threads(fused_groups({3, true, true}), {{9, 6, 40, 40}, {6}, {6}}, dtype);
    same_at_any_threads(fused_groups({6, true, true}), {{70, 6, 5, 5}, {6}, {6}}, dtype);
  }
}

TEST_CASE("group_norm takes any strides, and parameters of other dtypes") {
  manual_seed(5);
  const Tensor x = randn({3, 5, 7, 4});
  const Tensor w = randn({4}), b = randn({4}), turned = x.permute({0, 3, 1, 2});
  const auto same = [](const Tensor& a, const Tensor& c) {
    return a.dtype() == c.dtype() &&
           a.to(kFloat64).to_vector<double>() == c.to(kFloat64).to_vector<double>();
  };
  CHECK(same(group_norm(turned, 2, w, b), group_norm(turned.contiguous(), 2, w, b)));
  const Tensor halves = turned.to(kBFloat16);
  const Tensor expected = group_norm(halves.to(kFloat32), 2, w, b).to(kBFloat16);
  CHECK(same(group_norm(halves, 2, w, b), expected));
  const Tensor w_half = w.to(kFloat16);
  CHECK(same(group_norm(turned, 2, w_half, b), group_norm(turned, 2, w_half.to(kFloat32), b)));
  const Tensor wide = group_norm(turned, 2, w.to(kFloat64), b);
  CHECK(wide.dtype() == kFloat32);
  CHECK(largest_difference(wide, group_norm(turned, 2, w, b)) < 1e-5);
}

TEST_CASE("group_norm keeps NaN to its group, zeros their sign, and takes nothing") {
  Tensor x = ones({2, 4, 20});
  x.select(0, 1).select(0, 2).select(0, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor y = group_norm(x, 2);
  CHECK(isnan(y).sum().item() == 40.0);
  CHECK(isnan(y.select(0, 1).slice(0, 2, 4)).all().item<bool>());
  const Tensor signs = group_norm(ones({1, 2, 16}), 1, full({2}, -1.0));
  CHECK(std::signbit(signs.select(0, 0).select(0, 0).select(0, 0).item()));
  for (const Shape& shape : {Shape{0, 4, 20}, Shape{2, 4, 0}}) {
    const Tensors empty{zeros(shape).requires_grad_(), ones({4}).requires_grad_()};
    const Tensors grads = grad({group_norm(empty[0], 2, empty[1]).sum()}, empty);
    CHECK(grads[0].shape() == shape);
    CHECK(grads[1].to_vector<float>() == std::vector<float>(4, 0.0f));
  }
}
