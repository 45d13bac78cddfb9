// Operations that move, repeat or pad elements.
#include <algorithm>

#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/own_memory.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;

struct DiagEmbed : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int64_t offset;
  explicit DiagEmbed(int64_t o) : offset(o) {}
  const char* name() const override { return "diag"; }
  Array forward(const Array& x) {
    const core::Checked size{"diag", x.size(0)};
    const int64_t n = (offset < 0 ? size - offset : size + offset).value;
    const Array out = Array::zeros({n, n}, x.dtype(), x.device());
    core::backend(x.device()).run(core::call::Copy{x, out.diagonal(offset)});
    return out;
  }
  Grads backward(const Tensor& g) override { return {diagonal(g, offset)}; }
};

// Windows may overlap: their gradients are added up.
struct Unfold : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int dim;
  int64_t size, step;
  Unfold(int d, int64_t s, int64_t by) : dim(d), size(s), step(by) {}
  const char* name() const override { return "unfold"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return x.unfold(dim, size, step); }
  Grads backward(const Tensor& g) override {
    const Shape& shape = input_shape(0);
    const int64_t windows = g.size(dim);
    Dims order;
    for (int i = 0; i < shape.size(); ++i) {
      order.push_back(i);
      if (i == dim) order.push_back(shape.size());
    }
    Shape joined = shape;
    joined[dim] = windows * size;
    const Array from = detail::positions(shape[dim], g.device()).unfold(0, size, step);
    return {detail::index_zeros(reshape(permute(g, order), joined), shape, dim,
                                Tensor(from.reshape({windows * size})))};
  }
};

struct AsStrided : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Shape shape;
  Dims strides;
  int64_t offset;
  AsStrided(const Shape& s, const Dims& by, int64_t o) : shape(s), strides(by), offset(o) {}
  const char* name() const override { return "as_strided"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return x.as_strided(shape, strides, x.offset() + offset); }
  // Elements may appear more than once: their gradients are added up.
  Grads backward(const Tensor& g) override {
    const Shape& whole = input_shape(0);
    const Array all = detail::positions(whole.numel(), g.device());
    return {detail::place_zeros(g, whole, all.as_strided(shape, strides, offset))};
  }
};

struct Flip : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Dims dims;
  explicit Flip(const Dims& d) : dims(d) {}
  const char* name() const override { return "flip"; }
  Array forward(const Array& x) { return detail::backwards(x, dims).clone(); }
  Grads backward(const Tensor& g) override { return {dims.empty() ? g : flip(g, dims)}; }
};

// Copies `from` to `to` and moves it along by so many elements in each dimension, `dim` and those
// behind it: the part that leaves at the end comes first.
void roll_into(const Array& from, const Array& to, const Dims& shifts, int dim) {
  while (dim < from.ndim() && shifts[dim] == 0) ++dim;
  if (dim == from.ndim()) return core::backend(to.device()).run(core::call::Copy{from, to});
  const int64_t shift = shifts[dim], rest = from.size(dim) - shift;
  roll_into(from.slice(dim, rest), to.slice(dim, 0, shift), shifts, dim + 1);
  roll_into(from.slice(dim, 0, rest), to.slice(dim, shift), shifts, dim + 1);
}

struct Roll : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Dims shifts;  // one a dimension, each below its size
  explicit Roll(const Dims& s) : shifts(s) {}
  const char* name() const override { return "roll"; }
  Array forward(const Array& x) {
    const Array out = x.empty_like();
    roll_into(x, out, shifts, 0);
    return out;
  }
  Grads backward(const Tensor& g) override {
    Dims back = shifts;
    for (int d = 0; d < back.size(); ++d) {
      if (back[d] > 0) back[d] = g.size(d) - back[d];
    }
    return {record(Roll(back), g)};
  }
};

// The nearest diagonal that has elements, or one beside it where there is none.
int64_t near_diagonal(const Tensor& x, int64_t diagonal) {
  return std::clamp(diagonal, -x.size(-2), x.size(-1));
}

// True at [i][j] where j - i <= diagonal.
Tensor lower_mask(const Tensor& x, int64_t diagonal) {
  const Array rows = detail::positions(x.size(-2), x.device()).unsqueeze(1);
  const Array columns = detail::positions(x.size(-1), x.device());
  return Tensor(core::map<k::GreaterEqual>(core::map<k::Add>(rows, Scalar(diagonal)), columns));
}

void check_matrix(const char* op, const Tensor& x) {
  check(x.ndim() >= 2, op, ": needs at least 2 dimensions: got shape ", x.shape());
}

}  // namespace

