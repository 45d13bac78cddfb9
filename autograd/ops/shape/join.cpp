// Joining and splitting tensors: each is the other's derivative.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/memory/allocator.h>

namespace hero {

namespace {

// PyTorch lets an empty list of numbers stand among tensors of any shape.
bool is_skipped(const Shape& shape) { return shape == Shape{0}; }

struct Cat : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int dim;
  explicit Cat(int d) : dim(d) {}
  const char* name() const override { return "cat"; }
  Array forward(std::span<const Array> arrays) {
    Shape shape = arrays[0].shape();
    DType dtype = arrays[0].dtype();
    int64_t total = 0;
    for (const Array& array : arrays) {
      if (!is_skipped(array.shape())) shape = array.shape();
      dtype = promote(dtype, array.dtype());
      check_same_device("cat", arrays[0], array);
    }
    for (const Array& array : arrays) {
      if (is_skipped(array.shape())) continue;
      Shape expected = array.shape();
      bool fits = array.ndim() == shape.size();
      if (fits) expected[dim] = shape[dim];
      check(fits && expected == shape, "cat: shapes differ beside dim ", dim, ": ", shape, " and ",
            array.shape());
      total += array.size(dim);
    }
    shape[dim] = total;
    const Array out = Array::empty(shape, dtype, arrays[0].device());
    int64_t at = 0;
    for (const Array& array : arrays) {
      if (is_skipped(array.shape())) continue;
      const int64_t size = array.size(dim);
      core::backend(out.device()).run(core::call::Copy{array, out.slice(dim, at, at + size)});
      at += size;
    }
    return out;
  }
  Grads backward(const Tensor& g) override {
    Grads grads;
    int64_t at = 0;
    for (int i = 0; i < input_count(); ++i) {
      const bool skipped = is_skipped(input_shape(i));
      const int64_t size = skipped ? 0 : input_shape(i)[dim];
      grads.push_back(needs(i) && !skipped ? narrow(g, dim, at, size) : Tensor());
      at += size;
    }
    return grads;
  }
};

// The gradients of a node's outputs, zeros where none came.
std::vector<Tensor> filled(const detail::Node& node, const Grads& grads) {
  std::vector<Tensor> parts;
  for (int i = 0; i < node.output_count(); ++i) {
    const detail::GradSpec& spec = node.output_spec(i);
    parts.push_back(i < grads.size() && grads[i].defined()
                        ? grads[i]
                        : Tensor(Array::zeros(spec.shape, spec.dtype, spec.device)));
  }
  return parts;
}

// The array of which the gradients of a split's parts are the parts, where an operation has laid
// them out so; else undefined.
Array joined_already(const Grads& parts, const Shape& shape, int dim) {
  if (parts.size() == 0 || !parts[0].defined()) return Array();
  const Array first = parts[0].array();
  int64_t at = first.offset();
  for (const Tensor& part : parts) {
    if (!part.defined()) return Array();
    const Array& x = part.array();
    const bool follows = &x.storage() == &first.storage() && x.dtype() == first.dtype() &&
                         x.strides() == first.strides() && x.offset() == at;
    if (!follows) return Array();
    at += x.size(dim) * x.strides()[dim];
  }
  if (at != first.offset() + shape[dim] * first.strides()[dim]) return Array();
  const Array whole = first.as_strided(shape, first.strides(), first.offset());
  return whole.is_contiguous() ? whole : Array();
}

// Views of consecutive sizes along dim, as one operation: its derivative joins the gradients once
// instead of adding full-size arrays of mostly zeros.
struct Split : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int dim;
  std::vector<int64_t> sizes;
  Split(int d, std::vector<int64_t> s) : dim(d), sizes(std::move(s)) {}
  const char* name() const override { return "split"; }
  int viewed_input(int) const override { return 0; }
  std::vector<Array> forward(const Array& x) {
    std::vector<Array> parts;
    int64_t at = 0;
    for (int64_t size : sizes) {
      parts.push_back(x.slice(dim, at, at + size));
      at += size;
    }
    return parts;
  }
  Grads backward(const Grads& grads) override {
    if (!grad_enabled()) {
      const Array whole = joined_already(grads, input_spec(0).shape, dim);
      if (whole.defined()) return {Tensor(whole)};
    }
    return {cat(filled(*this, grads), dim)};
  }
};

