#pragma once
// How an operation is written: a struct with `forward` on arrays and `backward` in tensor
// operations, so that its second derivative needs no code. An operation of your own looks the same:
//
//   #include <hero/core/functions/map.h>  // elementwise kernels on arrays
//   struct Cube : hero::Op {
//     const char* name() const override { return "cube"; }
//     static constexpr hero::AutocastRule kAutocast = hero::AutocastRule::fallthrough;
//     static constexpr unsigned kSaveInputs = 0b1;  // input 0 is needed in backward
//     Array forward(const Array& x) { return core::map<core::kernels::Pow>(x, Scalar(3.0)); }
//     Grads backward(const Tensor& g) override { return {g * 3.0 * square(input(0))}; }
//   };
//   Tensor cube(const Tensor& x) { return record(Cube{}, x); }
#include <concepts>
#include <span>
#include <utility>

#include <hero/autograd/graph/autocast_rule.h>
#include <hero/autograd/graph/checkpoint_frame.h>
#include <hero/autograd/graph/op_scopes.h>

namespace hero {

/// The base of operations with several outputs.
class MultiOp : public detail::Node {
 public:
  /// Which inputs (bit i) and outputs are saved for backward. A struct may hide these with its own,
  /// or define `bool saves_input(int i) const` for a choice that depends on needs().
  static constexpr unsigned kSaveInputs = 0;
  static constexpr unsigned kSaveOutputs = 0;

  /// Computes the gradients of the inputs from those of the outputs, some of which may be
  /// undefined, which stands for zero.
  virtual Grads backward(const Grads& grads) = 0;
  Grads run(const Grads& grads) override { return backward(grads); }
  void release() override;

 protected:
  /// A saved input, as a tensor with its history. Throws an Error if it was changed in place since.
  Tensor input(int i) const { return saved(i); }
  /// A saved output, as a tensor with its history.
  Tensor output(int i = 0) const { return saved(-1 - i); }
  /// Saves an array that forward made for backward; does nothing if the operation is not recorded.
  void stash(const Array& array, int i) {
    if (input_count() > 0) save(array, kKept - i);
  }
  /// The array that stash() saved under i.
  Array stashed(int i) const { return saved(kKept - i).array(); }
  /// The shape of input i, whether or not it was saved.
  const Shape& input_shape(int i) const { return inputs_[i].spec.shape; }

 private:
  friend class detail::Recorder;
  static constexpr int kKept = -1000;  // slots below those of outputs
  Tensor saved(int slot) const;
  void save(const Array& array, int slot);
  InlineVector<SavedArray, 2> saved_;
  core::Ref<CheckpointFrame> frame_;  // of a checkpoint: saved_ holds numbers in it, no arrays
};

/// The base of operations with one output.
class Op : public MultiOp {
 public:
  /// Computes the gradients of the inputs from that of the output.
  virtual Grads backward(const Tensor& g) = 0;
  Grads backward(const Grads& grads) final { return backward(grads[0]); }
};

/// The base of identity operations (output i is input i) that only have to be told when backward
/// reaches them. Gradients bypass such a node, so that they are summed in the same order as without
/// it. If a hook or grad() asks for the gradient of an output, the gradient is summed there and
/// backward() runs as usual.
class IdentityOp : public MultiOp {
 public:
  /// Called instead of backward(), when gradients have bypassed the operation.
  virtual void bypassed() = 0;

 protected:
  explicit IdentityOp(bool bypassed) { bypassed_ = bypassed; }
};

namespace detail {

/// Adds recorded operations to the graph; used by record() below.
class Recorder {
 public:
  /// Throws when `tensor` is undefined or its history is out of date; true when it requires grad.
  static bool wants_grad(const char* op, const Tensor& tensor);
  /// Whether an operation on these inputs is recorded. Throws as wants_grad() does.
  static bool begins(const Node& op, std::span<const Tensor* const> inputs);
  /// Gives a node its inputs and its place in the order of nodes.
  static void connect(Node& node, std::span<const Tensor* const> inputs);
  /// The node's next output, which backward needs if the node `saves` it.
  static Tensor make_output(MultiOp& node, Array array, bool saves);
  static void save(MultiOp& op, const Array& array, int slot) { op.save(array, slot); }
  /// Replaces what the operation that made `result` saved of `storage` by copies: the memory is
  /// about to be overwritten in place.
  static void copy_saved(const Tensor& result, const core::Storage& storage);
  /// Called after an in-place operation has written the values of `self`: gives `self` the history
  /// of `result` and, if `self` is a view, its base a history in which `result` replaces these
  /// elements.
  static void rebase(const Tensor& self, const Tensor& result);
  /// Records that `view` shares the memory of `of`, so that a write to either is in the history of
  /// both.
  static void link_view(const Tensor& view, const Tensor& of);
  /// Whether a view's base is a leaf that requires grad since the view was made.
  static bool shows_leaf(const Tensor& view);
  /// Renews the history of a view if its base, or another view of the base, was written to.
  static void renew(TensorImpl& impl) {
    if ((impl.base || impl.detached) && impl.history != impl.data.storage().history())
      follow_base(impl);
  }
  /// Gives `self` the array and the history of `view`, which is a view of the same storage.
  static void replace(const Tensor& self, const Tensor& view);

