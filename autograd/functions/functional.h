#pragma once
// Derivatives of functions: whole matrices of them, and products with vectors.
//
//   const auto f = [](const Tensor& x) { return (x * x * x).sum(); };
//   hessian(f, tensor({1.0, 2.0}));                  // [[6, 0], [0, 12]]
//   hvp(f, tensor({1.0, 2.0}), tensor({1.0, 1.0}));  // 6 and 12, without the matrix
//
// The functions are those of torch.autograd.functional. The differentiated function f returns one
// tensor. If it takes one tensor, so do the functions below, and their results are tensors; if it
// takes a std::vector of tensors, so do they, and their results are lists. Nothing is accumulated
// into grad() of any tensor.
#include <concepts>

#include <hero/autograd/functions/gradcheck.h>

namespace hero {

/// Options of jacobian(), hessian(), vjp(), jvp(), vhp() and hvp().
struct FunctionalOptions {
  /// True: the results are recorded, so that they have derivatives with respect to the inputs.
  bool create_graph = false;
  /// True: an input on which the result does not depend is an Error; false: its derivative is 0.
  bool strict = false;
};

/// What vjp(), jvp(), vhp() and hvp() of one tensor return.
struct OutputProduct {
  Tensor output;   ///< the value of the function
  Tensor product;  ///< the product of its derivative and the vector
};
/// What vjp(), vhp() and hvp() of several tensors return: a product for each of them.
struct OutputProducts {
  Tensor output;                 ///< the value of the function
  std::vector<Tensor> products;  ///< in the order of the inputs, each of its input's shape
};

namespace detail {
/// The Jacobian of y with respect to each of the inputs, as a matrix with a row for each element of
/// y, for which one backward pass runs. Errors name `op`.
std::vector<Tensor> derivative_rows(const char* op, const Tensor& y,
                                    const std::vector<Tensor>& inputs,
                                    const FunctionalOptions& options = {});
std::vector<Tensor> jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                             const FunctionalOptions& options);
std::vector<std::vector<Tensor>> hessian(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                         const FunctionalOptions& options);
OutputProducts vjp(const TensorFunction& f, const std::vector<Tensor>& inputs, const Tensor& v,
                   const FunctionalOptions& options);
OutputProduct jvp(const TensorFunction& f, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& v, const FunctionalOptions& options);
OutputProducts hvp(const char* op, const TensorFunction& f, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& v, const FunctionalOptions& options);

// A function of one tensor as a function of a list.
template <class F>
TensorFunction of_list(const F& f) {
  return [&f](const std::vector<Tensor>& inputs) { return f(inputs[0]); };
}
}  // namespace detail

/// \name Matrices of derivatives
/// \{
/// The derivative of each element of f(x) with respect to each element of x: a tensor whose shape
/// is that of f(x) followed by that of x. It takes one backward pass for each element of f(x).
template <class F, std::same_as<Tensor> T>
Tensor jacobian(const F& f, const T& x, const FunctionalOptions& options = {}) {
  return detail::jacobian(detail::of_list(f), {x}, options)[0];
}
/// The same for each of the inputs of f(inputs).
template <class F>
std::vector<Tensor> jacobian(const F& f, const std::vector<Tensor>& inputs,
                             const FunctionalOptions& options = {}) {
  return detail::jacobian(TensorFunction(f), inputs, options);
}
/// The second derivatives of f(x), which has one element: a tensor whose shape is that of x
/// followed by that of x again.
template <class F, std::same_as<Tensor> T>
Tensor hessian(const F& f, const T& x, const FunctionalOptions& options = {}) {
  return detail::hessian(detail::of_list(f), {x}, options)[0][0];
}
/// The same for each pair of the inputs: [i][j] has the shape of input i, then that of input j.
template <class F>
std::vector<std::vector<Tensor>> hessian(const F& f, const std::vector<Tensor>& inputs,
                                         const FunctionalOptions& options = {}) {
  return detail::hessian(TensorFunction(f), inputs, options);
}
/// \}

/// \name Products with vectors
/// \{
/// f(x), and the product of the vector v, which has the shape of f(x), and the jacobian: one
/// backward pass. If f(x) has one element, v may be left out and is then 1.
template <class F, std::same_as<Tensor> T>
OutputProduct vjp(const F& f, const T& x, const Tensor& v = {},
                  const FunctionalOptions& options = {}) {
  const OutputProducts all = detail::vjp(detail::of_list(f), {x}, v, options);
  return {all.output, all.products[0]};
}
template <class F>
OutputProducts vjp(const F& f, const std::vector<Tensor>& inputs, const Tensor& v = {},
                   const FunctionalOptions& options = {}) {
  return detail::vjp(TensorFunction(f), inputs, v, options);
}
/// f(x), and the product of the jacobian and the vector v, which has the shape of x: the derivative
/// of f in the direction v. It takes two backward passes: the second one differentiates vjp()'s
/// product with respect to its vector.
template <class F, std::same_as<Tensor> T>
OutputProduct jvp(const F& f, const T& x, const Tensor& v, const FunctionalOptions& options = {}) {
  return detail::jvp(detail::of_list(f), {x}, {v}, options);
}
template <class F>
OutputProduct jvp(const F& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                  const FunctionalOptions& options = {}) {
  return detail::jvp(TensorFunction(f), inputs, v, options);
}
/// f(x), which has one element, and the product of the hessian and the vector v, which has the
/// shape of x: two backward passes. Pearlmutter, Neural Computation 6, 1994.
template <class F, std::same_as<Tensor> T>
OutputProduct hvp(const F& f, const T& x, const Tensor& v, const FunctionalOptions& options = {}) {
  const OutputProducts all = detail::hvp("hvp", detail::of_list(f), {x}, {v}, options);
  return {all.output, all.products[0]};
}
template <class F>
OutputProducts hvp(const F& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                   const FunctionalOptions& options = {}) {
  return detail::hvp("hvp", TensorFunction(f), inputs, v, options);
}
/// The product of v and the hessian, which is hvp(), since a hessian is symmetric.
template <class F, std::same_as<Tensor> T>
OutputProduct vhp(const F& f, const T& x, const Tensor& v, const FunctionalOptions& options = {}) {
  const OutputProducts all = detail::hvp("vhp", detail::of_list(f), {x}, {v}, options);
  return {all.output, all.products[0]};
}
template <class F>
OutputProducts vhp(const F& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v,
                   const FunctionalOptions& options = {}) {
  return detail::hvp("vhp", TensorFunction(f), inputs, v, options);
}
/// \}

}  // namespace hero
