#include <hero/autograd/accumulate.h>
#include <hero/autograd/partition.h>

namespace hero {

const Partition* partition(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const detail::Hooks* hooks = tensor.impl()->hooks.load(std::memory_order_acquire);
  return hooks ? hooks->partition.get() : nullptr;
}

void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition) {
  check(leaf.defined() && leaf.is_leaf() && part.defined(), "set_part: needs a leaf and an array");
  check(!leaf.requires_grad() || is_floating(part.dtype()), "set_part: values are ", part.dtype(),
        " but the tensor requires grad; only floating dtypes have gradients");
  detail::TensorImpl& impl = *leaf.impl();
  impl.grad = {};
  impl.data = part;
  impl.history = part.storage().history();
  AccumulateGrad::leave(impl);
  impl.make_hooks().partition = std::move(partition);
}

}  // namespace hero