struct Unbind : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int dim;
  explicit Unbind(int d) : dim(d) {}
  const char* name() const override { return "unbind"; }
  int viewed_input(int) const override { return 0; }
  std::vector<Array> forward(const Array& x) {
    std::vector<Array> parts;
    for (int64_t i = 0; i < x.size(dim); ++i) parts.push_back(x.select(dim, i));
    return parts;
  }
  Grads backward(const Grads& grads) override { return {stack(filled(*this, grads), dim)}; }
};

int axis_of(const char* op, const Tensor& x, int64_t dim) {
  check(x.ndim() > 0, op, ": a 0-dimensional tensor cannot be taken apart");
  return normalize_dim(op, dim, x.ndim());
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  detail::check_defined("cat", tensors);
  check(!tensors.empty(), "cat: the list of tensors is empty");
  int ndim = tensors[0].ndim();
  for (const Tensor& tensor : tensors) {
    check(tensor.ndim() > 0, "cat: a 0-dimensional tensor cannot be joined; use stack()");
    if (!is_skipped(tensor.shape())) ndim = tensor.ndim();
  }
  return record_list(Cat(normalize_dim("cat", dim, ndim)), tensors);
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  detail::check_defined("stack", tensors);
  check(!tensors.empty(), "stack: the list of tensors is empty");
  const int axis = normalize_dim("stack", dim, tensors[0].ndim() + 1);
  std::vector<Tensor> layers;
  for (const Tensor& tensor : tensors) {
    check(tensor.shape() == tensors[0].shape(), "stack: shapes differ: ", tensors[0].shape(),
          " and ", tensor.shape());
    layers.push_back(unsqueeze(tensor, axis));
  }
  return record_list(Cat(axis), layers);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  detail::check_defined("split", {{"x", x}});
  const int axis = axis_of("split", x, dim);
  int64_t total = 0;
  for (int64_t size : sizes) {
    check(size >= 0, "split: negative size ", size);
    total = (core::Checked{"split", total} + size).value;
  }
  check(total == x.size(axis), "split: the sizes add up to ", total, ", not to the ", x.size(axis),
        " of dim ", axis, " of shape ", x.shape());
  if (sizes.empty()) return {};
  return record_multi(Split(axis, sizes), x);
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  detail::check_defined("split", {{"x", x}});
  const int axis = axis_of("split", x, dim);
  const int64_t total = x.size(axis);
  check(size > 0 || (size == 0 && total == 0), "split: size must be positive: ", size);
  if (total > 0) core::check_room("split", (total - 1) / size + 1);
  std::vector<int64_t> sizes;
  for (int64_t left = total; left > 0; left -= sizes.back()) sizes.push_back(std::min(size, left));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  detail::check_defined("chunk", {{"x", x}});
  const int axis = axis_of("chunk", x, dim);
  check(chunks > 0, "chunk: the number of chunks must be positive: ", chunks);
  const int64_t total = x.size(axis);
  if (total > 0) return split(x, (total - 1) / chunks + 1, axis);
  core::check_room("chunk", chunks);
  return split(x, std::vector<int64_t>(static_cast<size_t>(chunks), 0), axis);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  detail::check_defined("unbind", {{"x", x}});
  const int axis = axis_of("unbind", x, dim);
  if (x.size(axis) == 0) return {};
  core::check_room("unbind", x.size(axis));
  return record_multi(Unbind(axis), x);
}

}  // namespace hero
