#pragma once
// Tensor: an Array that records how it was computed.
#include <atomic>
#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/leaves/leaf_lock.h>
#include <hero/autograd/tensor_members.h>
#include <hero/core/array.h>

namespace hero {

struct ValuesIndices;
struct VarOptions;

namespace detail {

struct Hooks;
class Node;

/// What the handles of one tensor share. Made and read by the engine; users see Tensor.
struct TensorImpl : core::Counted {
  explicit TensorImpl(Array&& array);
  ~TensorImpl();
  static void destroy(TensorImpl* impl);

  /// A leaf's hooks, which are made where there are none.
  Hooks& make_hooks();

  Array data;
  core::Ref<Node> grad_fn;                   // of a non-leaf
  core::Ref<TensorImpl> grad;                // the accumulated gradient; under the lock
  core::Ref<TensorImpl> base;                // of a view: the tensor whose memory it shows
  std::atomic<Node*> accumulator = nullptr;  // a leaf's own node; see AccumulateGrad
  std::atomic<Hooks*> hooks = nullptr;       // owned; the lists in it are under the lock
  int output_index = 0;                      // which output of grad_fn
  uint32_t history = 0;        // storage().history() when this tensor's history was last known
  bool requires_grad = false;  // of a leaf
  bool retains_grad = false;
  bool detached = false;  // made by detach(): has no history, whatever is written to its memory
  LeafLock lock;
};

}  // namespace detail

/// Called with a gradient. What it returns, unless it is undefined, replaces the gradient.
using TensorHook = std::function<Tensor(const Tensor& grad)>;
/// Called with a leaf whose gradient is complete.
using LeafHook = std::function<void(const Tensor& leaf)>;

/// Removes a hook. A default-constructed handle does nothing; destroying a handle keeps the hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::weak_ptr<std::atomic<bool>> alive) : alive_(std::move(alive)) {}
  void remove();

 private:
  std::weak_ptr<std::atomic<bool>> alive_;
};

/// Options of backward().
struct BackwardOptions {
  bool retain_graph = false;  ///< true: keep saved values, so that backward can run again
  bool create_graph = false;  ///< true: record the backward pass itself, for higher derivatives
};

/// A handle to an n-dimensional array in the graph of recorded operations. Copies of a handle are
/// the same tensor: they share values, gradient and history. A default-constructed Tensor is
/// undefined.
class Tensor : public TensorMembers {
 public:
  Tensor() = default;
  /// Makes a leaf that shares the storage of `array`.
  explicit Tensor(Array array, bool requires_grad = false);

  bool defined() const { return static_cast<bool>(impl_); }
  /// The raw values, without history.
  const Array& array() const;
  const Shape& shape() const { return array().shape(); }
  const Dims& strides() const { return array().strides(); }
  int64_t size(int64_t dim) const { return array().size(dim); }
  int ndim() const { return array().ndim(); }
  int dim() const { return ndim(); }
  int ndimension() const { return ndim(); }
  int64_t numel() const { return array().numel(); }
  int64_t nelement() const { return numel(); }
  DType dtype() const { return array().dtype(); }
  Device device() const { return array().device(); }
  bool is_contiguous() const { return array().is_contiguous(); }
  /// The value of the only element.
  template <class T = double>
  T item() const {
    return array().item<T>();
  }
  template <class T>
  std::vector<T> to_vector() const {
    return array().to_vector<T>();
  }
  /// The address of the first element, for the host; T must match the dtype.
  template <class T>
  T* data_ptr() const {
    return array().data<T>();
  }

  /// \name Gradients
  /// \{
  /// True if operations on this tensor are recorded.
  bool requires_grad() const;
  /// Switches gradients on or off for a leaf of floating dtype; returns the same tensor.
  const Tensor& requires_grad_(bool value = true) const;
  /// True if no recorded operation made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient by one of the same shape, dtype and device; an undefined tensor clears
  /// it.
  void set_grad(const Tensor& grad) const;
  /// Keeps the gradient of a tensor that is not a leaf.
  const Tensor& retain_grad() const;
  /// Adds d(this)/d(leaf) to grad() of every leaf; this tensor must have one element.
  /// \snippet test_examples_gradients.cpp backward
  void backward(const BackwardOptions& options = {}) const;
  /// Does the same, given the gradient of a scalar with respect to this tensor.
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// A tensor with the same storage, but without history.
  /// \snippet test_examples_gradients.cpp detach
  Tensor detach() const;
  /// Gives a leaf other values of its shape, of any dtype (floating if it requires gradients) and
  /// device; it stays the same tensor and keeps its hooks, and grad() is converted with it. A graph
  /// recorded before cannot run backward through the leaf any more: an Error says so.
  const Tensor& set_data(const Array& array) const;
  /// Registers a hook that is called with this tensor's complete gradient in each backward.
  /// \snippet test_examples_gradients.cpp register_hook
  HookHandle register_hook(TensorHook hook) const;
  /// Registers a hook that is called when grad() of this leaf is complete.
  HookHandle register_leaf_hook(LeafHook hook) const;
  /// The operation that made this tensor; null for a leaf.
  const detail::Node* grad_fn() const;
  /// \}

