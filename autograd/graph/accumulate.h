#pragma once
#include <hero/autograd/graph/node.h>

namespace hero {

/// The node of a leaf, which adds the gradients that arrive to the leaf's grad(). It belongs to the
/// leaf, is made when the first operation is recorded on it, and all graphs of all threads share
/// it.
///
/// [note: who keeps a leaf] Edges to the node keep the leaf alive, together by one reference, which
/// the first edge takes and the last gives back; so a graph keeps its leaves and not the other way
/// round, and threads make and drop edges without a lock. A node that set_data() has left behind is
/// no longer the leaf's (kOwned) and goes with its last edge. live_nodes() counts it for the thread
/// of the first edge and uncounts it for that of the last: with shared leaves the sum over the
/// threads is what must be 0.
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
  /// Throws when set_data() gave the leaf other values since this node was made.
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
