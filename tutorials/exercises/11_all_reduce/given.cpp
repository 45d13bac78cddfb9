#include "exercises/11_all_reduce/exercise.h"

#include <hero/autograd/autograd.h>

namespace exercise {

using hero::Array, hero::Tensor;

void add_to(const Array& x, const Array& y) {
  const hero::NoGrad no_grad;
  Tensor sum(x);
  sum += Tensor(y);
}

Array part(const Array& x, int i, int parts) {
  const int64_t size = x.numel() / parts, at = ((i % parts) + parts) % parts;
  return x.slice(0, at * size, (at + 1) * size);
}

}  // namespace exercise
