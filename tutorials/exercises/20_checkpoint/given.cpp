#include "exercises/20_checkpoint/exercise.h"

#include <hero/autograd/autograd.h>

namespace exercise {

std::string file_of(const std::string& state, int rank) {
  return state + "." + std::to_string(rank);
}

void copy(const hero::Array& to, const hero::Array& from) {
  const hero::NoGrad no_grad;
  hero::Tensor(to).copy_(hero::Tensor(from));
}

}  // namespace exercise
