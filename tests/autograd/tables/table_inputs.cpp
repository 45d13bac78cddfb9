// The inputs of the op table's rows.
#include <cmath>

#include "autograd/tables/op_table.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/random.h>

namespace hero::test {

namespace {

std::vector<double> values_of(int64_t count, const Domain& domain, uint64_t id) {
  std::vector<double> values(static_cast<size_t>(count));
  fill_uniform(values, RandomStream{42, id}, 0, domain.low, domain.high);
  for (double& value : values) {
    for (double kink : domain.avoid) {
      // Pushed outwards, so that values stay distinct.
      if (std::abs(value - kink) < domain.gap) value += value < kink ? -domain.gap : domain.gap;
    }
  }
  return values;
}

Shape reversed(const Shape& shape) {
  Shape result;
  for (int i = shape.size() - 1; i >= 0; --i) result.push_back(shape[i]);
  return result;
}

Shape shape_for(const OpRow& row, size_t input, Layout layout) {
  Shape shape = row.inputs[input].shape;
  if (layout == Layout::empty) {
    if (!row.empty.empty()) return row.empty[input];
    if (!shape.empty()) shape[0] = 0;
  }
  if (layout == Layout::single) {
    if (!row.single.empty()) return row.single[input];
    for (int64_t& size : shape) size = 1;
  }
  return shape;
}

}  // namespace

const char* text(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "broadcast", "empty", "single"};
  return names[static_cast<int>(layout)];
}

Array laid_out(const Shape& shape, Layout layout, const Domain& domain, uint64_t id,
               const Made& made) {
  const auto dense = [&](const Shape& s) {
    return Array::from(values_of(s.numel(), domain, id), s).to(made.dtype).to(made.device);
  };
  if (layout == Layout::transposed && shape.size() == 1) {
    return dense({2 * shape[0]}).slice(0, 1, kEnd, 2);
  }
  if (layout == Layout::transposed) {
    Dims order;
    for (int i = shape.size() - 1; i >= 0; --i) order.push_back(i);
    return dense(reversed(shape)).permute(order);
  }
  if (layout == Layout::broadcast) {
    for (int i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      Shape small = shape;
      small[i] = 1;
      return dense(small).expand(shape);
    }
  }
  return dense(shape);
}

Tensors inputs_for(const OpRow& row, Layout layout, const Made& made) {
  Tensors inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const Shape shape = shape_for(row, i, layout);
    inputs.emplace_back(laid_out(shape, layout, row.inputs[i].domain, i, made), true);
  }
  return inputs;
}

Tensor indices(const Shape& shape, int64_t bound, const Tensor& like) {
  std::vector<int64_t> values(static_cast<size_t>(shape.numel()));
  // Every index appears, some of them twice or more.
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int64_t>(i * i + i / 3) % bound;
  return Tensor(Array::from(values, shape).to(like.device()));
}

Tensor dominant(const Tensor& x) {
  return x * 0.5 + eye(x.size(-1), {.dtype = kFloat64, .device = x.device()}) * 3.0;
}

}  // namespace hero::test