  /// \name Elementwise: functions of <hero/autograd/ops.h> as members
  /// \{
  Tensor neg() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor exp() const;
  Tensor exp2() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log2() const;
  Tensor log1p() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor square() const;
  Tensor reciprocal() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor logsigmoid() const;
  Tensor erf() const;
  Tensor relu() const;
  Tensor relu6() const;
  Tensor silu() const;
  Tensor mish() const;
  Tensor softsign() const;
  Tensor hardswish() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor logical_not() const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  Tensor leaky_relu(double negative_slope = 0.01) const;
  Tensor elu(double alpha = 1.0) const;
  Tensor softplus(double beta = 1.0, double threshold = 20.0) const;
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  Tensor add(const Tensor& other) const;
  Tensor add(Scalar other) const;
  Tensor sub(const Tensor& other) const;
  Tensor sub(Scalar other) const;
  Tensor mul(const Tensor& other) const;
  Tensor mul(Scalar other) const;
  Tensor div(const Tensor& other) const;
  Tensor div(Scalar other) const;
  Tensor pow(const Tensor& other) const;
  Tensor pow(Scalar other) const;
  Tensor remainder(const Tensor& other) const;
  Tensor remainder(Scalar other) const;
  Tensor maximum(const Tensor& other) const;
  Tensor minimum(const Tensor& other) const;
  Tensor atan2(const Tensor& other) const;
  Tensor logaddexp(const Tensor& other) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, double value = 1.0) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, double value = 1.0) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor eq(const Tensor& other) const;
  Tensor eq(Scalar other) const;
  Tensor ne(const Tensor& other) const;
  Tensor ne(Scalar other) const;
  Tensor lt(const Tensor& other) const;
  Tensor lt(Scalar other) const;
  Tensor le(const Tensor& other) const;
  Tensor le(Scalar other) const;
  Tensor gt(const Tensor& other) const;
  Tensor gt(Scalar other) const;
  Tensor ge(const Tensor& other) const;
  Tensor ge(Scalar other) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  /// \}

  /// \name Reductions: functions of <hero/autograd/ops.h> as members
  /// \{
  Tensor sum(const Dims& dims = {}, bool keepdim = false) const;
  Tensor mean(const Dims& dims = {}, bool keepdim = false) const;
  Tensor prod(const Dims& dims = {}, bool keepdim = false) const;
  Tensor amax(const Dims& dims = {}, bool keepdim = false) const;
  Tensor amin(const Dims& dims = {}, bool keepdim = false) const;
  Tensor any(const Dims& dims = {}, bool keepdim = false) const;
  Tensor all(const Dims& dims = {}, bool keepdim = false) const;
  Tensor logsumexp(const Dims& dims, bool keepdim = false) const;
  Tensor norm(double p = 2.0, const Dims& dims = {}, bool keepdim = false) const;
  Tensor var() const;
  Tensor var(const VarOptions& options) const;
  Tensor var(const Dims& dims, bool keepdim = false) const;
  Tensor std() const;
  Tensor std(const VarOptions& options) const;
  Tensor std(const Dims& dims, bool keepdim = false) const;
  Tensor max() const;
  ValuesIndices max(int64_t dim, bool keepdim = false) const;
  Tensor min() const;
  ValuesIndices min(int64_t dim, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  Tensor cumsum(int64_t dim) const;
  Tensor cumprod(int64_t dim) const;
  Tensor softmax(int64_t dim) const;
  Tensor log_softmax(int64_t dim) const;
  ValuesIndices sort(int64_t dim = -1, bool descending = false) const;
  Tensor argsort(int64_t dim = -1, bool descending = false) const;
  ValuesIndices topk(int64_t k, int64_t dim = -1, bool largest = true) const;
  /// \}

  /// \name Shape: functions of <hero/autograd/ops.h> as members
  /// \{
  Tensor reshape(const Shape& shape) const;
  /// Like reshape(), but throws an Error if only a copy could have this shape.
  Tensor view(const Shape& shape) const;
  Tensor permute(const Dims& dims) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  /// Swaps the last two dimensions; returns itself if there are fewer.
  Tensor t() const;
  Tensor expand(const Shape& shape) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor slice(int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor select(int64_t dim, int64_t index) const;
  /// select(0, index)
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// x[mask] and x[positions], as in index().
  Tensor operator[](const Tensor& positions_or_mask) const;
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;
  Tensor unfold(int64_t dim, int64_t size, int64_t step) const;
  Tensor flip(const Dims& dims) const;
  Tensor roll(const Dims& shifts, const Dims& dims = {}) const;
  Tensor repeat(const Dims& repeats) const;
  Tensor repeat_interleave(int64_t repeats, int64_t dim) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;
  std::vector<Tensor> split(int64_t size, int64_t dim = 0) const;
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t dim = 0) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const;
  std::vector<Tensor> unbind(int64_t dim = 0) const;
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  /// \}

  /// \name Indexing and products: functions of <hero/autograd/ops.h> as members
  /// \{
  Tensor gather(int64_t dim, const Tensor& index) const;
  Tensor scatter(int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor index_select(int64_t dim, const Tensor& index) const;
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& src, double alpha = 1.0) const;
  Tensor index(const std::vector<Tensor>& indices) const;
  Tensor index_put(const std::vector<Tensor>& indices, const Tensor& values,
                   bool accumulate = false) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;
  /// \}

  /// \name In place
  /// Recorded like their counterparts. An Error on a leaf that requires gradients, unless in
  /// NoGrad.
  /// \{
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar value) const;
  const Tensor& sub_(const Tensor& other) const;
  const Tensor& sub_(Scalar value) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar value) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar value) const;
  const Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  /// \}

  using TensorMembers::clamp, TensorMembers::clamp_, TensorMembers::cumprod, TensorMembers::cumsum,
      TensorMembers::div, TensorMembers::div_, TensorMembers::fill_, TensorMembers::index_put,
      TensorMembers::log_softmax, TensorMembers::masked_fill, TensorMembers::max,
      TensorMembers::mean, TensorMembers::min, TensorMembers::prod,
      TensorMembers::repeat_interleave, TensorMembers::round, TensorMembers::scatter,
      TensorMembers::softmax, TensorMembers::squeeze, TensorMembers::std, TensorMembers::sub_,
      TensorMembers::sum, TensorMembers::var;

  friend bool is_same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }
  detail::TensorImpl* impl() const { return impl_.get(); }
  const core::Ref<detail::TensorImpl>& impl_ref() const { return impl_; }
  static Tensor from_impl(core::Ref<detail::TensorImpl> impl);

 private:
  std::shared_ptr<std::atomic<bool>> append_hook(TensorHook hook) const;

  core::Ref<detail::TensorImpl> impl_;
};

