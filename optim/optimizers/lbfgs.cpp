#include <algorithm>
#include <cmath>

#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/profile/observer.h>
#include <hero/optim/check_option.h>
#include <hero/optim/lbfgs.h>
#include <hero/optim/line_search.h>
#include <hero/optim/rank_groups.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;

double dot(const Array& a, const Array& b) {
  return core::reduce(core::ReduceKind::sum, core::map<k::Mul>(a, b)).item();
}
double largest(const Array& a) {
  return core::reduce(core::ReduceKind::max, core::map<k::Abs>(a)).item();
}
// y += factor * x
void add_scaled(const Array& y, double factor, const Array& x) {
  core::map_into<k::Addcmul>(y, y, x, Scalar(1.0), Scalar(factor));
}

// One row a pair, or an array without rows.
Array stack_rows(const std::vector<Array>& rows, int64_t columns, DType dtype) {
  const Array all = Array::empty({static_cast<int64_t>(rows.size()), columns}, dtype);
  for (size_t i = 0; i < rows.size(); ++i) {
    core::backend(kCpu).run(
        core::call::Copy{rows[i].to(kCpu), all.select(0, static_cast<int64_t>(i))});
  }
  return all;
}

// What averages the gradients of all parameters, as under DDP; null if nothing does. A step is in
// one direction for all elements, which must be that of all ranks.
std::shared_ptr<GradientReducer> averager_of(const std::vector<Tensor>& params) {
  const auto first = gradient_reducer(params[0]);
  const auto ranks = first ? first->averaging_ranks() : std::vector<int>();
  for (size_t i = 1; i < params.size(); ++i) {
    const auto other = gradient_reducer(params[i]);
    const bool same = other == first || (other && first && other->averaging_ranks() == ranks);
    check(same, "lbfgs: parameter 0 is averaged over the ranks by ",
          first ? first->describe_reducer() : "nothing", ", and parameter ", i, " by ",
          other ? other->describe_reducer() : "nothing",
          "; ranks would step apart: give one DDP all parameters, or each its own optimizer");
  }
  return first;
}

}  // namespace

template class OptimizerOf<LBFGSOptions>;

void LBFGSOptions::check_values() const {
  check_not_negative("lbfgs", "lr", lr);
  check(max_iter > 0, "lbfgs: max_iter must be positive: ", max_iter);
  check(max_eval >= 0, "lbfgs: max_eval must be 0 or more: ", max_eval);
  check(history_size > 0, "lbfgs: history_size must be positive: ", history_size);
  check_not_negative("lbfgs", "tolerance_grad", tolerance_grad);
  check_not_negative("lbfgs", "tolerance_change", tolerance_change);
}

DType LBFGS::flat_dtype() const {
  DType dtype = kFloat32;
  for (const Tensor& param : parameters()) dtype = promote(dtype, param.dtype());
  return dtype;
}

// The history in the dtype and on the device of the parameters. That of parameters that have become
// shards stays as it is: step() refuses them.
void LBFGS::follow() const {
  Memory& m = memory_;
  const DType dtype = flat_dtype();
  const Device device = parameters()[0].device();
  if (!m.direction.defined() || (m.direction.dtype() == dtype && m.direction.device() == device)) {
    return;
  }
  check(m.direction.device().type != DeviceType::meta,
        "lbfgs: the parameters have got values since the history was made on meta, without any; "
        "make the optimizer after that, or load its state from a checkpoint");
  const MemoryScope scope(MemoryTag::optimizer);
  Memory moved = m;
  const auto fit = [&](Array& array) { array = array.to(dtype).to(device); };
  fit(moved.direction);
  fit(moved.gradient);
  for (Pair& pair : moved.pairs) {
    fit(pair.step);
    fit(pair.change);
  }
  m = std::move(moved);
}

// The loss, and all gradients behind one another; zeros where there is none. With maximize, those
// of the loss with the other sign, which the rest of the step minimises. Under DDP gradients
// are those of the mean of all ranks' losses: by another loss the ranks would choose other lengths.
double LBFGS::evaluate(const std::function<Tensor()>& closure, Array& gradient) const {
  check(static_cast<bool>(closure), "lbfgs: step takes a function that computes the loss");
  const std::vector<Tensor> params = parameters();
  double loss = 0.0;
  {
    const EnableGrad recording;
    loss = closure().item();
  }
  if (const auto ranks = averager_of(params)) loss = ranks->average_loss(loss, "lbfgs");
  int64_t n = 0;
  for (const Tensor& param : params) n += param.numel();
  gradient = Array::zeros({n}, flat_dtype(), params[0].device());
  int64_t at = 0;
  for (const Tensor& param : params) {
    const Tensor grad = param.grad();
    const Array piece = gradient.slice(0, at, at + param.numel());
    if (grad.defined()) {
      core::backend(piece.device())
          .run(core::call::Copy{grad.array().contiguous().reshape({-1}), piece});
    }
    at += param.numel();
  }
  if (!options().maximize) return loss;
  core::map_into<k::Neg>(gradient, gradient);
  return -loss;
}

