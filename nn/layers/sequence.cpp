#include <hero/nn/sequence.h>

namespace hero::nn {

std::vector<Tensor> slices_of(const SequencePart& part, const Tensor& x, int64_t dim) {
  const int64_t slices = part.slices();
  if (slices == 1) return {x};
  check(x.size(dim) % slices == 0, "sequence: ", slices, " slices do not divide the positions of ",
        x.shape());
  return split(x, x.size(dim) / slices, dim);
}

}  // namespace hero::nn
