#include <cmath>
#include <utility>

#include <hero/autograd/sharding/partition.h>
#include <hero/core/error.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
#include <hero/optim/accumulator.h>

namespace hero::optim {
namespace {

namespace k = core::kernels;

// right = left + right; either may be missing, which adds nothing.
void add_behind(const Array& left, Array& right) {
  if (!left.defined()) return;
  if (!right.defined()) {
    right = left;
  } else {
    core::map_into<k::Add>(left, left, right);
    right = left;
  }
}

}  // namespace

std::vector<double> target_weights(const std::vector<double>& targets) {
  double sum = 0.0;
  for (size_t i = 0; i < targets.size(); ++i) {
    check(targets[i] >= 0.0 && std::isfinite(targets[i]), "target_weights: part ", i, " has ",
          targets[i], " targets");
    sum += targets[i];
  }
  return target_weights(targets, static_cast<double>(targets.size()), sum);
}

std::vector<double> target_weights(const std::vector<double>& targets, double parts, double sum) {
  std::vector<double> weights;
  for (const double each : targets) weights.push_back(sum > 0.0 ? parts * each / sum : 0.0);
  return weights;
}

Accumulator::Accumulator(std::vector<Tensor> parameters)
    : parameters_(optimizer_leaves(std::move(parameters))), levels_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check(parameters_[i].defined(), "Accumulator: parameter ", i, " of ", parameters_.size(),
          " is undefined");
  }
}

void Accumulator::add() {
  const MemoryScope tag(MemoryTag::gradient);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor gradient = parameters_[i].grad();
    Levels& levels = levels_[i];
    Array sum;
    if (gradient.defined()) {
      levels.dtype = gradient.dtype();
      sum = is_half(levels.dtype) ? gradient.array().to(kFloat32) : gradient.array();
      parameters_[i].set_grad({});
    }
    size_t level = 0;
    for (; (count_ >> level & 1) != 0; ++level) {
      add_behind(levels.sums[level], sum);
      levels.sums[level] = {};
    }
    if (level == levels.sums.size()) levels.sums.emplace_back();
    levels.sums[level] = std::move(sum);
  }
  ++count_;
}

void Accumulator::finish(const char* what, double divisor) {
  check(count_ > 0, "Accumulator::", what, ": nothing was added; call add() after each backward()");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check(!parameters_[i].grad().defined(), "Accumulator::", what, ": parameter ", i, " of ",
          parameters_.size(), " has got a gradient since the last add(); call add() first");
  }
  const MemoryScope tag(MemoryTag::gradient);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Levels& levels = levels_[i];
    Array sum;
    for (const Array& waiting : levels.sums) add_behind(waiting, sum);
    if (sum.defined()) {
      if (divisor != 1.0) core::map_into<k::Div>(sum, sum, Scalar(divisor));
      parameters_[i].set_grad(Tensor(sum.to(levels.dtype)));
    }
    levels = {};
  }
  count_ = 0;
}

}  // namespace hero::optim
