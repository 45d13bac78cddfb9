#include "support/lessons/engine.h"

#include <set>

#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>

namespace tutorial {

using hero::Array;
namespace core = hero::core;
namespace k = hero::core::kernels;

Var leaf(const Array& data) { return std::make_shared<Value>(Value{data}); }

// [snippet: engine]
// Inputs come before what is made of them.
static void sort_graph(const Var& v, std::set<Value*>& seen, std::vector<Var>& sorted) {
  if (!seen.insert(v.get()).second) return;
  for (const Var& input : v->inputs) sort_graph(input, seen, sorted);
  sorted.push_back(v);
}

void backward(const Var& loss) {
  std::set<Value*> seen;
  std::vector<Var> sorted;
  sort_graph(loss, seen, sorted);
  loss->grad = Array::ones(loss->data.shape(), loss->data.dtype(), loss->data.device());
  for (auto at = sorted.rbegin(); at != sorted.rend(); ++at) {
    const Value& v = **at;
    if (!v.backward) continue;  // a leaf
    const std::vector<Array> grads = v.backward(v.grad);
    for (size_t i = 0; i < grads.size(); ++i) {
      Array& sum = v.inputs[i]->grad;
      sum = sum.defined() ? core::map<k::Add>(sum, grads[i]) : grads[i];
    }
  }
}
// [end]

namespace {

// [snippet: operations]
Array times(const Array& a, const Array& b) { return core::map<k::Mul>(a, b); }
Array times(const Array& a, double c) { return core::map<k::Mul>(a, hero::Scalar(c)); }
Array over(const Array& a, const Array& b) { return core::map<k::Div>(a, b); }
Array minus(const Array& a) { return core::map<k::Neg>(a); }
using Arrays = std::vector<Array>;

template <class Rule>
Var make(const Array& data, const std::vector<Var>& inputs, Rule rule) {
  return std::make_shared<Value>(Value{data, {}, inputs, rule});
}
// [end]

}  // namespace

// [snippet: operations]
Var operator+(const Var& a, const Var& b) {
  return make(core::map<k::Add>(a->data, b->data), {a, b}, [](const Array& g) {
    return Arrays{g, g};
  });
}
Var operator+(const Var& a, double c) {
  return make(core::map<k::Add>(a->data, hero::Scalar(c)), {a},
              [](const Array& g) { return Arrays{g}; });
}
Var operator-(const Var& a, double c) { return a + -c; }
Var operator*(const Var& a, const Var& b) {
  return make(times(a->data, b->data), {a, b}, [x = a->data, y = b->data](const Array& g) {
    return Arrays{times(g, y), times(g, x)};
  });
}
Var operator/(const Var& a, const Var& b) {
  return make(over(a->data, b->data), {a, b}, [x = a->data, y = b->data](const Array& g) {
    const Array first = over(g, y);
    return Arrays{first, over(times(minus(first), x), y)};
  });
}
Var square(const Var& a) {
  return make(core::map<k::Square>(a->data), {a},
              [x = a->data](const Array& g) { return Arrays{times(g, times(x, 2.0))}; });
}
Var sqrt(const Var& a) {
  const Array y = core::map<k::Sqrt>(a->data);
  return make(y, {a}, [y](const Array& g) { return Arrays{over(g, times(y, 2.0))}; });
}
// [end]

// [snippet: layer operations]
Var linear(const Var& x, const Var& weight, const Var& bias) {
  const Array z = core::map<k::Add>(core::matmul(x->data, weight->data.t()), bias->data);
  return make(z, {x, weight, bias}, [x = x->data, w = weight->data](const Array& g) {
    return Arrays{core::matmul(g, w), core::matmul(g.t(), x),
                  reduce(core::ReduceKind::sum, g, {0})};
  });
}
Var softmax_cross_entropy(const Var& z, const Array& y) {
  const auto minus = [](const Array& a, const Array& b) { return core::map<k::Sub>(a, b); };
  const auto of_rows = [](core::ReduceKind op, const Array& a) {
    return reduce(op, a, {1}, core::KeepDims::yes);
  };
  const Array largest = of_rows(core::ReduceKind::max, z->data);
  const Array sum = of_rows(core::ReduceKind::sum, core::map<k::Exp>(minus(z->data, largest)));
  const Array log_sum_exp = core::map<k::Add>(largest, core::map<k::Log>(sum));
  const Array log_p = minus(z->data, log_sum_exp);
  const double share = 1.0 / static_cast<double>(y.size(0));  // of a row in the mean
  const Array loss = times(reduce(core::ReduceKind::sum, times(log_p, y)), -share);
  return make(loss, {z}, [=](const Array& g) {
    const Array p = core::map<k::Exp>(log_p);
    return Arrays{times(minus(times(p, share), times(y, share)), g)};  // (p - y) / B
  });
}
// [end]

}  // namespace tutorial
