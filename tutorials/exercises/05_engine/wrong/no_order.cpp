// says: has shares in it that were passed on twice
#include "exercises/05_engine/exercise.h"

using hero::Array;

namespace exercise {

static void walk(const Var& v) {
  if (!v->backward) return;
  const std::vector<Array> shares = v->backward(v->grad);
  for (size_t k = 0; k < shares.size(); ++k) {
    Array& grad = v->inputs[k]->grad;
    grad = grad.defined() ? add(grad, shares[k]) : shares[k];
    walk(v->inputs[k]);
  }
}

void backward(const Var& loss) {
  loss->grad = ones_like(loss->data);
  walk(loss);
}

}  // namespace exercise
