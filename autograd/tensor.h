#pragma once
// Tensor: an Array that records how it was computed.
#include <atomic>
#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/core/accessor.h>
#include <hero/core/array.h>

namespace hero {

class Index;
class Tensor;
enum class Rounding;
enum class ScatterReduce;
struct AddProduct;
struct Frexp;
struct LikeOptions;
struct MinMax;
struct QR;
struct QuantileOptions;
struct SignLogDet;
struct Unique;
struct UniqueOptions;
struct ValuesIndices;
struct VarOptions;

namespace detail {

/// A mutex of one byte, which every tensor has: threads that run backward through shared leaves
/// take turns at each leaf. A waiting thread sleeps.
class LeafLock {
 public:
  LeafLock() = default;
  LeafLock(const LeafLock&) = delete;
  LeafLock& operator=(const LeafLock&) = delete;

  void lock() {
    uint8_t seen = kFree;
    if (!state_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr uint8_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  void wait() {
    // A thread that has slept cannot know whether others still sleep, so it takes the lock as
    // kWaitedFor.
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree) {
      state_.wait(kWaitedFor, std::memory_order_relaxed);
    }
  }

  std::atomic<uint8_t> state_ = kFree;
};

/// Holds the lock while it lives.
class LeafTurn {
 public:
  explicit LeafTurn(LeafLock& lock) : lock_(lock) { lock_.lock(); }
  ~LeafTurn() { lock_.unlock(); }
  LeafTurn(const LeafTurn&) = delete;
  LeafTurn& operator=(const LeafTurn&) = delete;

 private:
  LeafLock& lock_;
};

struct Hooks;
class Node;

/// The state that all handles of one tensor share. Programs use it through Tensor.
struct TensorImpl : core::Counted {
  explicit TensorImpl(Array&& array);
  ~TensorImpl();
  static void destroy(TensorImpl* impl);

  /// Returns the hooks, which are made if there are none.
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
  bool is_requires_grad_set = false;  // by requires_grad_(), to either
  bool retains_grad = false;
  bool detached = false;  // made by detach(): has no history, whatever is written to its memory
  LeafLock lock;
};

}  // namespace detail

/// A hook that is called with a gradient. The tensor that it returns, unless undefined, replaces
/// the gradient.
using TensorHook = std::function<Tensor(const Tensor& grad)>;
/// A hook that is called with a leaf whose gradient is complete.
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
class Tensor {
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

  /// \name Values by index and in a row, for the host
  /// T is the element type of the dtype, or const for reading only. The accessor or span refers to
  /// the tensor's memory, which has to outlive it, so a temporary tensor gives neither. As with
  /// data_ptr(), backward does not notice writes: write values before operations use them. Throws
  /// an Error if T does not match the dtype, or if the values are not in the host's memory.
  /// \{
  /// The elements by their indices: x.accessor<float, 2>()[i][j] for a matrix. Throws an Error if
  /// the tensor does not have N dimensions.
  /// \snippet test_examples_tensors.cpp accessor
  template <class T, int N>
  TensorAccessor<T, N> accessor() const& {
    return TensorAccessor<T, N>(host_values<T>("accessor", N), shape().begin(), strides().begin());
  }
  template <class T, int N>
  TensorAccessor<T, N> accessor() const&& = delete;
  /// All elements in row-major order. Throws an Error if the tensor is not contiguous.
  /// \snippet test_examples_tensors.cpp span
  template <class T>
  std::span<T> span() const& {
    return std::span<T>(host_values<T>("span", -1), static_cast<size_t>(numel()));
  }
  template <class T>
  std::span<T> span() const&& = delete;
  /// \}

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
  /// Makes backward store grad() of this tensor also if it is not a leaf.
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

  // The functions of this list as members: the tensor is their first argument. A function in place,
  // f_(), is recorded like f(); see "In place" below.
// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and of parameters
#define HERO_UNARY(f) Tensor f() const;
#define HERO_UNARY_IN_PLACE(f) \
  Tensor f() const;            \
  /** f() in place. */         \
  const Tensor& f##_() const;
#define HERO_BINARY(f, a, b) Tensor f(const Tensor& b) const;
#define HERO_BINARY_IN_PLACE(f, a, b) \
  Tensor f(const Tensor& b) const;    \
  /** f() in place. */                \
  const Tensor& f##_(const Tensor& b) const;
#define HERO_NUMBER(f, a, b)                       \
  /** The same with a number as second operand. */ \
  Tensor f(Scalar b) const;
#define HERO_NUMBER_IN_PLACE(f, a, b)              \
  /** The same with a number as second operand. */ \
  Tensor f(Scalar b) const;                        \
  /** f() in place. */                             \
  const Tensor& f##_(Scalar b) const;
// NOLINTEND(bugprone-macro-parentheses)
#include <hero/autograd/ops/elementwise/elementwise_list.h>

