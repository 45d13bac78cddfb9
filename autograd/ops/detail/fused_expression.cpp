#include <algorithm>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

namespace {

namespace k = core::kernels;

template <class F>
constexpr uint16_t kOp = k::MapList::index_of<F>();

// What the steps of a formula are as operations on tensors.
struct One {
  uint16_t op;
  Tensor (*call)(const Tensor&);
};
constexpr One kOnes[] = {
    {kOp<k::Neg>, neg},         {kOp<k::Abs>, abs},
    {kOp<k::Sign>, sign},       {kOp<k::Square>, square},
    {kOp<k::Sqrt>, sqrt},       {kOp<k::Rsqrt>, rsqrt},
    {kOp<k::Exp>, exp},         {kOp<k::Expm1>, expm1},
    {kOp<k::Log>, log},         {kOp<k::Log1p>, log1p},
    {kOp<k::Sin>, sin},         {kOp<k::Cos>, cos},
    {kOp<k::Sinh>, sinh},       {kOp<k::Cosh>, cosh},
    {kOp<k::Tanh>, tanh},       {kOp<k::Sigmoid>, sigmoid},
    {kOp<k::Erf>, erf},         {kOp<k::Reciprocal>, reciprocal},
    {kOp<k::Digamma>, digamma}, {kOp<k::LogSigmoid>, logsigmoid},
};
struct Two {
  uint16_t op;
  Tensor (*call)(const Tensor&, const Tensor&);
};
constexpr Two kTwos[] = {
    {kOp<k::Add>, add}, {kOp<k::Sub>, sub}, {kOp<k::Mul>, mul},
    {kOp<k::Div>, div}, {kOp<k::Pow>, pow},
};

Tensor apply(core::MapOp op, const Tensor* const* x, double first, double second) {
  for (const One& one : kOnes) {
    if (one.op == op.index) return one.call(*x[0]);
  }
  for (const Two& two : kTwos) {
    if (two.op == op.index) return two.call(*x[0], *x[1]);
  }
  if (op.index == kOp<k::WhereLess>) return where(lt(*x[0], *x[1]), *x[2], *x[3]);
  if (op.index == kOp<k::WhereLessEqual>) return where(le(*x[0], *x[1]), *x[2], *x[3]);
  if (op.index == kOp<k::Softplus>) return softplus(*x[0], first, second);
  check(op.index == kOp<k::Clamp>, "this step of a formula has no derivative");
  return clamp(*x[0], first, second);
}

}  // namespace

FusedExpression::FusedExpression() = default;
FusedExpression::~FusedExpression() = default;

Term FusedExpression::operator()(const Tensor& input) {
  const Term term = core::FusedExpression::operator()(input.array());
  while (tensors_.size() < values_.size()) tensors_.push_back(Tensor());
  tensors_.back() = input;
  return term;
}

bool FusedExpression::is_recorded() const {
  if (!grad_enabled()) return false;
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [](const Tensor& x) { return x.defined() && x.requires_grad(); });
}

Tensor FusedExpression::run(Term result) const {
  return is_recorded() ? recorded(result) : Tensor(core::FusedExpression::run(result));
}

Grads FusedExpression::run(std::initializer_list<Wanted> gradients) const {
  Grads grads;
  std::vector<Term> terms;
  const bool records = is_recorded();
  for (const Wanted& wanted : gradients) {
    grads.push_back(wanted.is_wanted && records ? recorded(wanted.term) : Tensor());
    if (wanted.is_wanted) terms.push_back(wanted.term);
  }
  if (records || terms.empty()) return grads;
  std::vector<Array> results(terms.size());
  run_into(terms, results);
  auto result = results.begin();
  for (int i = 0; const Wanted& wanted : gradients) {
    if (wanted.is_wanted) grads[i] = Tensor(*result++);
    ++i;
  }
  return grads;
}

Tensor FusedExpression::recorded(Term result) const {
  const DType wide = dtype() == kFloat64 ? kFloat64 : kFloat32;
  const auto needed = this->needed({&result, 1});
  std::vector<Tensor> values, steps(static_cast<size_t>(result.at) + 1);
  Device device;
  for (const Tensor& x : tensors_) {
    if (x.defined()) device = x.device();
  }
  for (int i = 0; i < values_.size(); ++i) {
    values.push_back(i < tensors_.size() && tensors_[i].defined()
                         ? tensors_[i].to(wide)
                         : detail::number_of_dtype(values_[i].number, wide, device));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!needed[i]) continue;
    const core::FusedMapStep& step = steps_[static_cast<int>(i)];
    const Tensor* from[4] = {};
    double numbers[4] = {};
    for (size_t k = 0; k < static_cast<size_t>(step.arity); ++k) {
      const int64_t at = step.from[k];
      from[k] = at < 0 ? &values[static_cast<size_t>(~at)] : &steps[static_cast<size_t>(at)];
      if (at < 0) numbers[k] = values_[static_cast<int>(~at)].number.real();
    }
    steps[i] = apply(step.op, from, numbers[1], numbers[2]);
  }
  return steps.back();
}

Tensor detail::derived(const Tensor& g, const Tensor& saved,
                       Term (*call)(const void* f, Term, Term), const void* f) {
  FusedExpression formula;
  const Term first = formula(g), second = formula(saved);
  return formula.run(call(f, first, second));
}

}  // namespace hero