// Sets the parameters to origin + t * direction.
void LBFGS::move(const Array& origin, double t) const {
  const Array point = origin.clone();
  if (t != 0.0) add_scaled(point, t, memory_.direction);
  int64_t at = 0;
  for (const Tensor& param : parameters()) {
    const Array piece = point.slice(0, at, at + param.numel()).reshape(param.shape());
    core::backend(piece.device()).run(core::call::Copy{piece, param.array()});
    param.array().storage().bump_version();
    at += param.numel();
  }
}

// The product of the approximate inverse curvature with -gradient, by the two-loop recursion.
void LBFGS::choose_direction(const Array& gradient) {
  Memory& m = memory_;
  m.iterations += 1.0;
  if (m.iterations == 1.0) {
    m.direction = core::map<k::Neg>(gradient);
    return;
  }
  const Array change = core::map<k::Sub>(gradient, m.gradient);
  const Array step = core::map<k::Mul>(m.direction, Scalar(m.t));
  const double curvature = dot(change, step);
  // A pair without positive curvature would turn the direction uphill.
  if (curvature > 1e-10) {
    const auto most = static_cast<size_t>(options().history_size);
    if (m.pairs.size() >= most) m.pairs.erase(m.pairs.begin());
    m.pairs.push_back({step, change, 1.0 / curvature});
    m.diagonal = curvature / dot(change, change);
  }
  const Array d = core::map<k::Neg>(gradient);
  std::vector<double> weights(m.pairs.size());
  for (size_t i = m.pairs.size(); i-- > 0;) {
    weights[i] = dot(m.pairs[i].step, d) * m.pairs[i].inverse;
    add_scaled(d, -weights[i], m.pairs[i].change);
  }
  core::map_into<k::Mul>(d, d, Scalar(m.diagonal));
  for (size_t i = 0; i < m.pairs.size(); ++i) {
    const double back = dot(m.pairs[i].change, d) * m.pairs[i].inverse;
    add_scaled(d, weights[i] - back, m.pairs[i].step);
  }
  m.direction = d;
}

// Of the loss in one step().
int most_evaluations(const LBFGSOptions& o) {
  return o.max_eval > 0 ? o.max_eval : o.max_iter * 5 / 4;
}

// One iteration; false when it is the last one worth taking.
bool LBFGS::iterate(const std::function<Tensor()>& closure, bool last, double& loss,
                    Array& gradient, int& evaluations) {
  const LBFGSOptions& o = options();
  Memory& m = memory_;
  choose_direction(gradient);
  m.gradient = gradient;
  const double before = loss;
  // Without curvature the gradient's length says nothing about how far to go.
  m.t = o.lr;
  if (m.iterations == 1.0) {
    const double length = core::reduce(core::ReduceKind::sum_abs, gradient).item();
    m.t = std::min(1.0, 1.0 / length) * o.lr;
  }
  const double slope = dot(gradient, m.direction);
  if (slope > -o.tolerance_change) return false;
  const Array origin = flat_params();
  if (o.line_search == LineSearch::strong_wolfe) {
    const auto look = [&](double t) {
      LinePoint p;
      move(origin, t);
      p.t = t;
      p.loss = evaluate(closure, p.gradient);
      p.slope = dot(p.gradient, m.direction);
      ++evaluations;
      return p;
    };
    const LinePoint found = strong_wolfe(look, {0.0, loss, slope, gradient}, m.t,
                                         {.least_width = o.tolerance_change / largest(m.direction),
                                          .max_eval = most_evaluations(o) - evaluations});
    m.t = found.t;
    loss = found.loss;
    gradient = found.gradient;
    move(origin, m.t);
  } else {
    move(origin, m.t);
    if (last) return false;  // nobody would use another evaluation
    loss = evaluate(closure, gradient);
    ++evaluations;
  }
  return largest(gradient) > o.tolerance_grad &&
         largest(m.direction) * std::fabs(m.t) > o.tolerance_change &&
         std::fabs(loss - before) >= o.tolerance_change;
}

