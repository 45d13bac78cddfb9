#pragma once
#include <hero/autograd/graph/node.h>

namespace hero {

/// The node of a leaf, which adds arriving gradients to the leaf's grad(). The leaf owns it; it is
/// made when the first operation on the leaf is recorded, and all graphs of all threads share it.
///
/// [note: who keeps a leaf] Edges to the node keep the leaf alive by one reference for all of them,
/// which is added with the first edge and dropped with the last; so a graph keeps its leaves and
/// not the other way round, and threads make and drop edges without a lock. A node that set_data()
/// has separated from its leaf is no longer owned by the leaf (kOwned) and is freed with its last
/// edge. live_nodes() counts the node for the thread of the first edge, and subtracts it for the
/// thread of the last one: with shared leaves, only the sum over the threads must be 0.
class AccumulateGrad final : public detail::Node {
 public:
  /// The sequence() of such a node, which makes it run before every other node.
  static constexpr uint64_t kFirst = kLeaf;

  /// An edge to the node of `leaf`, which the caller holds.
  static core::Ref<detail::Node> of(detail::TensorImpl& leaf);
  /// Separates the leaf from its node, so that backward through graphs recorded before is an Error.
  static void leave(detail::TensorImpl& leaf);

  const char* name() const override { return "accumulate_grad"; }
  Grads run(const Grads& grads) override;
  detail::TensorImpl& leaf() const { return *leaf_; }
  /// Throws an Error if set_data() gave the leaf other values since this node was made.
  void check_current() const;

 private:
  friend class detail::Node;
  static constexpr uint32_t kOwned = uint32_t{1} << 31;  // in count(), above the number of edges

  explicit AccumulateGrad(detail::TensorImpl& leaf);
  static AccumulateGrad* node_of(detail::TensorImpl& leaf);
  static void free(const AccumulateGrad* node);
  void drop_edge() const;
  void accumulate(const Tensor& g);

  detail::TensorImpl* leaf_;
};

}  // namespace hero
