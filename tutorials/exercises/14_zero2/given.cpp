#include "exercises/14_zero2/exercise.h"

#include <hero/core/ledger.h>

namespace exercise {

hero::Array new_gradient(int64_t numel) {
  const hero::MemoryScope scope(hero::MemoryTag::gradient);
  return hero::zeros({numel}).array();
}

}  // namespace exercise
