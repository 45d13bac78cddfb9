#include <cmath>

#include <hero/autograd/functions/functional.h>
#include <hero/autograd/graph/node.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/update.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/optim/check_option.h>
#include <hero/optim/newton.h>
#include <hero/optim/optimizer.h>
#include <hero/optim/rank_groups.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;

// The tensors concatenated along `dim`, in double precision.
Tensor in_float64(const std::vector<Tensor>& parts, int64_t dim) {
  std::vector<Tensor> list;
  for (const Tensor& part : parts) list.push_back(part.detach().to(kCpu).to(kFloat64));
  return cat(list, dim);
}

// All second derivatives, [n, n].
Tensor hessian_of(const std::vector<Tensor>& gradients, const std::vector<Tensor>& params) {
  std::vector<Tensor> bands;
  for (const Tensor& g : gradients) {
    bands.push_back(in_float64(hero::detail::derivative_rows("newton", g, params), 1));
  }
  return in_float64(bands, 0);
}

// H^-1 g, [n]. One number is divided plainly: the article's digits. More go through QR with column
// pivots, which knows a matrix that is singular but for rounding errors from one that is not.
Array newton_direction(const Array& h, const Array& g) {
  const int64_t n = g.numel();
  for (double x : h.to_vector<double>()) {
    check(std::isfinite(x), "newton: a second derivative is not finite: ", x);
  }
  if (n == 1) {
    check(h.item() != 0.0, "newton: the second derivative is 0; start elsewhere or set damping");
    return core::map<k::Div>(g, h.reshape({1}));
  }
  try {
    return core::lstsq(h, g.reshape({n, 1})).reshape({n});
  } catch (const Error&) {
    fail("newton: the matrix of second derivatives is singular: ", n, " x ", n,
         "; start elsewhere or set damping");
  }
}

// DDP averages gradients in hooks of leaves, which grad() does not call.
void check_no_leaf_hooks(const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    hero::detail::each_hook(*params[i].impl(), &hero::detail::Hooks::leaf, [&](const auto&) {
      fail("newton: parameter ", i,
           " has hooks for its gradient, as all parameters under DDP, and Newton takes derivatives "
           "by grad(), which calls none: the ranks would diverge; train with an optimizer that "
           "steps by gradients, or on one process");
    });
  }
}

}  // namespace

Newton::Newton(const std::vector<Tensor>& params, const NewtonOptions& options)
    : params_(params), options_(options) {
  check(!params.empty(), "newton: there is no parameter to optimise");
  check_not_negative("newton", "lr", options.lr);
  check_not_negative("newton", "damping", options.damping);
  for (size_t i = 0; i < params.size(); ++i) {
    check(params[i].defined() && params[i].is_leaf() && params[i].requires_grad(),
          "newton: parameter ", i, " is not a leaf that requires grad");
    detail::check_places("newton", i, params[i].array());
    check(params[i].dtype() == params[0].dtype(), "newton: parameters of ", params[0].dtype(),
          " and ", params[i].dtype(), "; give all one dtype");
    for (size_t j = 0; j < i; ++j) {
      check(!is_same(params[i], params[j]), "newton: parameter ", i, " is given twice");
    }
  }
}

Newton::Seen Newton::step(const std::function<Tensor()>& loss) {
  check(static_cast<bool>(loss), "newton: step takes a function that computes the loss");
  check_whole("newton", params_);
  check_no_leaf_hooks(params_);
  Seen seen;
  std::vector<Tensor> gradients, flat;
  {
    const EnableGrad recording;
    seen.loss = loss();
    gradients = grad({seen.loss}, params_, {.create_graph = true, .allow_unused = true});
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    // the loss may not depend on it
    if (!gradients[i].defined()) gradients[i] = zeros_like(params_[i]);
    flat.push_back(gradients[i].reshape({params_[i].numel()}));
  }
  seen.loss = seen.loss.detach();
  seen.gradient = in_float64(flat, 0);
  seen.hessian = hessian_of(gradients, params_);

  const NoGrad no_grad;
  const Tensor damped = seen.hessian.clone();
  damped.diagonal().add_(options_.damping);
  // In the parameters' precision: whether H is singular is a question of its rounding errors.
  const DType dtype = core::state_dtype(params_[0].dtype());
  const Array direction =
      newton_direction(damped.array().to(dtype), seen.gradient.array().to(dtype));
  const Array move = core::map<k::Mul>(direction, Scalar(options_.lr));
  int64_t at = 0;
  for (const Tensor& param : params_) {
    const Array piece = move.slice(0, at, at + param.numel()).reshape(param.shape());
    at += param.numel();
    core::map_into<k::Sub>(param.array(), param.array(), piece.to(param.device()));
  }
  return seen;
}

}  // namespace hero::optim
