// Grades answers to exercise 5.
#include <cmath>
#include <cstring>
#include <functional>

#include "exercises/05_engine/exercise.h"
#include "exercises/support/arrays.h"

using exercise::add, exercise::Named, exercise::number, exercise::ones_like, exercise::require,
    exercise::Value, exercise::Var, exercise::Wrong;
using hero::Array;

namespace {

Var number_leaf(double value) { return tutorial::leaf(Array::full({}, value, hero::kFloat64)); }

// A loss, and the values whose gradients are compared.
struct Graph {
  Var loss;
  std::vector<std::pair<std::string, Var>> values;
};
using Make = std::function<Graph()>;  // anew each time: the gradients are in the graph

std::vector<Named> gradients(const Graph& graph) {
  std::vector<Named> list;
  for (const auto& [name, value] : graph.values)
    list.push_back({"the gradient of " + name, value->grad});
  return list;
}

// Walks that make a mistake.
void pass_on(const Var& v, bool overwrite) {
  const std::vector<Array> shares = v->backward(v->grad);
  for (size_t k = 0; k < shares.size(); ++k) {
    Array& grad = v->inputs[k]->grad;
    grad = grad.defined() && !overwrite ? add(grad, shares[k]) : shares[k];
  }
}
void list_values(const Var& v, bool before_inputs, std::set<Value*>& seen,
                 std::vector<Var>& sorted) {
  if (!seen.insert(v.get()).second) return;
  if (before_inputs) sorted.push_back(v);
  for (const Var& input : v->inputs) list_values(input, before_inputs, seen, sorted);
  if (!before_inputs) sorted.push_back(v);
}
void overwrites(const Var& loss) {
  std::set<Value*> seen;
  std::vector<Var> sorted;
  list_values(loss, false, seen, sorted);
  loss->grad = ones_like(loss->data);
  for (size_t i = sorted.size(); i > 0; --i) {
    if (sorted[i - 1]->backward) pass_on(sorted[i - 1], true);
  }
}
void too_early(const Var& loss) {
  std::set<Value*> seen;
  std::vector<Var> sorted;
  list_values(loss, true, seen, sorted);
  loss->grad = ones_like(loss->data);
  for (const Var& v : sorted) {
    if (v->backward) pass_on(v, false);
  }
}
void walk_without_order(const Var& v) {
  if (!v->backward) return;
  const std::vector<Array> shares = v->backward(v->grad);
  for (size_t k = 0; k < shares.size(); ++k) {
    Array& grad = v->inputs[k]->grad;
    grad = grad.defined() ? add(grad, shares[k]) : shares[k];
    walk_without_order(v->inputs[k]);
  }
}
void without_order(const Var& loss) {
  loss->grad = ones_like(loss->data);
  walk_without_order(loss);
}

void list_every_path(const Var& v, std::vector<Var>& sorted) {
  for (const Var& input : v->inputs) list_every_path(input, sorted);
  sorted.push_back(v);
}
void several_turns(const Var& loss) {
  std::vector<Var> sorted;
  list_every_path(loss, sorted);
  loss->grad = ones_like(loss->data);
  for (size_t i = sorted.size(); i > 0; --i) {
    if (sorted[i - 1]->backward) pass_on(sorted[i - 1], false);
  }
}

struct Mistake {
  void (*walk)(const Var& loss);
  const char* text;
};
const Mistake kMistakes[] = {
    {overwrites,
     " A share replaces those before it: add the shares of all values that use an input."},
    {too_early,
     " A value passes its gradient on before all shares have come: everything that uses it must "
     "have its "
     "turn first."},
    {several_turns,
     " A value that several others use comes into the list more than once, and passes its gradient "
     "on as "
     "often. Ask `seen` before you append it."},
    {without_order,
     " The gradient has shares in it that were passed on twice: each time that a share comes, all "
     "of "
     "the gradient is passed on once more. Let each value have one turn, when its gradient is "
     "complete."},
};

// Compares the answer's gradients with those of the chapter's engine, to the last bit.
std::string compare(const Make& make, const std::string& said) {
  const Graph right = make(), graph = make();
  tutorial::backward(right.loss);
  bool passed_on = false;  // by the loss
  graph.loss->backward = [&, of_loss = graph.loss->backward](const Array& g) {
    std::vector<Array> shares = of_loss(g);
    passed_on = true;
    return shares;
  };
  const auto require_arrival = [&] {
    bool arrived = !passed_on;
    for (const Var& input : graph.loss->inputs) arrived = arrived || input->grad.defined();
    require(
        arrived,
        "The loss has passed its gradient on, and it has arrived at none of its inputs. The "
        "likeliest cause: `Array grad = v->inputs[k]->grad;` is another name for what the input "
        "has now, and a value that is assigned to it never comes to the input. `Array& grad` "
        "is the input's own.");
  };
  try {
    exercise::backward(graph.loss);
  } catch (const std::bad_function_call&) {
    throw Wrong(
        "A leaf was asked to pass on a gradient. It has no inputs, and its `backward` is empty: "
        "`if (v->backward)` is false for it.");
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    const bool undefined = text.find("undefined") != std::string::npos;
    require(!undefined || text.rfind("add:", 0) != 0,
            "A share was added to a gradient that nobody has set (", text,
            "). The first share of an input becomes its gradient, and only further ones are added: "
            "ask grad.defined().");
    if (undefined) require_arrival();
    require(!undefined, "A value was asked to pass on a gradient that it does not have (", text,
            "). ",
            graph.loss->grad.defined()
                ? "The loss is the last element of the list, and has to have the first turn."
                : "The gradient of the loss with respect to itself is 1, and nobody has set it.");
    throw;
  }
  require_arrival();
  const std::vector<Named> got = gradients(graph);
  bool any = false;
  for (size_t i = 1; i < got.size(); ++i) any = any || got[i].values.defined();
  const bool seeded = graph.loss->grad.defined();
  require(seeded,
          "The loss has no gradient. With respect to itself it is 1; all others follow from it.");
  require(
      any,
      "Only the loss has a gradient: nothing was passed on to its inputs. The list is empty, or is "
      "read from its front or only in part: the loss is its last element, and has the first "
      "turn.");
  const exercise::Difference difference = first_difference(got, gradients(right));
  if (!difference.found) return said;
  std::string text = difference.text;
  for (const Mistake& mistake : kMistakes) {
    const Graph wrong = make();
    mistake.walk(wrong.loss);
    if (!first_difference(got, gradients(wrong)).found) {
      text += mistake.text;
      break;
    }
  }
  throw Wrong(text);
}

std::string chain() {
  return compare(
      [] {
        const Var w = number_leaf(0.75), x = number_leaf(2.0), b = number_leaf(-0.75);
        const Var p = w * x, u = p + b, loss = square(u);
        return Graph{loss, {{"the loss", loss}, {"u", u}, {"b", b}, {"p", p}, {"w", w}, {"x", x}}};
      },
      "the gradients of (w x + b)^2 are those of the chapter's engine, bit by bit.");
}

std::string used_twice() {
  return compare(
      [] {
        const Var x = number_leaf(3.0), loss = x * x + x;
        return Graph{loss, {{"the loss", loss}, {"x", x}}};
      },
      "x in x * x + x gets its three shares.");
}

std::string order() {
  return compare(
      [] {
        const Var x = number_leaf(3.0), u = square(x), s = square(u), loss = u * (s + u);
        return Graph{loss, {{"the loss", loss}, {"s", s}, {"u", u}, {"x", x}}};
      },
      "a value that others use at several depths passes on its whole gradient, once.");
}

std::string neuron() {
  return compare(
      [] {
        const Var w = number_leaf(0.75), x = number_leaf(2.0), b = number_leaf(-0.75);
        const Var u = w * x + b, r = sqrt(square(u) + 1.0), h = u / r, loss = square(h - 1.0);
        return Graph{
            loss, {{"the loss", loss}, {"h", h}, {"r", r}, {"u", u}, {"b", b}, {"w", w}, {"x", x}}};
      },
      "all gradients of the chapter's neuron have the bits of the chapter's engine.");
}

std::string doublings() {
  Var v = number_leaf(1.0);
  const Var x = v;
  for (int i = 0; i < 60; ++i) v = v + v;
  exercise::backward(v);
  const double got = x->grad.defined() ? x->grad.item() : 0.0;
  require(got == std::ldexp(1.0, 60),
          "After 60 doublings, v = v + v, the gradient of the first value is ", number(got),
          " and should be 2^60.");
  return "60 doublings, v = v + v, take no longer than 60 values should.";
}

// A layer of a network: arrays in place of numbers.
std::string layers() {
  const auto numbers = [](const hero::Shape& shape, double step) {
    std::vector<double> values;
    int64_t count = 1;
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) count *= shape[d];
    for (int64_t i = 0; i < count; ++i)
      values.push_back(std::sin(step * static_cast<double>(i + 1)));
    return Array::from(values, shape);
  };
  return compare(
      [&] {
        const Var x = tutorial::leaf(numbers({4, 3}, 1.0)),
                  w = tutorial::leaf(numbers({5, 3}, 0.7)), b = tutorial::leaf(numbers({5}, 0.3)),
                  v = tutorial::leaf(numbers({5, 5}, 0.9));
        const Array right = numbers({4, 5}, 2.0);
        const Var h = square(linear(x, w, b)), z = linear(h, v, b);  // both layers have the bias b
        const Var loss = softmax_cross_entropy(z, right);
        return Graph{
            loss,
            {{"the loss", loss}, {"v", v}, {"b, which both layers use,", b}, {"w", w}, {"x", x}}};
      },
      "so are those of two layers that share their bias, and a cross entropy.");
}

}  // namespace

int main() {
  return exercise::grade("Exercise 5. The engine",
                         {{"a chain", chain},
                          {"used twice", used_twice},
                          {"the order", order},
                          {"a neuron", neuron},
                          {"doublings", doublings,
                           "The graph is v = v + v, 60 times, which has 61 values and 2^60 paths. "
                           "The walk visits every path and "
                           "not every value: ask `seen` before a value's inputs are visited."},
                          {"layers", layers}});
}
