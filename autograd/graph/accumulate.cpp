#include <new>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/map.h>
#include <hero/core/memory/allocator.h>

namespace hero {

AccumulateGrad::AccumulateGrad(detail::TensorImpl& leaf) : leaf_(&leaf) {
  sequence_ = kFirst;
  outputs_.emplace_back(leaf.data);
  count().store(kOwned, std::memory_order_relaxed);
}

void AccumulateGrad::free(const AccumulateGrad* node) {
  node->~AccumulateGrad();
  core::deallocate(const_cast<AccumulateGrad*>(node), sizeof(AccumulateGrad));
}

AccumulateGrad* AccumulateGrad::node_of(detail::TensorImpl& leaf) {
  detail::Node* known = leaf.accumulator.load(std::memory_order_acquire);
  if (known) [[likely]]
    return static_cast<AccumulateGrad*>(known);
  auto* made = new (core::allocate(sizeof(AccumulateGrad))) AccumulateGrad(leaf);
  if (leaf.accumulator.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
  free(made);  // another thread was first
  return static_cast<AccumulateGrad*>(known);
}

core::Ref<detail::Node> AccumulateGrad::of(detail::TensorImpl& leaf) {
  AccumulateGrad* node = node_of(leaf);
  if ((node->count().fetch_add(1, std::memory_order_relaxed) & ~kOwned) == 0) {
    leaf.retain();
    detail::count_node(1);
  }
  return core::Ref<detail::Node>::adopt(node);
}

void AccumulateGrad::drop_edge() const {
  detail::TensorImpl* leaf = leaf_;  // this may be freed as soon as no edge is left
  const uint32_t before = count().fetch_sub(1, std::memory_order_acq_rel);
  if ((before & ~kOwned) != 1) return;
  detail::count_node(-1);
  if (before == 1) free(this);
  core::Ref<detail::TensorImpl>::adopt(leaf).reset();
}

void AccumulateGrad::leave(detail::TensorImpl& leaf) {
  detail::Node* known = leaf.accumulator.exchange(nullptr, std::memory_order_acq_rel);
  if (!known) return;
  auto* node = static_cast<AccumulateGrad*>(known);
  if (node->count().fetch_and(~kOwned, std::memory_order_acq_rel) == kOwned) free(node);
}

namespace {

// Whether the gradient's memory can become the leaf's: nobody else sees it and it is dense.
bool can_steal(const Tensor& g) {
  return g.impl()->unique() && g.array().storage_ref()->unique() && g.array().is_contiguous() &&
         g.array().nbytes() == g.array().storage().bytes();
}

}  // namespace

void AccumulateGrad::check_current() const {
  check(leaf_->accumulator.load(std::memory_order_acquire) == this,
        "backward: set_data gave the leaf of shape ", leaf_->data.shape(),
        " other values after this graph was recorded; run forward again");
}

// Under the leaf's lock: gradients that come from several threads are added one after the other.
void AccumulateGrad::accumulate(const Tensor& g) {
  const detail::LeafTurn turn(leaf_->lock);
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
}

Grads AccumulateGrad::run(const Grads& grads) {
  if (!grads[0].defined() || !leaf_->requires_grad) return {};  // frozen since the forward pass
  check_current();
  accumulate(grads[0]);
  if (!leaf_->hooks.load(std::memory_order_acquire)) return {};
  const Tensor leaf = Tensor::from_impl(core::Ref<detail::TensorImpl>::share(leaf_));
  detail::each_hook(*leaf_, &detail::Hooks::leaf, [&](const auto& hook) { hook.call(leaf); });
  return {};
}

}  // namespace hero
