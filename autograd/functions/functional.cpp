#include <hero/autograd/functions/functional.h>
#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

using List = std::vector<Tensor>;

// The function's value at leaves that stand for the inputs, or with create_graph at the inputs
// themselves where these are recorded.
struct Call {
  List at;
  Tensor output;

  Call(const char* op, const TensorFunction& f, const List& inputs, bool create_graph) {
    check(!inputs.empty(), op, ": there is no input to differentiate for");
    detail::check_defined(op, inputs);
    for (const Tensor& x : inputs) {
      check(is_floating(x.dtype()), op, ": an input is ", x.dtype(),
            "; convert it to a floating dtype first");
      // A view, so that the derivative is that of this use of the input alone.
      at.push_back(create_graph && x.requires_grad() ? x.view(x.shape())
                                                     : x.detach().requires_grad_());
    }
    output = f(at);
    check(output.defined(), op, ": the function returned an undefined tensor");
  }
};

void check_one_element(const char* op, const Tensor& y) {
  check(y.numel() == 1, op, ": the function must return one element, not ", y.shape());
}

// Zeros in the place of gradients that there are none of.
List filled(const char* op, List grads, const List& inputs, bool strict) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) continue;
    check(!strict, op, ": the result does not depend on input ", i);
    grads[i] = zeros_like(inputs[i]);
  }
  return grads;
}

// Gradients of y in the direction g; of inputs without effect, undefined ones.
List gradients(const Tensor& y, const List& inputs, const Tensor& g, bool keep, bool create) {
  if (!y.requires_grad()) return List(inputs.size());
  return grad(
      {y}, inputs,
      {.grad_outputs = {g}, .retain_graph = keep, .create_graph = create, .allow_unused = true});
}

Tensor finished(const Tensor& x, bool create_graph) { return create_graph ? x : x.detach(); }

List finished(List list, bool create_graph) {
  for (Tensor& x : list) x = finished(x, create_graph);
  return list;
}

// The derivatives of y, each of the shape of y, then that of its input.
List jacobians(const char* op, const Tensor& y, const List& inputs,
               const FunctionalOptions& options) {
  List list = detail::derivative_rows(op, y, inputs, options);
  for (size_t i = 0; i < list.size(); ++i) {
    const Shape& behind = inputs[i].shape();
    check(y.ndim() + behind.size() <= kMaxDims, op, ": more than ", kMaxDims,
          " dimensions: ", y.shape(), " and ", behind);
    Shape shape = y.shape();
    for (const int64_t size : behind) shape.push_back(size);
    list[i] = reshape(list[i], shape);
  }
  return finished(std::move(list), options.create_graph);
}

void check_vectors(const char* op, const List& inputs, const List& v) {
  check(v.size() == inputs.size(), op, ": there are ", v.size(), " vectors for ", inputs.size(),
        " inputs");
  detail::check_defined(op, v);
  for (size_t i = 0; i < v.size(); ++i) {
    check(v[i].shape() == inputs[i].shape(), op, ": vector ", v[i].shape(),
          " does not fit the input ", inputs[i].shape());
  }
}

// The derivative in the directions v of gradients that depend linearly on u, or of a function of
// the inputs u.
List twice(const char* op, const List& first, const List& u, const List& v,
           const FunctionalOptions& options) {
  List outputs, directions;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].defined() || !first[i].requires_grad()) continue;
    outputs.push_back(first[i]);
    directions.push_back(v[i]);
  }
  if (outputs.empty()) return filled(op, List(u.size()), u, options.strict);
  return filled(
      op,
      grad(
          outputs, u,
          {.grad_outputs = directions, .create_graph = options.create_graph, .allow_unused = true}),
      u, options.strict);
}

}  // namespace

List detail::derivative_rows(const char* op, const Tensor& y, const List& inputs,
                             const FunctionalOptions& options) {
  std::vector<List> lists(inputs.size());
  const Tensor places = arange(y.numel(), {.device = y.device()});
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Tensor one = reshape((places == i).to(y.dtype()), y.shape());
    const List row =
        filled(op, gradients(y, inputs, one, true, options.create_graph), inputs, options.strict);
    for (size_t j = 0; j < row.size(); ++j) lists[j].push_back(reshape(row[j], {row[j].numel()}));
  }
  List result;
  for (size_t j = 0; j < inputs.size(); ++j) {
    const TensorOptions like{.dtype = inputs[j].dtype(), .device = inputs[j].device()};
    result.push_back(lists[j].empty() ? zeros({0, inputs[j].numel()}, like) : stack(lists[j]));
  }
  return result;
}

List detail::jacobian(const TensorFunction& f, const List& inputs,
                      const FunctionalOptions& options) {
  const EnableGrad recorded;
  const Call call("jacobian", f, inputs, options.create_graph);
  return jacobians("jacobian", call.output, call.at, options);
}

std::vector<List> detail::hessian(const TensorFunction& f, const List& inputs,
                                  const FunctionalOptions& options) {
  const EnableGrad recorded;
  const Call call("hessian", f, inputs, options.create_graph);
  check_one_element("hessian", call.output);
  const Tensor one = ones_like(call.output);
  const List first =
      filled("hessian", gradients(call.output, call.at, one, true, true), call.at, options.strict);
  std::vector<List> result;
  for (const Tensor& g : first) {
    result.push_back(jacobians("hessian", g, call.at, options));
  }
  return result;
}

OutputProducts detail::vjp(const TensorFunction& f, const List& inputs, const Tensor& v,
                           const FunctionalOptions& options) {
  const EnableGrad recorded;
  const Call call("vjp", f, inputs, options.create_graph);
  if (v.defined()) {
    check(v.shape() == call.output.shape(), "vjp: v ", v.shape(), " does not fit the output ",
          call.output.shape());
  } else {
    check(call.output.numel() == 1, "vjp: needs v, as the function returns ", call.output.shape());
  }
  const Tensor g = v.defined() ? v : ones_like(call.output);
  List products =
      filled("vjp", gradients(call.output, call.at, g, options.create_graph, options.create_graph),
             call.at, options.strict);
  return {finished(call.output, options.create_graph),
          finished(std::move(products), options.create_graph)};
}

OutputProduct detail::jvp(const TensorFunction& f, const List& inputs, const List& v,
                          const FunctionalOptions& options) {
  const EnableGrad recorded;
  const Call call("jvp", f, inputs, options.create_graph);
  check_vectors("jvp", inputs, v);
  const Tensor u = zeros_like(call.output).requires_grad_();
  const List first = gradients(call.output, call.at, u, true, true);
  const Tensor product = twice("jvp", first, {u}, v, options)[0];
  return {finished(call.output, options.create_graph), finished(product, options.create_graph)};
}

OutputProducts detail::hvp(const char* op, const TensorFunction& f, const List& inputs,
                           const List& v, const FunctionalOptions& options) {
  const EnableGrad recorded;
  const Call call(op, f, inputs, options.create_graph);
  check_one_element(op, call.output);
  check_vectors(op, inputs, v);
  const List first = gradients(call.output, call.at, ones_like(call.output), true, true);
  return {finished(call.output, options.create_graph),
          finished(twice(op, first, call.at, v, options), options.create_graph)};
}

}  // namespace hero
