#pragma once
// Fused expressions: several elementwise operations written as one and computed in one pass.
//
//   FusedExpression f;
//   const Term x = f(input), y = f(other);
//   const Array out = f.run(where(x < 0, exp(x) * y, x + 1));
#include <bitset>

#include <hero/core/array/inline_vector.h>
#include <hero/core/device/backend.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core {

/// A value of the innermost FusedExpression of this thread: an input, a number or the result of a
/// step.
struct Term {
  Term(double number);
  explicit constexpr Term(int16_t value) : at(value) {}
  int16_t at;  ///< as in FusedMapStep::from
};

/// While it lives, terms that its thread makes belong to it. Numbers take the dtype of the inputs.
class FusedExpression {
 public:
  /// `op` names the operation in errors.
  explicit FusedExpression(const char* op = "formula");
  ~FusedExpression();
  FusedExpression(const FusedExpression&) = delete;
  FusedExpression& operator=(const FusedExpression&) = delete;

  Term operator()(const Array& input);
  /// The value of the term for every element of the inputs, which are broadcast to one shape and
  /// promoted to one dtype. It is computed in that dtype, or in float32 for half precision and
  /// integers, and rounded once.
  Array run(Term result) const;
  /// The sums of the term over the last `dims` dimensions of the inputs' common shape, in the order
  /// of reduce(), without an array of the terms; in half precision the terms are not rounded before
  /// they are added.
  Array sum(Term result, int dims) const;
  /// The sum of the term over all dimensions.
  Array sum(Term result) const;
  /// Does what run() does, computed in float64.
  Array run_wide(Term result) const;
  /// Computes several terms, which are different steps, in one pass. If outs[i] is defined,
  /// terms[i] is written into it: it has the results' shape and is no input. Otherwise outs[i]
  /// becomes a new array.
  void run_into(std::span<const Term> terms, std::span<Array> outs) const;

  /// Makes a term; equal steps, and equal numbers, give the same term.
  static Term step(MapOp op, int arity, std::array<int16_t, 4> from);
  static Term number(double value);

 protected:
  struct Value {
    Array array;  // undefined: the number
    Scalar number;
  };
  static constexpr int kMaxSteps = 64;  // Term::at has room for them
  InlineVector<FusedMapStep, 16> steps_;
  InlineVector<Value, 6> values_;  // Term::at is ~i for values_[i]

  /// The steps that these terms depend on, including their own.
  std::bitset<kMaxSteps> needed(std::span<const Term> results) const;
  /// The promoted dtype of the inputs; float32 if they are integers.
  DType dtype() const;

 private:
  // The steps of some terms, and their operands.
  struct Plan {
    std::vector<FusedMapStep> steps;
    std::vector<Operand> operands;
    Shape shape;  // of the inputs together
    Device device;
  };
  Plan plan(std::span<const Term> results) const;
  void run(std::span<const Term> results, std::span<Array> outs, bool is_wide) const;
  const char* op_;
  FusedExpression* outer_;
  static thread_local FusedExpression* current_;
};

inline Term::Term(double number) : Term(FusedExpression::number(number)) {}

/// The term that is the functor F of these terms.
template <class F, class... In>
Term term(In... inputs) {
  static_assert(sizeof...(In) == F::arity && !F::predicate);
  return FusedExpression::step({kernels::MapList::index_of<F>()}, F::arity, {Term(inputs).at...});
}

/// \name Functions of terms: those of tensors that have these names.
/// \{
inline Term abs(Term x) { return term<kernels::Abs>(x); }
inline Term sign(Term x) { return term<kernels::Sign>(x); }
inline Term square(Term x) { return term<kernels::Square>(x); }
inline Term sqrt(Term x) { return term<kernels::Sqrt>(x); }
inline Term rsqrt(Term x) { return term<kernels::Rsqrt>(x); }
inline Term reciprocal(Term x) { return term<kernels::Reciprocal>(x); }
inline Term exp(Term x) { return term<kernels::Exp>(x); }
inline Term expm1(Term x) { return term<kernels::Expm1>(x); }
inline Term log(Term x) { return term<kernels::Log>(x); }
inline Term log1p(Term x) { return term<kernels::Log1p>(x); }
inline Term sin(Term x) { return term<kernels::Sin>(x); }
inline Term cos(Term x) { return term<kernels::Cos>(x); }
inline Term sinh(Term x) { return term<kernels::Sinh>(x); }
inline Term cosh(Term x) { return term<kernels::Cosh>(x); }
inline Term tanh(Term x) { return term<kernels::Tanh>(x); }
inline Term sigmoid(Term x) { return term<kernels::Sigmoid>(x); }
inline Term logsigmoid(Term x) { return term<kernels::LogSigmoid>(x); }
inline Term erf(Term x) { return term<kernels::Erf>(x); }
inline Term pow(Term a, Term b) { return term<kernels::Pow>(a, b); }
inline Term softplus(Term x, double beta, double threshold) {
  return term<kernels::Softplus>(x, Term(beta), Term(threshold));
}
inline Term clamp(Term x, double low, double high) {
  return term<kernels::Clamp>(x, Term(low), Term(high));
}
/// \}

inline Term operator-(Term a) { return term<kernels::Neg>(a); }
inline Term operator+(Term a, Term b) { return term<kernels::Add>(a, b); }
inline Term operator-(Term a, Term b) { return term<kernels::Sub>(a, b); }
inline Term operator*(Term a, Term b) { return term<kernels::Mul>(a, b); }
inline Term operator/(Term a, Term b) { return term<kernels::Div>(a, b); }

/// a < b, or a <= b.
struct Condition {
  Term a, b;
  bool is_strict;
};
inline Condition operator<(Term a, Term b) { return {a, b, true}; }
inline Condition operator<=(Term a, Term b) { return {a, b, false}; }
inline Condition operator>(Term a, Term b) { return {b, a, true}; }
inline Condition operator>=(Term a, Term b) { return {b, a, false}; }
/// `yes` where the condition holds, else `no`, also where a NaN is compared.
inline Term where(Condition c, Term yes, Term no) {
  return c.is_strict ? term<kernels::WhereLess>(c.a, c.b, yes, no)
                     : term<kernels::WhereLessEqual>(c.a, c.b, yes, no);
}
inline Term where_equal(Term a, Term b, Term yes, Term no) {
  return where(a <= b, where(b <= a, yes, no), no);
}

}  // namespace hero::core