/// True if both handles are the same tensor.
bool is_same(const Tensor& a, const Tensor& b);

/// Options of grad().
struct GradOptions {
  std::vector<Tensor> grad_outputs =
      {};                     ///< gradients of the outputs; ones for one-element outputs
  bool retain_graph = false;  ///< as in BackwardOptions
  bool create_graph = false;  ///< as in BackwardOptions
  /// True: an input without effect gets an undefined gradient.
  bool allow_unused = false;
};

/// Gradients of the outputs' sum with respect to `inputs`; grad() of no tensor changes.
/// \snippet test_examples_gradients.cpp grad
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// The gradient of one output with respect to one input. It is a template, so that grad({y}, {x})
/// means the lists above.
template <std::same_as<Tensor> T>
Tensor grad(const T& output, const T& input, const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, std::vector<Tensor>{input}, options)[0];
}

/// Does what Tensor::backward() does, for several outputs at once.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients = {},
              const BackwardOptions& options = {});

/// Calls `callback` once when the backward pass that runs on this thread has ended, in the order of
/// registration. Throws an Error outside of a backward pass.
void on_backward_end(std::function<void()> callback);

/// The number of nodes that this thread has made and not freed: 0 if there is no graph.
int64_t live_nodes();

/// The values as NumPy prints them, and a line with shape, dtype, device and requires_grad.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace hero
