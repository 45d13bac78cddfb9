#pragma once
// The op table: one row a public operation. Every row is checked on every layout of its inputs:
// gradients and second derivatives against finite differences, values against the contiguous
// layout and a scalar reference, shapes and dtypes against the meta device.
#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <hero/autograd/ops.h>

namespace hero::test {

/// How the inputs of a row lie in memory, or how small they are.
enum class Layout { contiguous, transposed, broadcast, empty, single };

/// Where random values of an input come from: [low, high), at least `gap` away from kinks.
struct Domain {
  double low = -2.0;
  double high = 2.0;
  std::vector<double> avoid = {};
  double gap = 0.1;
};

/// A float64 input that requires grad.
struct Input {
  Shape shape;
  Domain domain = {};
};

using Tensors = std::vector<Tensor>;
/// The values of a tensor in row-major order, or one of each input.
using Values = std::vector<double>;

/// The operation of a row; what gives a tensor or a struct of two becomes a list.
struct Call {
  std::function<Tensors(const Tensors&)> run;
  Call() = default;
  Call(Tensor (*f)(const Tensor&)) : run([f](const Tensors& x) { return Tensors{f(x[0])}; }) {}
  Call(Tensor (*f)(const Tensor&, const Tensor&))
      : run([f](const Tensors& x) { return Tensors{f(x[0], x[1])}; }) {}
  template <std::invocable<const Tensors&> F>
  Call(F f)
      : run([f](const Tensors& x) {
          auto result = f(x);
          if constexpr (std::same_as<decltype(result), Tensor>) {
            return Tensors{result};
          } else if constexpr (std::same_as<decltype(result), ValuesIndices>) {
            return Tensors{result.values, result.indices};
          } else {
            return Tensors(result);
          }
        }) {}
};

struct OpRow {
  std::string name;  ///< the function's; of functors, as in core/kernels/elementwise.h
  std::vector<Input> inputs;
  Call call;
  /// Shapes of the inputs with zero elements; by default the first dimension is 0.
  std::vector<Shape> empty = {};
  /// Shapes of the inputs with one element; by default every dimension is 1.
  std::vector<Shape> single = {};
  /// Layouts that make no sense for this operation, each with the reason.
  std::map<Layout, std::string> skip = {};
  bool differentiable = true;
  bool twice = true;
  bool meta = true;  ///< the result's shape does not depend on values
  /// Of elementwise operations: the value from one element of each input.
  std::function<double(const Values&)> scalar = {};
  /// Of others: all values of the first output, written as loops.
  std::function<Values(const Tensors&)> naive = {};
};

using Rows = std::vector<OpRow>;

/// \name Why a row skips a layout
/// \{
inline constexpr const char* kSomeSizes = "the arguments fit only some sizes";
inline constexpr const char* kNothing = "there must be an element";
inline constexpr const char* kMeanOfNothing = "the mean of nothing is NaN";
inline constexpr const char* kTies = "equal elements make a kink";
inline constexpr const char* kAlike = "rows that are alike make a matrix singular and distances 0";
/// \}

/// The row of a function f of one tensor of this shape.
template <class F>
OpRow of(const char* name, const Shape& shape, F f) {
  return {name, {{shape}}, [f](const Tensors& x) { return f(x[0]); }};
}

/// The row of an operation whose arguments fit only some sizes: it has no empty and no single
/// inputs.
inline OpRow sized(OpRow row) {
  row.skip = {{Layout::empty, kSomeSizes}, {Layout::single, kSomeSizes}};
  return row;
}
inline OpRow sized(const char* name, std::vector<Input> inputs, Call call,
                   std::function<Values(const Tensors&)> naive = {}) {
  OpRow row{name, std::move(inputs), std::move(call)};
  row.naive = std::move(naive);
  return sized(std::move(row));
}

/// The row of an operation that has no derivative where elements are equal: it has no broadcast
/// inputs.
inline OpRow untied(OpRow row) {
  row.skip[Layout::broadcast] = kTies;
  return row;
}

/// As sized(), of matrices whose rows must differ: it has no broadcast inputs.
inline OpRow apart(OpRow row) {
  row = sized(std::move(row));
  row.skip[Layout::broadcast] = kAlike;
  return row;
}

Rows unary_rows();
Rows special_rows();
Rows rare_rows();
Rows whole_rows();
Rows binary_rows();
Rows reduction_rows();
Rows shape_rows();
Rows dimension_rows();
Rows indexing_rows();
Rows place_rows();
Rows order_rows();
Rows product_rows();
Rows more_product_rows();
Rows linalg_rows();
Rows image_rows();
Rows pool_more_rows();  ///< are among image_rows()
Rows network_rows();

/// Checks every row in every layout. Each program that links the tables says what that means: on
/// the CPU derivatives, values and shapes (test_op_table.cpp), on a GPU the CPU's results.
void check_rows(const Rows& rows);

/// What the inputs of a row are made as.
struct Made {
  DType dtype = kFloat64;
  Device device = kCpu;
};
/// Random values of this shape with the layout's strides.
Array laid_out(const Shape& shape, Layout layout, const Domain& domain, uint64_t id,
               const Made& made = {});
Tensors inputs_for(const OpRow& row, Layout layout, const Made& made = {});

const char* text(Layout layout);

/// Calls body(row, layout) wherever the row has that layout.
template <class Body>
void each_layout(const Rows& rows, Body&& body) {
  for (const OpRow& row : rows) {
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::broadcast,
                                Layout::empty, Layout::single}) {
      if (!row.skip.contains(layout)) body(row, layout);
    }
  }
}

/// int64 indices below `bound` of this shape, on the device of `like`.
Tensor indices(const Shape& shape, int64_t bound, const Tensor& like);

/// x [..., n, n] away from singular matrices: 3 on the diagonal is more than the others in a row
/// add up to.
Tensor dominant(const Tensor& x);

}  // namespace hero::test
