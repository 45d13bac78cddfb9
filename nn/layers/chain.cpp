#include <hero/core/error.h>
#include <hero/nn/chain.h>

namespace hero::nn {

double Chain::target_count(const Tensor& target) const {
  check(target.defined(), "target_count: the target is undefined");
  return target.ndim() == 0 ? 1.0 : static_cast<double>(target.size(0));
}

Tensor SequentialChain::run_layers(size_t begin, size_t end, const Tensor& x) {
  Tensor y = x;
  for (size_t i = begin; i < end; ++i) y = (*net_)[i](y);
  return y;
}

Tensor SequentialChain::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  return loss_(run_layers(begin, layers(), x), target);
}

double SequentialChain::target_count(const Tensor& target) const {
  return count_ ? count_(target) : Chain::target_count(target);
}

}  // namespace hero::nn