  /// \name Elementwise: further functions of <hero/autograd/ops.h> as members
  /// \{
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, double value = 1.0) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, double value = 1.0) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  Tensor polygamma(int64_t n) const;
  Tensor mvlgamma(int64_t p) const;
  Tensor igamma(const Tensor& x) const;
  Tensor igammac(const Tensor& x) const;
  Tensor logit(std::optional<double> eps = {}) const;
  Tensor nan_to_num() const;
  Tensor round(int64_t decimals) const;
  Tensor div(const Tensor& other, Rounding rounding) const;
  Tensor div(Scalar other, Rounding rounding) const;
  Frexp frexp() const;
  Tensor nextafter(const Tensor& towards) const;
  Tensor clamp(const Tensor& low, const Tensor& high) const;
  Tensor max(const Tensor& other) const;
  Tensor min(const Tensor& other) const;
  Tensor heaviside(const Tensor& values) const;
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const;
  /// hero::where(condition, x, other)
  Tensor where(const Tensor& condition, const Tensor& other) const;
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
  Tensor var(const Dims& dims) const;
  Tensor std() const;
  Tensor std(const VarOptions& options) const;
  Tensor std(const Dims& dims) const;
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
  Tensor sum(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor mean(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor prod(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor cumsum(int64_t dim, DType dtype) const;
  Tensor cumprod(int64_t dim, DType dtype) const;
  Tensor softmax(int64_t dim, DType dtype) const;
  Tensor log_softmax(int64_t dim, DType dtype) const;
  Tensor var(std::initializer_list<int64_t> dims) const;
  Tensor std(std::initializer_list<int64_t> dims) const;
  Tensor nansum(const Dims& dims = {}, bool keepdim = false) const;
  Tensor nanmean(const Dims& dims = {}, bool keepdim = false) const;
  Tensor count_nonzero(const Dims& dims = {}) const;
  MinMax aminmax(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  /// norm(x - other, p). There is only the member, since hero::dist is a namespace.
  Tensor dist(const Tensor& other, double p = 2.0) const;
  Tensor median() const;
  ValuesIndices median(int64_t dim, bool keepdim = false) const;
  Tensor nanmedian() const;
  ValuesIndices nanmedian(int64_t dim, bool keepdim = false) const;
  ValuesIndices kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false) const;
  ValuesIndices mode(int64_t dim = -1, bool keepdim = false) const;
  Tensor quantile(double q, const QuantileOptions& options) const;
  Tensor nanquantile(double q, const QuantileOptions& options) const;
  Tensor msort() const;
  ValuesIndices cummax(int64_t dim) const;
  ValuesIndices cummin(int64_t dim) const;
  Tensor logcumsumexp(int64_t dim) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1) const;
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
  /// The matrices in the last two dimensions transposed; an Error if there are fewer.
  Tensor mT() const;  // NOLINT(readability-identifier-naming): PyTorch's name
  Tensor movedim(const Dims& source, const Dims& destination) const;
  Tensor moveaxis(const Dims& source, const Dims& destination) const;
  Tensor swapaxes(int64_t axis0, int64_t axis1) const;
  Tensor swapdims(int64_t dim0, int64_t dim1) const;
  Tensor squeeze(const std::vector<int64_t>& dims) const;
  Tensor unflatten(int64_t dim, const Shape& sizes) const;
  Tensor ravel() const;
  Tensor expand_as(const Tensor& other) const;
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor broadcast_to(const Shape& shape) const;
  /// x summed over the dimensions in which `shape` broadcasts to its shape.
  Tensor sum_to_size(const Shape& shape) const;
  Tensor tile(const Dims& repeats) const;
  Tensor fliplr() const;
  Tensor flipud() const;
  Tensor rot90(int64_t k = 1, const Dims& dims = {0, 1}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim = {}) const;
  Tensor repeat_interleave(int64_t repeats) const;
  Tensor diag(int64_t offset = 0) const;
  Tensor diag_embed(int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1) const;
  Tensor diagflat(int64_t offset = 0) const;
  Tensor trace() const;
  std::vector<Tensor> tensor_split(int64_t sections, int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const std::vector<int64_t>& indices, int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const Tensor& indices_or_sections, int64_t dim = 0) const;
  std::vector<Tensor> hsplit(int64_t sections) const;
  std::vector<Tensor> vsplit(int64_t sections) const;
  std::vector<Tensor> dsplit(int64_t sections) const;
  Tensor multinomial(int64_t num_samples, bool replacement = false) const;
  Tensor bernoulli() const;
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
  /// x({Slice(0, 2), None, Ellipsis, mask}): see <hero/autograd/ops/index/index.h>.
  Tensor operator()(std::initializer_list<Index> indices) const;
  /// A copy of x in which the elements that x(indices) reads are replaced by `values`, which
  /// broadcast, or increased by them if accumulate is true. If an element is replaced several
  /// times, the last value counts.
  /// \snippet test_examples_tensors.cpp index_put
  Tensor index_put(std::initializer_list<Index> indices, const Tensor& values,
                   bool accumulate = false) const;
  Tensor index_put(std::initializer_list<Index> indices, Scalar value,
                   bool accumulate = false) const;
  Tensor take(const Tensor& index) const;
  Tensor put(const Tensor& index, const Tensor& src, bool accumulate = false) const;
  Tensor take_along_dim(const Tensor& index, std::optional<int64_t> dim = {}) const;
  Tensor index_fill(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor index_fill(int64_t dim, const Tensor& index, const Tensor& value) const;
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value, ScatterReduce reduce) const;
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduce reduce,
                        bool include_self = true) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& src) const;
  Tensor argwhere() const;
  Unique unique(const UniqueOptions& options) const;
  Unique unique_consecutive(const UniqueOptions& options) const;
  Tensor bincount(const Tensor& weights, int64_t minlength = 0) const;
  Tensor bincount() const;
  Tensor histc(int64_t bins = 100, double low = 0.0, double high = 0.0) const;
  Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index) const;
  Tensor slice_scatter(const Tensor& src, int64_t dim = 0, int64_t start = 0, int64_t stop = kEnd,
                       int64_t step = 1) const;
  Tensor diagonal_scatter(const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                          int64_t dim2 = 1) const;
  Tensor index_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduce reduce,
                      bool include_self = true) const;
  Tensor addmm(const Tensor& a, const Tensor& b) const;
  Tensor addmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor addmv(const Tensor& a, const Tensor& v) const;
  Tensor addmv(const Tensor& a, const Tensor& v, const AddProduct& options) const;
  Tensor addr(const Tensor& u, const Tensor& v) const;
  Tensor addr(const Tensor& u, const Tensor& v, const AddProduct& options) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor addbmm(const Tensor& a, const Tensor& b) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor mv(const Tensor& v) const;
  Tensor inner(const Tensor& other) const;
  Tensor vdot(const Tensor& other) const;
  Tensor kron(const Tensor& other) const;
  Tensor cross(const Tensor& other, std::optional<int64_t> dim = {}) const;
  Tensor matrix_power(int64_t n) const;
  Tensor matrix_exp() const;
  Tensor renorm(double p, int64_t dim, double maxnorm) const;
  Tensor corrcoef() const;
  Tensor det() const;
  Tensor logdet() const;
  SignLogDet slogdet() const;
  /// hero::inv(x)
  Tensor inverse() const;
  /// hero::pinv(x)
  Tensor pinverse() const;
  Tensor cholesky() const;
  QR qr() const;
  /// \}

  /// \name New tensors in this one's dtype and on its device, unless others are given
  /// \{
  /// A tensor of this shape whose values are not set.
  Tensor new_empty(const Shape& shape) const;
  /// The same with another dtype or device, or requiring gradients.
  Tensor new_empty(const Shape& shape, const LikeOptions& options) const;
  /// A tensor of zeros.
  Tensor new_zeros(const Shape& shape) const;
  /// The same with another dtype or device, or requiring gradients.
  Tensor new_zeros(const Shape& shape, const LikeOptions& options) const;
  /// A tensor of ones.
  Tensor new_ones(const Shape& shape) const;
  /// The same with another dtype or device, or requiring gradients.
  Tensor new_ones(const Shape& shape, const LikeOptions& options) const;
  /// A tensor whose elements all have this value.
  Tensor new_full(const Shape& shape, Scalar value) const;
  /// The same with another dtype or device, or requiring gradients.
  Tensor new_full(const Shape& shape, Scalar value, const LikeOptions& options) const;
  /// The values in the other tensor's dtype.
  Tensor type_as(const Tensor& other) const;
  /// Bytes of one element.
  int64_t element_size() const;
  /// True for float64, float32, float16 and bfloat16.
  bool is_floating_point() const;
  /// \}

  /// \name In place
  /// f_() is recorded like f(). Throws an Error on a leaf that requires gradients, unless in
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
  const Tensor& logit_(std::optional<double> eps = {}) const;
  const Tensor& round_(int64_t decimals) const;
  const Tensor& polygamma_(int64_t n) const;
  const Tensor& mvlgamma_(int64_t p) const;
  const Tensor& igamma_(const Tensor& x) const;
  const Tensor& igammac_(const Tensor& x) const;
  const Tensor& nan_to_num_() const;
  const Tensor& nextafter_(const Tensor& towards) const;
  const Tensor& heaviside_(const Tensor& values) const;
  const Tensor& div_(const Tensor& other, Rounding rounding) const;
  const Tensor& div_(Scalar other, Rounding rounding) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha) const;
  const Tensor& clamp_(const Tensor& low, const Tensor& high) const;
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& lerp_(const Tensor& end, const Tensor& weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& masked_fill_(const Tensor& mask, const Tensor& value) const;
  const Tensor& tril_(int64_t diagonal = 0) const;
  const Tensor& triu_(int64_t diagonal = 0) const;
  const Tensor& cumsum_(int64_t dim) const;
  const Tensor& cumprod_(int64_t dim) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, Scalar value,
                         ScatterReduce reduce) const;
  const Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src,
                                ScatterReduce reduce, bool include_self = true) const;
  const Tensor& masked_scatter_(const Tensor& mask, const Tensor& src) const;
  const Tensor& put_(const Tensor& index, const Tensor& src, bool accumulate = false) const;
  const Tensor& index_fill_(int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& index_fill_(int64_t dim, const Tensor& index, const Tensor& value) const;
  const Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                           double alpha = 1.0) const;
  const Tensor& index_put_(const std::vector<Tensor>& indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, Scalar value,
                           bool accumulate = false) const;
  const Tensor& fill_(const Tensor& value) const;
  const Tensor& fill_diagonal_(Scalar value) const;
  const Tensor& renorm_(double p, int64_t dim, double maxnorm) const;
  const Tensor& addmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& addmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  const Tensor& addmv_(const Tensor& a, const Tensor& v) const;
  const Tensor& addmv_(const Tensor& a, const Tensor& v, const AddProduct& options) const;
  const Tensor& addr_(const Tensor& u, const Tensor& v) const;
  const Tensor& addr_(const Tensor& u, const Tensor& v, const AddProduct& options) const;
  const Tensor& baddbmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& baddbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  const Tensor& addbmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& addbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  /// \}

  /// \name In place, random: drawn from this thread's generator; replaced values have the gradient
  /// 0
  /// \{
  const Tensor& uniform_(double from = 0.0, double to = 1.0) const;
  const Tensor& normal_(double mean = 0.0, double std = 1.0) const;
  const Tensor& exponential_(double rate = 1.0) const;
  const Tensor& bernoulli_(double p = 0.5) const;
  const Tensor& log_normal_(double mean = 1.0, double std = 2.0) const;
  const Tensor& cauchy_(double median = 0.0, double scale = 1.0) const;
  /// The number of trials up to the first success, which is counted too; each succeeds with
  /// probability p.
  const Tensor& geometric_(double p) const;
  /// Random integers in [low, high), for any dtype.
  const Tensor& random_(int64_t low, int64_t high) const;
  /// \}

  /// \name Shape in place
  /// The tensor, and so each of its handles, becomes the view that f() of it would be; its base and
  /// its other views keep their shapes. No value is written, so values saved for backward stay
  /// valid. Throws an Error on a leaf that requires grad.
  /// \{
  const Tensor& squeeze_() const;
  const Tensor& squeeze_(int64_t dim) const;
  const Tensor& squeeze_(const std::vector<int64_t>& dims) const;
  const Tensor& unsqueeze_(int64_t dim) const;
  const Tensor& t_() const;
  const Tensor& transpose_(int64_t dim0, int64_t dim1) const;
  const Tensor& swapaxes_(int64_t axis0, int64_t axis1) const;
  const Tensor& swapdims_(int64_t dim0, int64_t dim1) const;
  /// \}

  friend bool is_same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }
  detail::TensorImpl* impl() const { return impl_.get(); }
  const core::Ref<detail::TensorImpl>& impl_ref() const { return impl_; }
  static Tensor from_impl(core::Ref<detail::TensorImpl> impl);

 private:
  std::shared_ptr<std::atomic<bool>> append_hook(TensorHook hook) const;
  // The address of the first element. Throws an Error unless there are `ndim` dimensions or, if
  // that is -1, the tensor is contiguous.
  std::byte* host_bytes(const char* op, DType dtype, int ndim) const;
  template <class T>
  T* host_values(const char* op, int ndim) const {
    using Value = std::remove_const_t<T>;
    static_assert(kIsElement<Value>, "no dtype has elements of this type");
    return reinterpret_cast<T*>(host_bytes(op, kDTypeOf<Value>, ndim));
  }

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
  /// True: an input on which no output depends gets an undefined gradient; false: it is an Error.
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

/// The gradients of one output with respect to several inputs, as grad({output}, inputs).
template <std::same_as<Tensor> T>
std::vector<Tensor> grad(const T& output, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, inputs, options);
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