Array LBFGS::flat_params() const {
  const std::vector<Tensor> params = parameters();
  int64_t n = 0;
  for (const Tensor& param : params) n += param.numel();
  const Array flat = Array::empty({n}, flat_dtype(), params[0].device());
  int64_t at = 0;
  for (const Tensor& param : params) {
    core::backend(flat.device())
        .run(core::call::Copy{param.array().contiguous().reshape({-1}),
                              flat.slice(0, at, at + param.numel())});
    at += param.numel();
  }
  return flat;
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  const ProfileScope::Step profiled("optimizer step");
  check_whole("lbfgs", parameters());
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  follow();
  const LBFGSOptions& o = options();
  Array gradient;
  double loss = evaluate(closure, gradient);
  const Tensor first(Array::full({}, o.maximize ? -loss : loss, flat_dtype()));
  int evaluations = 1;
  if (largest(gradient) <= o.tolerance_grad) return first;
  for (int i = 1; i <= o.max_iter; ++i) {
    if (!iterate(closure, i == o.max_iter, loss, gradient, evaluations)) break;
    if (evaluations >= most_evaluations(o)) break;
  }
  return first;
}

void LBFGS::step() {
  fail("lbfgs: step() needs a closure that evaluates the loss again; call step(closure)");
}

void LBFGS::check_group(const std::vector<Tensor>& /*params*/) const {
  fail(
      "lbfgs: add_param_group: its steps are of one vector of all parameters, with one set of "
      "options; make another optimizer");
}

StateDict LBFGS::state_dict() const {
  follow();
  StateDict dict;
  add_options(dict);
  const Memory& m = memory_;
  dict.push_back(state_number("lbfgs.iterations", m.iterations));
  dict.push_back(state_number("lbfgs.pairs", static_cast<double>(m.pairs.size())));
  if (m.iterations == 0.0) return dict;
  dict.push_back(state_number("lbfgs.t", m.t));
  dict.push_back(state_number("lbfgs.diagonal", m.diagonal));
  dict.push_back({"lbfgs.direction", m.direction.clone()});
  dict.push_back({"lbfgs.gradient", m.gradient.clone()});
  std::vector<Array> steps, changes;
  std::vector<double> inverses;
  for (const Pair& pair : m.pairs) {
    steps.push_back(pair.step);
    changes.push_back(pair.change);
    inverses.push_back(pair.inverse);
  }
  const int64_t n = m.direction.numel();
  dict.push_back({"lbfgs.steps", stack_rows(steps, n, flat_dtype())});
  dict.push_back({"lbfgs.changes", stack_rows(changes, n, flat_dtype())});
  dict.push_back(
      {"lbfgs.inverses", Array::from(inverses, {static_cast<int64_t>(inverses.size())})});
  return dict;
}

void LBFGS::load_state_dict(const StateDict& dict) {
  const MemoryScope scope(MemoryTag::optimizer);
  StateLookup lookup("lbfgs", dict);
  const int64_t n = flat_params().numel();
  const Device device = parameters()[0].device();
  constexpr double kMostPairs = 1e6;  // far beyond any history, and small enough for a shape
  Memory loaded;
  keep_options([&] {
    load_options(lookup);
    loaded.iterations = lookup.count("lbfgs.iterations");
    const auto pairs = static_cast<int64_t>(lookup.count("lbfgs.pairs", kMostPairs));
    if (loaded.iterations > 0.0) {
      loaded.t = lookup.finite("lbfgs.t");
      loaded.diagonal = lookup.finite("lbfgs.diagonal");
      const Array* direction = lookup.array("lbfgs.direction", {n}, flat_dtype());
      const Array* gradient = lookup.array("lbfgs.gradient", {n}, flat_dtype());
      const Array* steps = lookup.array("lbfgs.steps", {pairs, n}, flat_dtype());
      const Array* changes = lookup.array("lbfgs.changes", {pairs, n}, flat_dtype());
      const Array* inverses = lookup.array("lbfgs.inverses", {pairs}, kFloat64);
      lookup.finish();
      loaded.direction = direction->clone().to(device);
      loaded.gradient = gradient->clone().to(device);
      for (int64_t i = 0; i < pairs; ++i) {
        loaded.pairs.push_back({steps->select(0, i).clone().to(device),
                                changes->select(0, i).clone().to(device),
                                inverses->select(0, i).item()});
      }
    } else {
      lookup.finish();
    }
  });
  memory_ = std::move(loaded);
}

}  // namespace hero::optim
