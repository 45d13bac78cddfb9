#pragma once
// The graph of recorded operations. Nodes own earlier nodes; nothing owns forward.
#include <limits>

#include <hero/autograd/tensor.h>
#include <hero/core/array/inline_vector.h>

namespace hero {

/// Gradients, one for each slot; an undefined tensor stands for zero.
using Grads = InlineVector<Tensor, 4>;

class ParameterOwner;
struct Partition;

}  // namespace hero

namespace hero::detail {

class BackwardWalk;
class Recorder;

/// An input of a node: output `index` of an earlier node. Without a node, no gradient is wanted.
struct Edge {
  core::Ref<Node> node;
  int index = 0;
};

/// The shape, dtype and device that a gradient must have.
struct GradSpec {
  explicit GradSpec(const Array& array)
      : shape(array.shape()), dtype(array.dtype()), device(array.device()) {}
  Shape shape;
  DType dtype;
  Device device;
};

/// A hook with the flag its handle clears.
template <class F>
struct Hook {
  F call;
  std::shared_ptr<std::atomic<bool>> alive;
};

struct Hooks {
  std::vector<Hook<TensorHook>> tensor;
  std::vector<Hook<LeafHook>> leaf;
  std::shared_ptr<const Partition> partition;     // of a leaf that is a part of a parameter
  std::weak_ptr<ParameterOwner> parameter_owner;  // the owner of the leaf's memory
  std::shared_ptr<std::atomic<bool>> retaining;   // of a non-leaf: the flag of retain_grad()'s hook
};

/// A recorded operation, which computes the gradients of its inputs from those of its outputs.
class Node : public core::Counted {
 public:
  Node& operator=(const Node&) = delete;

  /// The operation's name, for messages.
  virtual const char* name() const = 0;
  /// Computes the gradients of the inputs, one for each; undefined if needs(i) is false or the
  /// gradient is zero. A gradient may have the broadcast shape: the engine sums it to the input's
  /// shape.
  virtual Grads run(const Grads& output_grads) = 0;
  /// The input whose memory output `i` may share; -1 if it has memory of its own.
  virtual int viewed_input(int) const { return -1; }
  /// Drops the arrays that were saved for backward.
  virtual void release() {}

  /// True if a gradient of input i is needed.
  bool needs(int i) const { return static_cast<bool>(inputs_[i].edge.node); }
  uint64_t sequence() const { return sequence_; }
  int input_count() const { return inputs_.size(); }
  const Edge& input_edge(int i) const { return inputs_[i].edge; }
  const GradSpec& input_spec(int i) const { return inputs_[i].spec; }
  const GradSpec& output_spec(int i) const { return outputs_[i]; }
  int output_count() const { return outputs_.size(); }
  /// True if arrays that were saved for backward have been dropped.
  bool released() const { return released_; }

  /// Like Counted::drop(), except for the node of a leaf, see AccumulateGrad.
  bool drop() const { return sequence_ == kLeaf ? drop_of_leaf() : core::Counted::drop(); }
  static void destroy(Node* node);

 protected:
  Node() = default;
  /// Moves an operation that is not yet in the graph: the new node has no inputs, outputs or hooks.
  Node(Node&& other) noexcept : bypassed_(other.bypassed_) {}
  virtual ~Node() = default;

  struct Input {
    Input(Edge&& from, const Array& array) : edge(std::move(from)), spec(array) {}
    Edge edge;
    GradSpec spec;
  };
  /// The sequence of a leaf's node: before every other node, so that a gradient that is complete is
  /// stored, and its hooks run, at once.
  static constexpr uint64_t kLeaf = std::numeric_limits<uint64_t>::max();

  InlineVector<Input, 2> inputs_;
  InlineVector<GradSpec, 1> outputs_;
  uint64_t sequence_ = 0;
  uint32_t bytes_ = 0;
  bool released_ = false;
  bool bypassed_ = false;  // see IdentityOp

 private:
  friend class BackwardWalk;
  friend class Recorder;
  friend class hero::Tensor;
  template <class N>
  friend core::Ref<N> make_node(N&& value);

  bool drop_of_leaf() const;

  // The pass that has claimed the node and the index of its state there (BackwardWalk), or 0; once
  // the node is to be freed, the next node in the list of those (destroy()).
  std::atomic<uint64_t> walk_ = 0;
  std::unique_ptr<std::vector<std::pair<int, Hook<TensorHook>>>> hooks_;  // by output
  std::unique_ptr<std::string> place_;  // current_place() at the recording, if a scope needs it
};

/// Allocates memory for a node, which live_nodes() counts from here until Node::destroy().
void* allocate_node(size_t bytes);
/// Changes live_nodes() of this thread.
void count_node(int change);

/// Calls `visit` with each hook in one of the leaf's lists that has not been removed. A hook may
/// register another one, and so may other threads meanwhile: each step indexes the list under the
/// lock, and no hook runs under it.
template <class F, class Visit>
void each_hook(TensorImpl& leaf, std::vector<Hook<F>> Hooks::*list, const Visit& visit) {
  Hooks* hooks = leaf.hooks.load(std::memory_order_acquire);
  for (size_t i = 0; hooks; ++i) {
    Hook<F> hook;
    {
      const LeafTurn turn(leaf.lock);
      if (i >= (hooks->*list).size()) return;
      hook = (hooks->*list)[i];
    }
    if (*hook.alive) visit(hook);
  }
}

/// Moves an operation to the heap as a node of the graph.
template <class N>
core::Ref<N> make_node(N&& value) {
  static_assert(std::is_rvalue_reference_v<N&&>);
  auto* node = new (allocate_node(sizeof(N))) N(std::forward<N>(value));
  node->bytes_ = sizeof(N);
  return core::Ref<N>::adopt(node);
}

/// The edge to which a tensor's gradient goes: its node and output or, for a leaf, its
/// AccumulateGrad. Without a node if the tensor does not require grad.
Edge gradient_edge(const Tensor& tensor);

}  // namespace hero::detail
