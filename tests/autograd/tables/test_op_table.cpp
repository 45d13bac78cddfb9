#include <cmath>
#include <set>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::test {

namespace {

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

void check_rows(const Rows& rows) {
  each_layout(rows, [](const OpRow& row, Layout layout) {
    INFO(row.name << ", " << text(layout));
    check_layout(row, layout);
  });
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
  for (const Rows& part :
       {unary_rows(), binary_rows(), special_rows(), rare_rows(), whole_rows()}) {
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
