#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/ops.h>
#include <hero/core/elementwise.h>
#include <hero/core/map.h>
#include <hero/optim/check_option.h>
#include <hero/optim/newton.h>

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

[[noreturn]] void fail_singular(size_t n) {
  fail("newton: the matrix of second derivatives is singular: ", n, " x ", n,
       "; start elsewhere or set damping");
}

// Solves H d = g by elimination with row pivots; g becomes d. `epsilon` is the relative precision
// of the elements: pivots that are rounding errors count as zero.
void solve(std::vector<double> h, std::vector<double>& g, double epsilon) {
  const size_t n = g.size();
  double largest = 0.0;
  for (double x : h) largest = std::max(largest, std::fabs(x));
  const double least = largest * epsilon * static_cast<double>(n);
  for (size_t c = 0; c < n; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (std::fabs(h[r * n + c]) > std::fabs(h[best * n + c])) best = r;
    }
    const double pivot = h[best * n + c];
    if (!(std::fabs(pivot) > least) || !std::isfinite(pivot)) fail_singular(n);
    for (size_t j = 0; j < n; ++j) std::swap(h[best * n + j], h[c * n + j]);
    std::swap(g[best], g[c]);
    for (size_t r = c + 1; r < n; ++r) {
      const double factor = h[r * n + c] / pivot;
      for (size_t j = c; j < n; ++j) h[r * n + j] -= factor * h[c * n + j];
      g[r] -= factor * g[c];
    }
  }
  for (size_t c = n; c-- > 0;) {
    for (size_t j = c + 1; j < n; ++j) g[c] -= h[c * n + j] * g[j];
    g[c] /= h[c * n + c];
  }
}

Tensor float64(const std::vector<double>& values, const Shape& shape) {
  return Tensor(Array::from(values, shape));
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
  const bool wide = params_[0].dtype() == kFloat64;
  solve(h, g,
        wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon());
  int64_t at = 0;
  const Array all = Array::from(g, {n});
  for (const Tensor& param : params_) {
    const Array d = all.slice(0, at, at + param.numel()).reshape(param.shape());
    at += param.numel();
    const Array step = core::map<k::Mul>(d, Scalar(options_.lr)).to(param.dtype());
    core::map_into<k::Sub>(param.array(), param.array(), step.to(param.device()));
  }
  return seen;
}

}  // namespace hero::optim
