// 5. The engine: the order of the graph, and gradients that add up (chapter 6a)
#include "exercises/05_engine/exercise.h"

using hero::Array;

namespace exercise {

// Appends to `sorted` all values from which v was computed, and then v itself, so that every value
// comes after its inputs. Each value comes once, however many others use it; `seen` has those that
// are in the list already, or on the way into it.
static void sort_graph(const Var& v, std::set<Value*>& seen, std::vector<Var>& sorted) {
  if (!seen.insert(v.get()).second) return;
  for (const Var& input : v->inputs) sort_graph(input, seen, sorted);
  sorted.push_back(v);
}

void backward(const Var& loss) {
  std::set<Value*> seen;
  std::vector<Var> sorted;
  sort_graph(loss, seen, sorted);
  loss->grad = ones_like(loss->data);
  for (size_t i = sorted.size(); i > 0; --i) {
    const Var& v = sorted[i - 1];
    if (!v->backward) continue;  // a leaf
    const std::vector<Array> shares = v->backward(v->grad);
    for (size_t k = 0; k < shares.size(); ++k) {
      Array& grad = v->inputs[k]->grad;
      grad = grad.defined() ? add(grad, shares[k]) : shares[k];
    }
  }
}

}  // namespace exercise
