#include <hero/nn/chain.h>

namespace hero::nn {

Tensor SequentialChain::run_links(size_t begin, size_t end, const Tensor& x) {
  Tensor y = x;
  for (size_t i = begin; i < end; ++i) y = (*net_)[i](y);
  return y;
}

Tensor SequentialChain::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  return loss_(run_links(begin, links(), x), target);
}

}  // namespace hero::nn