 private:
  // Gives a view the history that it has as a part of its base, and a detached tensor no history;
  // false if no base has a valid history.
  static bool follow_base(TensorImpl& impl);
};

// The operation's rule for Autocast. Each operation has to state one, since no default would be
// right for all.
template <class O>
AutocastRule autocast_rule(const O& op) {
  static_assert(
      requires {
        { op.kAutocast } -> std::convertible_to<AutocastRule>;
      },
      "an operation says what Autocast does with its inputs; add to it: "
      "static constexpr AutocastRule kAutocast = AutocastRule::fallthrough; or another rule");
  return op.kAutocast;
}

// Whether O says that outputs may share memory with inputs.
template <class O>
constexpr bool kViews = !std::is_same_v<decltype(&O::viewed_input), int (Node::*)(int) const>;

// Links the outputs of an operation to the inputs whose memory they show.
template <class O>
void link_views(const O& op, std::span<const Tensor* const> inputs, const Tensor* results, int n) {
  if constexpr (kViews<O>) {
    if (!grad_enabled()) return;
    for (int i = 0; i < n; ++i) {
      const int viewed = op.viewed_input(i);
      if (viewed >= 0) Recorder::link_view(results[i], *inputs[viewed]);
    }
  }
}

template <class O>
void save_inputs(O& op, std::span<const Tensor* const> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int at = static_cast<int>(i);
    bool wanted = i < 32 && ((O::kSaveInputs >> i) & 1u);
    if constexpr (requires { op.saves_input(at); }) wanted = op.saves_input(at);
    if (wanted) Recorder::save(op, inputs[i]->array(), at);
  }
}

template <class O>
void connect(O& node, std::span<const Tensor* const> inputs) {
  Recorder::connect(node, inputs);
  save_inputs(node, inputs);
}

// Runs forward with the arrays of all inputs as a span.
template <class O>
auto run_forward(O& op, std::span<const Tensor* const> inputs) {
  std::vector<Array> arrays;
  arrays.reserve(inputs.size());
  for (const Tensor* input : inputs) arrays.push_back(input->array());
  return op.forward(std::span<const Array>(arrays));
}

template <class O>
std::vector<Tensor> finish_multi(O& node, std::vector<Array>&& arrays) {
  std::vector<Tensor> results;
  int slot = 0;
  for (Array& array : arrays) {
    const bool saves = slot < 32 && ((O::kSaveOutputs >> slot) & 1u);
    results.push_back(Recorder::make_output(node, std::move(array), saves));
    ++slot;
  }
  return results;
}

inline std::vector<Tensor> leaves_of(std::vector<Array>&& arrays) {
  std::vector<Tensor> results;
  for (Array& array : arrays) results.emplace_back(std::move(array));
  return results;
}

// Calls forward(op): with `op` itself if it is not recorded, else with the node into which it is
// moved.
template <class O, class Forward>
Tensor run_one(O& op, std::span<const Tensor* const> list, const Forward& forward) {
  if (!Recorder::begins(op, list)) {
    Tensor result(forward(op));
    link_views(op, list, &result, 1);
    return result;
  }
  core::Ref<O> node = make_node(std::move(op));
  // The edges come first, since what forward saves may depend on needs().
  connect(*node, list);
  Tensor result = Recorder::make_output(*node, forward(*node), (O::kSaveOutputs & 1u) != 0);
  link_views(*node, list, &result, 1);
  return result;
}

template <class O, class Forward>
std::vector<Tensor> run_multi(O& op, std::span<const Tensor* const> list, const Forward& forward) {
  if (!Recorder::begins(op, list)) {
    std::vector<Tensor> results = leaves_of(forward(op));
    link_views(op, list, results.data(), static_cast<int>(results.size()));
    return results;
  }
  core::Ref<O> node = make_node(std::move(op));
  connect(*node, list);
  std::vector<Tensor> results = finish_multi(*node, forward(*node));
  link_views(*node, list, results.data(), static_cast<int>(results.size()));
  return results;
}

// Calls op.forward with one array for each input.
template <size_t N>
auto forward_each(const Tensor* const (&list)[N]) {
  return [&list](auto& op) {
    return [&]<size_t... I>(std::index_sequence<I...>) { return op.forward(list[I]->array()...); }
    (std::make_index_sequence<N>());
  };
}

inline std::vector<const Tensor*> pointers_to(const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> list;
  list.reserve(inputs.size());
  for (const Tensor& input : inputs) list.push_back(&input);
  return list;
}

}  // namespace detail

/// Runs an operation with one output and, if recording is on and an input requires gradients, adds
/// it to the graph.
template <class O, std::same_as<Tensor>... In>
Tensor record(O op, const In&... inputs) {
  const Tensor* list[] = {&inputs...};
  const detail::OpInterceptor watcher(op.name(), detail::autocast_rule(op), list);
  return watcher.look(detail::run_one(op, list, detail::forward_each(list)));
}

/// Does the same for any number of inputs; forward takes std::span<const Array>.
template <class O>
Tensor record_list(O op, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> list = detail::pointers_to(inputs);
  const detail::OpInterceptor watcher(op.name(), detail::autocast_rule(op), list);
  return watcher.look(
      detail::run_one(op, list, [&list](auto& where) { return detail::run_forward(where, list); }));
}

/// Runs an operation with several outputs; its forward returns std::vector<Array>. Integer outputs
/// get no gradient.
template <class O, std::same_as<Tensor>... In>
std::vector<Tensor> record_multi(O op, const In&... inputs) {
  const Tensor* list[] = {&inputs...};
  const detail::OpInterceptor watcher(op.name(), detail::autocast_rule(op), list);
  return watcher.look(detail::run_multi(op, list, detail::forward_each(list)));
}

/// Does the same for any number of inputs; forward takes std::span<const Array>.
template <class O>
std::vector<Tensor> record_multi_list(O op, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> list = detail::pointers_to(inputs);
  const detail::OpInterceptor watcher(op.name(), detail::autocast_rule(op), list);
  return watcher.look(detail::run_multi(
      op, list, [&list](auto& where) { return detail::run_forward(where, list); }));
}

}  // namespace hero
