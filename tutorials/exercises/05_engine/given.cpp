#include "exercises/05_engine/exercise.h"

#include <hero/core/functions/map.h>

namespace exercise {

hero::Array add(const hero::Array& a, const hero::Array& b) {
  return hero::core::map<hero::core::kernels::Add>(a, b);
}

hero::Array ones_like(const hero::Array& a) {
  return hero::Array::ones(a.shape(), a.dtype(), a.device());
}

}  // namespace exercise
