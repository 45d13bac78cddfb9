#include <hero/autograd/node.h>
#include <hero/autograd/partition.h>

namespace hero {

const Partition* partition(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.impl()->hooks) return nullptr;
  return tensor.impl()->hooks->partition.get();
}

void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition) {
  check(leaf.defined() && leaf.is_leaf() && part.defined(), "set_part: needs a leaf and an array");
  check(!leaf.requires_grad() || is_floating(part.dtype()), "set_part: values are ", part.dtype(),
        " but the tensor requires grad; only floating dtypes have gradients");
  detail::TensorImpl& impl = *leaf.impl();
  if (!impl.hooks) impl.hooks = std::make_unique<detail::Hooks>();
  impl.grad = {};
  impl.data = part;
  impl.history = part.storage().history();
  impl.accumulator = nullptr;  // as in set_data(): older graphs know that they were left behind
  impl.hooks->partition = std::move(partition);
}

}  // namespace hero
