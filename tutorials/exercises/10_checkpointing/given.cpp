#include "exercises/10_checkpointing/exercise.h"

namespace exercise {

hero::Tensor run(const std::vector<Layer>& layers, size_t first, size_t last,
                 const hero::Tensor& x) {
  hero::Tensor y = x;
  for (size_t i = first; i < last; ++i) y = layers[i](y);
  return y;
}

}  // namespace exercise