Tensor diag(const Tensor& x, int64_t offset) {
  detail::check_defined("diag", {{"x", x}});
  check(x.ndim() == 1 || x.ndim() == 2, "diag: needs 1 or 2 dimensions: got shape ", x.shape());
  return x.ndim() == 2 ? clone(diagonal(x, offset)) : record(DiagEmbed(offset), x);
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  detail::check_defined("unfold", {{"x", x}});
  const int axis = normalize_dim("unfold", dim, x.ndim());
  if (x.ndim() > 0) return record(Unfold(axis, size, step), x);
  check(size >= 0 && size <= 1, "unfold: window of ", size, " does not fit a single number");
  check(step > 0, "unfold: step must be positive: ", step);
  return slice(reshape(x, {1}), 0, 0, size);
}

Tensor as_strided(const Tensor& x, const Shape& shape, const Dims& strides, int64_t offset) {
  detail::check_defined("as_strided", {{"x", x}});
  check(x.is_contiguous(), "as_strided: needs a contiguous tensor: strides are ", x.strides(),
        " for shape ", x.shape(), "; call contiguous()");
  const int64_t last = last_position("as_strided", shape, strides, offset);
  const bool empty = shape.numel("as_strided") == 0;
  check(empty || last < x.numel(), "as_strided: shape ", shape, " with strides ", strides,
        " at offset ", offset, " reaches beyond the ", x.numel(), " elements");
  return record(AsStrided(shape, strides, empty ? 0 : offset), x);
}

Array detail::backwards(const Array& x, const Dims& dims) {
  Dims strides = x.strides();
  int64_t first = x.offset();
  for (int64_t dim : dims) {
    const int d = static_cast<int>(dim);
    if (x.shape()[d] < 2) continue;
    first += (x.shape()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return Array(x.storage_ref(), x.shape(), strides, first, x.dtype());
}

Tensor flip(const Tensor& x, const Dims& dims) {
  detail::check_defined("flip", {{"x", x}});
  return record(Flip(dims.empty() ? dims : normalize_dims("flip", dims, x.ndim())), x);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  detail::check_defined("roll", {{"x", x}});
  if (dims.empty()) {
    check(shifts.size() == 1, "roll: ", shifts.size(), " shifts without dims; give one, or dims");
    return reshape(roll(reshape(x, {x.numel()}), shifts, {0}), x.shape());
  }
  check(shifts.size() == dims.size(), "roll: shifts ", shifts, " and dims ", dims,
        " differ in length");
  Dims by = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < dims.size(); ++i) {
    check(x.ndim() > 0, "roll: a single number has no dim ", dims[i]);
    const int dim = normalize_dim("roll", dims[i], x.ndim());
    const int64_t size = x.size(dim);
    const int64_t rest = size == 0 ? 0 : shifts[i] % size;
    by[dim] = size == 0 ? 0 : (by[dim] + (rest < 0 ? rest + size : rest)) % size;
  }
  return record(Roll(by), x);
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const detail::Named named("repeat", {"x", x});
  detail::check_defined("repeat", {{"x", x}});
  check(repeats.size() >= x.ndim(), "repeat: ", repeats.size(), " repeats for shape ", x.shape());
  const int lead = repeats.size() - x.ndim();
  Shape shape = Dims::filled(lead, 1);
  for (int64_t size : x.shape()) shape.push_back(size);
  Tensor result = reshape(x, shape);
  for (int dim = repeats.size() - 1; dim >= 0; --dim) {
    const int64_t times = repeats[dim];
    check(times >= 0, "repeat: negative number of repeats in ", repeats);
    if (times == 1) continue;
    shape[dim] = (core::Checked{"repeat", shape[dim]} * times).value;
    Shape spread = result.shape();
    spread.insert(dim, times);
    result = reshape(expand(unsqueeze(result, dim), spread), shape);
  }
  return detail::own_memory(result, x);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim) {
  detail::check_defined("repeat_interleave", {{"x", x}});
  check(repeats >= 0, "repeat_interleave: negative number of repeats: ", repeats);
  const Tensor source = x.ndim() == 0 ? reshape(x, {1}) : x;
  const int axis = normalize_dim("repeat_interleave", dim, source.ndim());
  Shape shape = source.shape(), spread = source.shape();
  shape[axis] = (core::Checked{"repeat_interleave", shape[axis]} * repeats).value;
  spread.insert(axis + 1, repeats);
  return detail::own_memory(reshape(expand(unsqueeze(source, axis + 1), spread), shape), x);
}

// A bool scalar: numbers keep their dtype.
Tensor tril(const Tensor& x, int64_t diagonal) {
  detail::check_defined("tril", {{"x", x}});
  check_matrix("tril", x);
  return where(lower_mask(x, near_diagonal(x, diagonal)), x, false);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  detail::check_defined("triu", {{"x", x}});
  check_matrix("triu", x);
  return where(lower_mask(x, near_diagonal(x, diagonal) - 1), false, x);
}

}  // namespace hero
