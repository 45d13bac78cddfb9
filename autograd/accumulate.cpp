#include <hero/autograd/accumulate.h>
#include <hero/autograd/ops.h>
#include <hero/core/map.h>

namespace hero {

Ref<Node> AccumulateGrad::create(Ref<detail::TensorImpl> leaf) {
  detail::TensorImpl* impl = leaf.get();
  Ref<AccumulateGrad> node = make_node(AccumulateGrad(std::move(leaf)));
  node->sequence_ = kFirst;
  const Array& data = impl->data;
  node->outputs_.emplace_back(data);
  impl->accumulator = node.get();
  return Ref<Node>::adopt(node.release());
}

AccumulateGrad::AccumulateGrad(AccumulateGrad&& other) noexcept
    : Node(std::move(other)), leaf_(std::move(other.leaf_)) {}

AccumulateGrad::~AccumulateGrad() {
  if (leaf_ && leaf_->accumulator == this) leaf_->accumulator = nullptr;
}

namespace {

// Whether the gradient's memory can become the leaf's: nobody else sees it and it is dense.
bool can_steal(const Tensor& g) {
  return g.impl()->unique() && g.array().storage_ref()->unique() && g.array().is_contiguous() &&
         g.array().nbytes() == g.array().storage().bytes();
}

}  // namespace

void AccumulateGrad::check_current() const {
  check(leaf_->accumulator == this, "backward: set_data gave the leaf of shape ",
        leaf_->data.shape(), " other values after this graph was recorded; run forward again");
}

Grads AccumulateGrad::run(const Grads& grads) {
  const Tensor& g = grads[0];
  if (!g.defined()) return {};
  check_current();
  Tensor total = Tensor::from_impl(leaf_->grad);
  if (grad_enabled()) {
    // Later gradients are added in place: the memory must be the leaf's own here too.
    total = total.defined() ? total + g : (can_steal(g) ? g : clone(g));
  } else if (total.defined()) {
    core::map_into<core::kernels::Add>(total.array(), total.array(), g.array());
  } else {
    const MemoryScope scope(MemoryTag::gradient);
    // A gradient made by an expanded sum has stride 0: the leaf's must own every element.
    total = can_steal(g) ? g.detach() : Tensor(g.array().clone());
    total.array().storage().retag(MemoryTag::gradient);
  }
  leaf_->grad = total.impl_ref();
  if (leaf_->hooks) {
    const Tensor leaf = Tensor::from_impl(leaf_);
    // A hook may register another: the list is indexed anew each time.
    for (size_t i = 0; i < leaf_->hooks->leaf.size(); ++i) {
      if (*leaf_->hooks->leaf[i].alive) leaf_->hooks->leaf[i].call(leaf);
    }
  }
  return {};
}

}  // namespace hero
