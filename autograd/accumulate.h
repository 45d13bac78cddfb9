#pragma once
#include <limits>

#include <hero/autograd/node.h>

namespace hero {

/// The node of a leaf: adds what arrives to the leaf's grad(). It holds the leaf; the leaf only
/// points back, so that a graph keeps its leaves alive and not the other way round.
class AccumulateGrad final : public Node {
 public:
  /// Before every other node: a gradient that is complete is stored, and its hooks run, at once.
  static constexpr uint64_t kFirst = std::numeric_limits<uint64_t>::max();

  static Ref<Node> create(Ref<detail::TensorImpl> leaf);
  AccumulateGrad(AccumulateGrad&& other) noexcept;
  ~AccumulateGrad() override;

  const char* name() const override { return "accumulate_grad"; }
  Grads run(const Grads& grads) override;
  const Ref<detail::TensorImpl>& leaf() const { return leaf_; }
  /// Throws when set_data() gave the leaf other values since this node was made.
  void check_current() const;

 private:
  explicit AccumulateGrad(Ref<detail::TensorImpl> leaf) : leaf_(std::move(leaf)) {}
  Ref<detail::TensorImpl> leaf_;
};

}  // namespace hero
