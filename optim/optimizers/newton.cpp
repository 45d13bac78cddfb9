#include <cmath>

#include <hero/autograd/node.h>
#include <hero/autograd/ops.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/update.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/optim/check_option.h>
#include <hero/optim/newton.h>
#include <hero/optim/owners.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;

// A tensor's elements, or zeros where the loss does not depend on the parameter.
void append_values(std::vector<double>& list, const Tensor& values, const Tensor& like) {
  if (!values.defined()) {
    list.resize(list.size() + static_cast<size_t>(like.numel()), 0.0);
    return;
  }
  const std::vector<double> found = values.to_vector<double>();
  list.insert(list.end(), found.begin(), found.end());
}

// Row after row of second derivatives, [n * n].
std::vector<double> hessian_rows(const std::vector<Tensor>& gradients,
                                 const std::vector<Tensor>& params) {
  std::vector<double> rows;
  for (size_t a = 0; a < params.size(); ++a) {
    const Tensor& g = gradients[a];
    for (int64_t i = 0; i < params[a].numel(); ++i) {
      std::vector<Tensor> row(params.size());
      if (g.defined() && g.requires_grad()) {
        row = grad({g.reshape({-1}).select(0, i)}, params,
                   {.retain_graph = true, .allow_unused = true});
      }
      for (size_t b = 0; b < params.size(); ++b) append_values(rows, row[b], params[b]);
    }
  }
  return rows;
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

Tensor float64(const std::vector<double>& values, const Shape& shape) {
  return Tensor(Array::from(values, shape));
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
    check(params[i].dtype() == params[0].dtype(), "newton: parameters of ", params[0].dtype(),
          " and ", params[i].dtype(), "; give all one dtype");
    for (size_t j = 0; j < i; ++j) {
      check(!is_same(params[i], params[j]), "newton: parameter ", i, " is given twice");
    }
  }
}

Newton::Seen Newton::step(const std::function<Tensor()>& loss) {
  check_whole("newton", params_);
  check_no_leaf_hooks(params_);
  Seen seen;
  std::vector<Tensor> gradients;
  {
    const EnableGrad recording;
    seen.loss = loss();
    gradients = grad({seen.loss}, params_, {.create_graph = true, .allow_unused = true});
  }
  std::vector<double> g;
  for (size_t i = 0; i < params_.size(); ++i) append_values(g, gradients[i], params_[i]);
  std::vector<double> h = hessian_rows(gradients, params_);
  const auto n = static_cast<int64_t>(g.size());
  seen.loss = seen.loss.detach();
  seen.gradient = float64(g, {n});
  seen.hessian = float64(h, {n, n});

  const NoGrad no_grad;
  for (size_t i = 0; i < g.size(); ++i) h[i * g.size() + i] += options_.damping;
  // In the parameters' precision: whether H is singular is a question of its rounding errors.
  const DType dtype = core::state_dtype(params_[0].dtype());
  const Array direction =
      newton_direction(Array::from(h, {n, n}).to(dtype), Array::from(g, {n}).to(dtype));
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
