#include <cmath>
#include <set>

#include "autograd/op_table.h"
#include "support/catch.h"

#include <hero/autograd/creation.h>
#include <hero/autograd/gradcheck.h>
#include <hero/core/elementwise.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>

namespace hero::test {

namespace {

const char* text(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "broadcast", "empty", "single"};
  return names[static_cast<int>(layout)];
}

std::vector<double> values_of(int64_t count, const Domain& domain, uint64_t id) {
  std::vector<double> values(static_cast<size_t>(count));
  fill_uniform(values, Stream{42, id}, 0, domain.low, domain.high);
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

// Random values of this shape with the layout's strides.
Array laid_out(const Shape& shape, Layout layout, const Domain& domain, uint64_t id) {
  const auto dense = [&](const Shape& s) {
    return Array::from(values_of(s.numel(), domain, id), s);
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

Tensors inputs_for(const OpRow& row, Layout layout) {
  Tensors inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const Shape shape = shape_for(row, i, layout);
    inputs.emplace_back(laid_out(shape, layout, row.inputs[i].domain, i), true);
  }
  return inputs;
}

void check_close(double value, double expected) {
  if (std::isnan(expected)) {
    CHECK(std::isnan(value));
  } else {
    // A few roundings of a short double formula on either side.
    CHECK(std::abs(value - expected) <= 1e-13 * std::max(1.0, std::abs(expected)));
  }
}

void check_values(const OpRow& row, const Tensors& inputs, const Tensors& outputs) {
  const std::vector<double> values = outputs[0].to_vector<double>();
  if (row.naive) {
    const std::vector<double> expected = row.naive(inputs);
    REQUIRE(values.size() == expected.size());
    for (size_t i = 0; i < values.size(); ++i) check_close(values[i], expected[i]);
  }
  if (!row.scalar) return;
  std::vector<std::vector<double>> columns;
  for (const Tensor& input : inputs) {
    columns.push_back(input.array().expand(outputs[0].shape()).to_vector<double>());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<double> arguments;
    for (const auto& column : columns) arguments.push_back(column[i]);
    check_close(values[i], row.scalar(arguments));
  }
}

// The same shapes and dtypes without bytes.
void check_meta(const OpRow& row, const Tensors& inputs, const Tensors& outputs) {
  Tensors shadows;
  for (const Tensor& input : inputs) {
    const Array& array = input.array();
    shadows.emplace_back(Array::empty(array.shape(), array.dtype(), kMeta), true);
  }
  Tensors planned;
  REQUIRE_NOTHROW(planned = row.call.run(shadows));
  REQUIRE(planned.size() == outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    CHECK(to_string(planned[i].shape()) == to_string(outputs[i].shape()));
    CHECK(planned[i].dtype() == outputs[i].dtype());
    CHECK(planned[i].device() == kMeta);
  }
}

void check_layout(const OpRow& row, Layout layout) {
  const Tensors inputs = inputs_for(row, layout);
  Tensors outputs;
  REQUIRE_NOTHROW(outputs = row.call.run(inputs));
  check_values(row, inputs, outputs);
  if (row.meta) check_meta(row, inputs, outputs);
  // Central differences of functions of size 1 with steps of 1e-6 are good to about 1e-9.
  const GradcheckOptions options{.atol = 1e-7, .rtol = 1e-6};
  if (row.differentiable) CHECK_NOTHROW(gradcheck(row.call.run, inputs, options));
  if (row.differentiable && row.twice) CHECK_NOTHROW(gradgradcheck(row.call.run, inputs, options));
}

}  // namespace

Tensor indices(const Shape& shape, int64_t bound, const Tensor& like) {
  std::vector<int64_t> values(static_cast<size_t>(shape.numel()));
  // Every index appears, some of them twice or more.
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int64_t>(i * i + i / 3) % bound;
  return Tensor(Array::from(values, shape).to(like.device()));
}

void check_rows(const Rows& rows) {
  const Layout layouts[] = {Layout::contiguous, Layout::transposed, Layout::broadcast,
                            Layout::empty, Layout::single};
  for (const OpRow& row : rows) {
    for (Layout layout : layouts) {
      if (row.skip.contains(layout)) continue;
      INFO(row.name << ", " << text(layout));
      check_layout(row, layout);
    }
  }
}

namespace {

template <class... F>
std::vector<std::string> functor_names(TypeList<F...>) {
  return {F::name...};
}

// Outputs and gradients of a row whose inputs are `times` as long, as bytes.
std::vector<std::vector<std::byte>> bits_of(const OpRow& row, int64_t times) {
  Tensors inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    Shape shape = row.inputs[i].shape;
    shape[0] *= times;
    inputs.emplace_back(laid_out(shape, Layout::contiguous, row.inputs[i].domain, i), true);
  }
  Tensors results = row.call.run(inputs);
  if (row.differentiable) {
    Tensors roots, gradients;
    for (const Tensor& output : results) {
      if (!output.requires_grad()) continue;
      roots.push_back(output);
      gradients.emplace_back(laid_out(output.shape(), Layout::contiguous, {}, 99));
    }
    const GradOptions options{.grad_outputs = gradients, .allow_unused = true};
    for (const Tensor& g : grad(roots, inputs, options)) {
      if (g.defined()) results.push_back(g);
    }
  }
  std::vector<std::vector<std::byte>> bits;
  for (const Tensor& result : results) {
    const Array dense = result.array().contiguous();
    bits.emplace_back(dense.bytes(), dense.bytes() + dense.nbytes());
  }
  return bits;
}

}  // namespace

TEST_CASE("operations and their gradients have the same bits at 1, 2 and 3 threads") {
  // Long enough for several chunks a thread.
  constexpr int64_t kTimes = 40000;
  for (const Rows& part : {unary_rows(), binary_rows(), reduction_rows()}) {
    for (const OpRow& row : part) {
      if (row.name.ends_with("(broadcasting)")) continue;
      INFO(row.name);
      const auto bits_at = [&](int threads) {
        const ThreadLimit limit(threads);
        return bits_of(row, kTimes);
      };
      const auto expected = bits_at(1);
      CHECK((bits_at(2) == expected));
      CHECK((bits_at(3) == expected));
    }
  }
}

TEST_CASE("every elementwise functor has a row in the op table") {
  std::set<std::string> rows;
  for (const Rows& part : {unary_rows(), binary_rows()}) {
    for (const OpRow& row : part) rows.insert(row.name);
  }
  for (const std::string& name : functor_names(core::kernels::MapList{})) {
    INFO(name);
    // Derivatives in one pass are compared with their definition in test_fused.cpp.
    if (name.ends_with("_backward")) {
      CHECK(rows.contains(name.substr(0, name.size() - std::string("_backward").size())));
    } else {
      CHECK(rows.contains(name));
    }
  }
}

}  // namespace hero::test
