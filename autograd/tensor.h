#pragma once
// Tensor: an Array that remembers how it was made.
#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/grad_mode.h>
#include <hero/core/array.h>

namespace hero {

class Node;
class Tensor;

namespace detail {

struct Hooks;

/// What the handles of one tensor share. Made and read by the engine; users see Tensor.
struct TensorImpl : Counted {
  explicit TensorImpl(Array&& array);
  ~TensorImpl();
  static void destroy(TensorImpl* impl);

  Array data;
  Ref<Node> grad_fn;             // of a non-leaf
  Ref<TensorImpl> grad;          // the accumulated gradient
  Node* accumulator = nullptr;   // a leaf's node while a graph holds it; see AccumulateGrad
  std::unique_ptr<Hooks> hooks;  // a leaf's
  int output_index = 0;          // which output of grad_fn
  uint32_t history = 0;          // storage().history() when this tensor's history was last known
  bool requires_grad = false;    // of a leaf
  bool retains_grad = false;
};

}  // namespace detail

/// Called with a gradient; what it returns replaces the gradient unless undefined.
using TensorHook = std::function<Tensor(const Tensor& grad)>;
/// Called with the leaf whose gradient is complete.
using LeafHook = std::function<void(const Tensor& leaf)>;

/// Removes a hook. A default-made handle does nothing; letting one go keeps the hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::weak_ptr<bool> alive) : alive_(std::move(alive)) {}
  void remove();

 private:
  std::weak_ptr<bool> alive_;
};

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved values so that backward can run again
  bool create_graph = false;  ///< record the backward pass itself, for higher derivatives
};

/// A handle to an n-dimensional array in the graph of recorded operations. Copies of a handle are
/// the same tensor: they share values, gradient and history. A default-made Tensor is undefined.
class Tensor {
 public:
  Tensor() = default;
  /// A leaf over `array`, sharing its storage.
  explicit Tensor(Array array, bool requires_grad = false);

  bool defined() const { return static_cast<bool>(impl_); }
  /// The raw values, without history.
  const Array& array() const;
  const Shape& shape() const { return array().shape(); }
  const Dims& strides() const { return array().strides(); }
  int64_t size(int64_t dim) const { return array().size(dim); }
  int ndim() const { return array().ndim(); }
  int64_t numel() const { return array().numel(); }
  DType dtype() const { return array().dtype(); }
  Device device() const { return array().device(); }
  bool is_contiguous() const { return array().is_contiguous(); }
  /// The only element's value.
  template <class T = double>
  T item() const {
    return array().item<T>();
  }
  template <class T>
  std::vector<T> to_vector() const {
    return array().to_vector<T>();
  }

  /// \name Gradients
  /// \{
  /// True when operations on this tensor are recorded.
  bool requires_grad() const;
  /// Marks a leaf of floating dtype; returns the same tensor.
  const Tensor& requires_grad_(bool value = true) const;
  /// True when no recorded operation made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient (same shape, dtype and device); an undefined tensor clears it.
  void set_grad(const Tensor& grad) const;
  /// The gradient of a non-leaf is kept too.
  const Tensor& retain_grad() const;
  /// Adds d(this)/d(leaf) to every leaf's grad(); this must have one element.
  void backward(const BackwardOptions& options = {}) const;
  /// The same with the gradient of some scalar with respect to this tensor.
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// The same values without history; shares storage.
  Tensor detach() const;
  /// Lets a leaf hold other values of its shape, of any dtype (floating if it requires grad) and
  /// device; it stays the same tensor, its hooks stay, and grad() is converted with it. A graph
  /// recorded before can no longer run backward through the leaf: an Error says so.
  const Tensor& set_data(const Array& array) const;
  /// Called with this tensor's gradient, once complete, in each backward.
  HookHandle register_hook(TensorHook hook) const;
  /// Called after this leaf's grad() has received its complete gradient.
  HookHandle register_leaf_hook(LeafHook hook) const;
  /// The operation that made this tensor; null for a leaf.
  const Node* grad_fn() const;
  /// \}

  /// \name Members for what is declared in <hero/autograd/ops.h>
  /// \{
  Tensor sum(const Dims& dims = {}, bool keepdim = false) const;
  Tensor mean(const Dims& dims = {}, bool keepdim = false) const;
  Tensor reshape(const Shape& shape) const;
  /// As reshape, but an Error where only a copy could have that shape.
  Tensor view(const Shape& shape) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor permute(const Dims& dims) const;
  /// Last two dimensions swapped; itself where there are fewer.
  Tensor t() const;
  Tensor expand(const Shape& shape) const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor slice(int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1) const;
  Tensor select(int64_t dim, int64_t index) const;
  /// select(0, index)
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor matmul(const Tensor& other) const;
  /// \}

  /// \name In place
  /// Recorded like their counterparts. An Error on a leaf that requires grad while recording.
  /// \{
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar value) const;
  const Tensor& sub_(const Tensor& other) const;
  const Tensor& sub_(Scalar value) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar value) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar value) const;
  const Tensor& clamp_(Scalar low, Scalar high) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  /// \}

  friend bool is_same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }
  detail::TensorImpl* impl() const { return impl_.get(); }
  const Ref<detail::TensorImpl>& impl_ref() const { return impl_; }
  static Tensor from_impl(Ref<detail::TensorImpl> impl);

 private:
  Ref<detail::TensorImpl> impl_;
};

/// True when the handles name the same tensor.
bool is_same(const Tensor& a, const Tensor& b);

struct GradOptions {
  std::vector<Tensor> grad_outputs =
      {};  ///< gradients of the outputs; ones for one-element outputs
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused =
      false;  ///< an input that outputs do not depend on gives an undefined gradient
};

/// Gradients of the outputs' sum with respect to `inputs`; no tensor's grad() changes.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// The gradient of one output with respect to one input. A template, so that grad({y}, {x}) means
/// the lists above.
template <std::same_as<Tensor> T>
Tensor grad(const T& output, const T& input, const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, std::vector<Tensor>{input}, options)[0];
}

/// Gradients for several outputs at once; see Tensor::backward.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients = {},
              const BackwardOptions& options = {});

/// Runs `callback` once when the backward pass now running on this thread has ended, in the order
/// of registration; an Error outside of one.
void on_backward_end(std::function<void()> callback);

/// Nodes made and not yet freed by this thread: 0 when no graph is held.
int64_t live_nodes();

/// Values as NumPy prints them, and a line with shape, dtype, device and requires_grad.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace hero
