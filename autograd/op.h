#pragma once
// How an operation is written: a struct with `forward` on arrays and `backward` in tensor
// operations, so that its second derivative needs no code. A user's own op looks the same:
//
//   #include <hero/core/map.h>  // elementwise kernels on arrays
//   struct Cube : hero::Op {
//     const char* name() const override { return "cube"; }
//     static constexpr unsigned kSaveInputs = 0b1;  // input 0 is needed in backward
//     Array forward(const Array& x) { return core::map<core::kernels::Pow>(x, Scalar(3.0)); }
//     Grads backward(const Tensor& g) override { return {g * 3.0 * square(input(0))}; }
//   };
//   Tensor cube(const Tensor& x) { return record(Cube{}, x); }
#include <concepts>
#include <span>

#include <hero/autograd/node.h>

namespace hero {

/// An array kept for backward, with the version it had.
struct SavedArray {
  Array array;
  uint32_t version = 0;
  int slot = 0;  // input i: i; output i: -1 - i
};

/// Base of operations with several outputs.
class MultiOp : public Node {
 public:
  /// Which inputs (bit i) and outputs are kept for backward; a struct may hide these with its own,
  /// or write `bool saves_input(int i) const` for a choice that depends on needs().
  static constexpr unsigned kSaveInputs = 0;
  static constexpr unsigned kSaveOutputs = 0;

  /// Gradients of the inputs from those of the outputs, some of which may be undefined (zero).
  virtual Grads backward(const Grads& grads) = 0;
  Grads run(const Grads& grads) override { return backward(grads); }
  void release() override;

 protected:
  /// A saved input as a tensor with its history; an Error when it was changed in place since.
  Tensor input(int i) const { return saved(i); }
  /// A saved output as a tensor with its history.
  Tensor output(int i = 0) const { return saved(-1 - i); }
  /// The shape of input i, saved or not.
  const Shape& input_shape(int i) const { return inputs_[i].spec.shape; }

 private:
  friend class Recorder;
  Tensor saved(int slot) const;
  void save(const Array& array, int slot);
  InlineVector<SavedArray, 2> saved_;
};

/// Base of operations with one output.
class Op : public MultiOp {
 public:
  /// Gradients of the inputs from that of the output.
  virtual Grads backward(const Tensor& g) = 0;
  Grads backward(const Grads& grads) final { return backward(grads[0]); }
};

/// Lays recorded operations into the graph; used by record() below.
class Recorder {
 public:
  /// Throws when `tensor` is undefined or its history is out of date; true when it requires grad.
  static bool wants_grad(const Node& op, const Tensor& tensor);
  static void add_input(Node& node, const Tensor& tensor);
  static void finish(Node& node);
  static Tensor make_output(Node& node, Array array);
  static void save(MultiOp& op, const Array& array, int slot) { op.save(array, slot); }
  /// Replaces what the operation that made `result` saved of `storage` by copies: the memory is
  /// about to be overwritten in place.
  static void copy_saved(const Tensor& result, const core::Storage& storage);
  /// Gives `self` the result's history: what an in-place operation does after writing the values.
  static void rebase(const Tensor& self, const Tensor& result);
};

namespace detail {

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
bool begin(O& op, std::span<const Tensor* const> inputs) {
  bool wanted = false;
  for (const Tensor* input : inputs) wanted = Recorder::wants_grad(op, *input) || wanted;
  return wanted && grad_enabled();
}

template <class O>
void connect(O& node, std::span<const Tensor* const> inputs) {
  for (const Tensor* input : inputs) Recorder::add_input(node, *input);
  Recorder::finish(node);
  save_inputs(node, inputs);
}

// Runs forward with one array an input, or with all of them as a span.
template <class O>
auto run_forward(O& op, std::span<const Tensor* const> inputs) {
  std::vector<Array> arrays;
  arrays.reserve(inputs.size());
  for (const Tensor* input : inputs) arrays.push_back(input->array());
  return op.forward(std::span<const Array>(arrays));
}

template <class O>
Tensor finish_one(O& node, Array&& out) {
  Tensor result = Recorder::make_output(node, std::move(out));
  if constexpr ((O::kSaveOutputs & 1u) != 0) Recorder::save(node, result.array(), -1);
  return result;
}

}  // namespace detail

/// Runs a one-output operation and, if some input requires grad while recording, adds it to the
/// graph.
template <class O, std::same_as<Tensor>... In>
Tensor record(O op, const In&... inputs) {
  const Tensor* const list[] = {&inputs...};
  if (!detail::begin(op, list)) return Tensor(op.forward(inputs.array()...));
  Ref<O> node = make_node(std::move(op));
  // Edges first: what forward keeps may depend on needs().
  detail::connect(*node, list);
  return detail::finish_one(*node, node->forward(inputs.array()...));
}

/// The same for any number of inputs; forward takes std::span<const Array>.
template <class O>
Tensor record_list(O op, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> list;
  list.reserve(inputs.size());
  for (const Tensor& input : inputs) list.push_back(&input);
  if (!detail::begin(op, list)) return Tensor(detail::run_forward(op, list));
  Ref<O> node = make_node(std::move(op));
  detail::connect(*node, std::span<const Tensor* const>(list));
  return detail::finish_one(*node, detail::run_forward(*node, list));
}

namespace detail {

template <class O>
std::vector<Tensor> finish_multi(O& node, std::vector<Array>&& arrays) {
  std::vector<Tensor> results;
  int slot = 0;
  for (Array& array : arrays) {
    results.push_back(Recorder::make_output(node, std::move(array)));
    const bool saves = slot < 32 && ((O::kSaveOutputs >> slot) & 1u);
    if (saves) Recorder::save(node, results.back().array(), -1 - slot);
    ++slot;
  }
  return results;
}

inline std::vector<Tensor> leaves_of(std::vector<Array>&& arrays) {
  std::vector<Tensor> results;
  for (Array& array : arrays) results.emplace_back(std::move(array));
  return results;
}

}  // namespace detail

/// Runs an operation with several outputs: forward returns std::vector<Array>. Integer outputs get
/// no gradient.
template <class O, std::same_as<Tensor>... In>
std::vector<Tensor> record_multi(O op, const In&... inputs) {
  const Tensor* const list[] = {&inputs...};
  if (!detail::begin(op, list)) return detail::leaves_of(op.forward(inputs.array()...));
  Ref<O> node = make_node(std::move(op));
  detail::connect(*node, list);
  return detail::finish_multi(*node, node->forward(inputs.array()...));
}

/// The same for any number of inputs; forward takes std::span<const Array>.
template <class O>
std::vector<Tensor> record_multi_list(O op, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> list;
  list.reserve(inputs.size());
  for (const Tensor& input : inputs) list.push_back(&input);
  if (!detail::begin(op, list)) return detail::leaves_of(detail::run_forward(op, list));
  Ref<O> node = make_node(std::move(op));
  detail::connect(*node, std::span<const Tensor* const>(list));
  return detail::finish_multi(*node, detail::run_forward(*node, list));
}

}  // namespace hero
