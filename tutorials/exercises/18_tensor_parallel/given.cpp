#include "exercises/18_tensor_parallel/exercise.h"

namespace exercise {

hero::Tensor part(const hero::Tensor& x, int dim, const hero::dist::Communicator& world) {
  const int64_t size = x.size(dim) / world.size(), begin = world.rank() * size;
  return (dim == 0 ? x.slice(0, begin, begin + size) : x.t().slice(0, begin, begin + size).t())
      .clone();
}

}  // namespace exercise
