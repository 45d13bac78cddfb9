// Views and copies: the derivative of a view is the scatter back into the shape it was cut from.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

// Zeros of `shape` with g put where `cut` (a view function) points. The derivative of every view.
template <class Cut>
struct Paste : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Shape shape;
  Cut cut;
  Paste(const Shape& s, Cut c) : shape(s), cut(c) {}
  const char* name() const override { return "view_backward"; }
  Array forward(const Array& g) {
    Array out = Array::zeros(shape, g.dtype(), g.device());
    core::backend(g.device()).run(core::call::Copy{g, cut(out)});
    return out;
  }
  Grads backward(const Tensor& g) override;
};

template <class Cut>
struct View : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* label;
  Cut cut;
  View(const char* l, Cut c) : label(l), cut(c) {}
  const char* name() const override { return label; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return cut(x); }
  Grads backward(const Tensor& g) override { return {record(Paste<Cut>(input_shape(0), cut), g)}; }
};

template <class Cut>
Grads Paste<Cut>::backward(const Tensor& g) {
  return {record(View<Cut>("view_backward", cut), g)};
}

// A view whose elements are all of x's, once each: its derivative is the reverse view.
template <class Cut, class Back>
struct Rearrange : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* label;
  Cut cut;
  Back back;
  Rearrange(const char* l, Cut c, Back b) : label(l), cut(c), back(b) {}
  const char* name() const override { return label; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return cut(x); }
  Grads backward(const Tensor& g) override { return {back(g)}; }
};

struct Reshape : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Shape shape;
  explicit Reshape(const Shape& s) : shape(s) {}
  const char* name() const override { return "reshape"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return x.reshape(shape); }
  Grads backward(const Tensor& g) override { return {reshape(g, input_shape(0))}; }
};

struct Expand : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Shape shape;
  explicit Expand(const Shape& s) : shape(s) {}
  const char* name() const override { return "expand"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return x.expand(shape); }
  // The engine sums over what was expanded.
  Grads backward(const Tensor& g) override { return {g}; }
};

struct Clone : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* name() const override { return "clone"; }
  Array forward(const Array& x) { return x.clone(); }
  Grads backward(const Tensor& g) override { return {g}; }
};

struct Convert : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  DType dtype;
  explicit Convert(DType d) : dtype(d) {}
  const char* name() const override { return "to"; }
  Array forward(const Array& x) { return x.to(dtype); }
  // The engine converts gradients to the input's dtype.
  Grads backward(const Tensor& g) override { return {g}; }
};

struct Move : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Device device;
  explicit Move(Device d) : device(d) {}
  const char* name() const override { return "to"; }
  Array forward(const Array& x) { return x.to(device); }
  Grads backward(const Tensor& g) override { return {to(g, inputs_[0].spec.device)}; }
};

template <class Cut>
Tensor view_of(const char* label, const Tensor& x, Cut cut) {
  return record(View<Cut>(label, cut), x);
}

template <class Cut, class Back>
Tensor rearranged(const char* label, const Tensor& x, Cut cut, Back back) {
  return record(Rearrange<Cut, Back>(label, cut, back), x);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return record(Reshape(shape), x); }

Tensor permute(const Tensor& x, const Dims& dims) {
  Dims inverse = dims;
  for (int i = 0; i < dims.size(); ++i) {
    inverse[normalize_dim("permute", dims[i], dims.size())] = i;
  }
  return rearranged(
      "permute", x, [dims](const Array& a) { return a.permute(dims); },
      [inverse](const Tensor& g) { return permute(g, inverse); });
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  return rearranged(
      "transpose", x, [=](const Array& a) { return a.transpose(dim0, dim1); },
      [=](const Tensor& g) { return transpose(g, dim0, dim1); });
}

Tensor expand(const Tensor& x, const Shape& shape) { return record(Expand(shape), x); }

Tensor squeeze(const Tensor& x, int64_t dim) {
  detail::check_defined("squeeze", {{"x", x}});
  Shape shape = x.shape();
  const int axis = normalize_dim("squeeze", dim, shape.size());
  if (shape.size() > 0 && shape[axis] == 1) shape.erase(axis);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  detail::check_defined("squeeze", {{"x", x}});
  Shape shape;
  for (int64_t size : x.shape()) {
    if (size != 1) shape.push_back(size);
  }
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  detail::check_defined("unsqueeze", {{"x", x}});
  const int axis = normalize_dim("unsqueeze", dim, x.ndim() + 1);
  return rearranged(
      "unsqueeze", x, [axis](const Array& a) { return a.unsqueeze(axis); },
      [axis](const Tensor& g) { return squeeze(g, axis); });
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  detail::check_defined("flatten", {{"x", x}});
  return reshape(x, x.array().flatten(start_dim, end_dim).shape());
}

Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  return view_of("slice", x, [=](const Array& a) { return a.slice(dim, start, stop, step); });
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const detail::Named named("narrow", {"x", x});
  detail::check_defined("narrow", {{"x", x}});
  check(x.ndim() > 0, "narrow: a single number has nothing to narrow");
  const int64_t size = x.size(dim), first = start < 0 && start >= -size ? start + size : start;
  check(length >= 0 && first >= 0 && first <= size && length <= size - first, "narrow: ", length,
        " elements from ", start, " on do not lie in dim ", dim, " of shape ", x.shape());
  return slice(x, dim, first, first + length);
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  return view_of("select", x, [=](const Array& a) { return a.select(dim, index); });
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  return view_of("diagonal", x, [=](const Array& a) { return a.diagonal(offset, dim1, dim2); });
}

Tensor contiguous(const Tensor& x) {
  detail::check_defined("contiguous", {{"x", x}});
  return x.is_contiguous() ? x : clone(x);
}
Tensor clone(const Tensor& x) { return record(Clone{}, x); }
Tensor to(const Tensor& x, DType dtype) {
  detail::check_defined("to", {{"x", x}});
  return dtype == x.dtype() ? x : record(Convert(dtype), x);
}
Tensor to(const Tensor& x, Device device) {
  detail::check_defined("to", {{"x", x}});
  return device == x.device() ? x : record(Move(device), x);
}

}  // namespace hero
