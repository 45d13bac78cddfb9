#include <cmath>

#include <hero/core/array/promotion.h>
#include <hero/core/functions/fused_expression.h>

namespace hero::core {

constinit thread_local FusedExpression* FusedExpression::current_ = nullptr;

FusedExpression::FusedExpression(const char* op) : op_(op), outer_(current_) { current_ = this; }
FusedExpression::~FusedExpression() { current_ = outer_; }

Term FusedExpression::operator()(const Array& input) {
  check(input.defined(), op_, ": an input is undefined");
  values_.push_back({input, Scalar()});
  return Term(static_cast<int16_t>(-values_.size()));
}

Term FusedExpression::number(double value) {
  auto& values = current_->values_;
  for (int i = 0; i < values.size(); ++i) {
    const double known = values[i].number.real();
    const bool is_same = known == value && std::signbit(known) == std::signbit(value);
    if (!values[i].array.defined() && is_same) return Term(static_cast<int16_t>(~i));
  }
  values.push_back({Array(), Scalar(value)});
  return Term(static_cast<int16_t>(-values.size()));
}

Term FusedExpression::step(MapOp op, int arity, std::array<int16_t, 4> from) {
  auto& steps = current_->steps_;
  for (int i = 0; i < steps.size(); ++i) {
    if (steps[i].op.index == op.index && steps[i].from == from) {
      return Term(static_cast<int16_t>(i));
    }
  }
  check(steps.size() < kMaxSteps, "a formula has too many steps");
  steps.push_back({op, static_cast<int16_t>(arity), from});
  return Term(static_cast<int16_t>(steps.size() - 1));
}

std::bitset<FusedExpression::kMaxSteps> FusedExpression::needed(
    std::span<const Term> results) const {
  std::bitset<kMaxSteps> needed;
  for (const Term result : results) {
    check(result.at >= 0, "a formula without a step");
    needed.set(static_cast<size_t>(result.at));
  }
  for (int i = steps_.size() - 1; i >= 0; --i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    for (int k = 0; k < steps_[i].arity; ++k) {
      const int64_t from = steps_[i].from[static_cast<size_t>(k)];
      if (from >= 0) needed.set(static_cast<size_t>(from));
    }
  }
  return needed;
}

DType FusedExpression::dtype() const {
  Promotion promotion;
  for (const Value& value : values_) {
    if (value.array.defined()) promotion.add(value.array.dtype(), value.array.ndim());
  }
  return is_floating(promotion.dtype()) ? promotion.dtype() : kFloat32;
}

Array FusedExpression::run(Term result) const {
  Array out;
  run({&result, 1}, {&out, 1}, false);
  return out;
}
Array FusedExpression::run_wide(Term result) const {
  Array out;
  run({&result, 1}, {&out, 1}, true);
  return out;
}
void FusedExpression::run_into(std::span<const Term> terms, std::span<Array> outs) const {
  run(terms, outs, false);
}

Array FusedExpression::sum(Term result, int dims) const {
  const Plan made = plan({&result, 1});
  Shape kept = made.shape;
  for (int i = 0; i < dims; ++i) kept.pop_back();
  const DType compute = dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Array out = Array::empty(kept, compute, made.device);
  backend(made.device).run(call::FusedMapSum{made.steps, made.operands, compute, made.shape, out});
  return out.to(dtype());
}
Array FusedExpression::sum(Term result) const {
  return sum(result, plan({&result, 1}).shape.size());
}

FusedExpression::Plan FusedExpression::plan(std::span<const Term> results) const {
  const std::bitset<kMaxSteps> needed = this->needed(results);
  Plan plan;
  std::array<int16_t, kMaxSteps> step_at{};
  InlineVector<int16_t, 8> operand_at;
  operand_at.resize(values_.size());
  const Array* first = nullptr;
  // An input or number, of which a step is the first one that needs it.
  const auto take = [&](int i) {
    int16_t& at = operand_at[i];
    if (at < 0) return at;
    const Array& array = values_[i].array;
    if (array.defined()) {
      if (first) check_same_device(op_, *first, array);
      plan.shape = first ? broadcast_shapes(op_, plan.shape, array.shape()) : array.shape();
      first = &array;
      plan.operands.push_back(array);
    } else {
      plan.operands.push_back(values_[i].number);
    }
    return at = static_cast<int16_t>(-static_cast<int>(plan.operands.size()));
  };
  for (int i = 0; i < steps_.size(); ++i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    step_at[static_cast<size_t>(i)] = static_cast<int16_t>(plan.steps.size());
    FusedMapStep& step = plan.steps.emplace_back(steps_[i]);
    for (int k = 0; k < step.arity; ++k) {
      int16_t& from = step.from[static_cast<size_t>(k)];
      from = from < 0 ? take(~from) : step_at[static_cast<size_t>(from)];
    }
  }
  for (size_t k = 0; k < results.size(); ++k) {
    int16_t& out = plan.steps[static_cast<size_t>(step_at[static_cast<size_t>(results[k].at)])].out;
    check(out < 0, op_, ": a formula has one result twice");
    out = static_cast<int16_t>(k);
  }
  plan.device = first->device();
  return plan;
}

void FusedExpression::run(std::span<const Term> results, std::span<Array> outs,
                          bool is_wide) const {
  const Plan made = plan(results);
  const auto& [steps, operands, shape, device] = made;
  const DType stored = dtype();
  for (Array& out : outs) {
    if (!out.defined()) out = Array::empty(shape, stored, device);
  }
  const DType compute = is_wide || stored == kFloat64 ? kFloat64 : kFloat32;
  if (steps.size() == 1) {
    std::vector<Operand> in_order;
    for (int k = 0; k < steps[0].arity; ++k) {
      const int64_t from = steps[0].from[static_cast<size_t>(k)];
      in_order.push_back(operands[static_cast<size_t>(~from)]);
    }
    backend(outs[0].device()).run(call::Map{steps[0].op, in_order, compute, outs[0]});
  } else {
    backend(outs[0].device()).run(call::FusedMap{steps, operands, compute, outs});
  }
}

}  // namespace hero::core
