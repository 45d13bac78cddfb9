// Reading and writing through indices. The derivative of an operation that reads is one that adds,
// and the other way round, so all can be differentiated any number of times.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/factor.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/index/written.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;
using core::ScatterMode;

struct Gather : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b10;
  int dim;
  explicit Gather(int d) : dim(d) {}
  const char* name() const override { return "gather"; }
  Array forward(const Array& x, const Array& index) { return core::gather(x, dim, index); }
  Grads backward(const Tensor& g) override {
    return {detail::scatter_zeros(g, input_shape(0), dim, input(1)), Tensor()};
  }
};

struct ScatterZeros : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b10;
  Shape shape;
  int dim;
  ScatterZeros(const Shape& s, int d) : shape(s), dim(d) {}
  const char* name() const override { return "gather_backward"; }
  Array forward(const Array& g, const Array& index) {
    Array out = Array::zeros(shape, g.dtype(), g.device());
    core::scatter_into(ScatterMode::add, out, dim, index, g);
    return out;
  }
  Grads backward(const Tensor& g) override { return {gather(g, dim, input(1)), Tensor()}; }
};

// x in the first corner of `shape`, zeros (false) around it: a source may be larger than its index.
Tensor framed(const Tensor& x, const Shape& shape) {
  std::vector<int64_t> padding;
  for (int i = shape.size() - 1; i >= 0; --i) {
    padding.insert(padding.end(), {0, shape[i] - x.shape()[i]});
  }
  return x.shape() == shape ? x : pad(x, padding);
}

// True for the elements that a scatter by `index` leaves standing: of equal places the last wins.
Tensor survivors(const Tensor& index, int dim, const Shape& shape) {
  const Array ids = detail::positions(index.numel(), index.device()).reshape(index.shape());
  const Array none = Array::zeros(shape, kInt64, index.device());
  const Array placed = core::scatter(ScatterMode::assign, none, dim, index.array(), ids);
  return Tensor(core::map<k::Equal>(core::gather(placed, dim, index.array()), ids));
}

struct Scatter : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::promote;
  static constexpr unsigned kSaveInputs = 0b10;
  ScatterMode mode;
  int dim;
  Scatter(ScatterMode m, int d) : mode(m), dim(d) {}
  const char* name() const override { return mode == ScatterMode::add ? "scatter_add" : "scatter"; }
  Array forward(const Array& x, const Array& index, const Array& src) {
    return core::scatter(mode, x, dim, index, src);
  }
  Grads backward(const Tensor& g) override {
    const Tensor index = input(1);
    const bool adds = mode == ScatterMode::add;
    Grads grads{g, Tensor(), Tensor()};
    if (needs(0) && !adds) {
      grads[0] = scatter(g, dim, index, Tensor(Array::zeros(index.shape(), g.dtype(), g.device())));
    }
    if (needs(2)) {
      // What was written over later has no gradient.
      const Tensor taken = gather(g, dim, index);
      const Tensor kept = adds ? taken : where(survivors(index, dim, input_shape(0)), taken, 0);
      grads[2] = framed(kept, input_shape(2));
    }
    return grads;
  }
};

struct IndexSelect : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b10;
  int dim;
  explicit IndexSelect(int d) : dim(d) {}
  const char* name() const override { return "index_select"; }
  Array forward(const Array& x, const Array& index) { return core::index_select(x, dim, index); }
  Grads backward(const Tensor& g) override {
    return {detail::index_zeros(g, input_shape(0), dim, input(1)), Tensor()};
  }
};

struct IndexZeros : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b10;
  Shape shape;
  int dim;
  IndexZeros(const Shape& s, int d) : shape(s), dim(d) {}
  const char* name() const override { return "index_select_backward"; }
  Array forward(const Array& g, const Array& index) {
    Array out = Array::zeros(shape, g.dtype(), g.device());
    core::index_add_into(out, dim, index, g);
    return out;
  }
  Grads backward(const Tensor& g) override { return {index_select(g, dim, input(1)), Tensor()}; }
};

struct IndexAdd : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::promote;
  static constexpr unsigned kSaveInputs = 0b10;
  int dim;
  Scalar alpha;
  IndexAdd(int d, const Scalar& a) : dim(d), alpha(a) {}
  const char* name() const override { return "index_add"; }
  Array forward(const Array& x, const Array& index, const Array& src) {
    return core::index_add(x, dim, index, src, alpha);
  }
  Grads backward(const Tensor& g) override {
    if (!needs(2)) return {g, Tensor(), Tensor()};
    const Tensor rows = index_select(g, dim, input(1));
    return {g, Tensor(), alpha.real() == 1.0 ? rows : rows * alpha};
  }
};

// Indices with each mask replaced by the positions where it is true, one list a dimension.
std::vector<Tensor> without_masks(const char* op, const Tensor& x,
                                  const std::vector<Tensor>& indices) {
  std::vector<Tensor> lists;
  for (const Tensor& index : indices) {
    if (index.dtype() != kBool) {
      lists.push_back(index);
      continue;
    }
    const int first = static_cast<int>(lists.size());
    bool fits = index.ndim() > 0 && first + index.ndim() <= x.ndim();
    for (int i = 0; fits && i < index.ndim(); ++i) fits = index.shape()[i] == x.shape()[first + i];
    check(fits, op, ": a mask of shape ", index.shape(), " does not fit dim ", first,
          " of an array of shape ", x.shape());
    const Array found = core::nonzero(index.array());
    for (int i = 0; i < index.ndim(); ++i) lists.emplace_back(found.select(1, i));
  }
  return lists;
}

// Several index tensors as one list of row-major positions in the dimensions they index.
struct JoinedIndex {
  Tensor index;  // [count]
  Shape shape;   // of the broadcast indices
  int64_t size = 1;
  int dims = 0;  // that are indexed
};

JoinedIndex join_indices(const char* op, const Tensor& x, const std::vector<Tensor>& given) {
  detail::check_defined(op, given);
  const std::vector<Tensor> indices = without_masks(op, x, given);
  check(!indices.empty() && static_cast<int>(indices.size()) <= x.ndim(), op, ": ", indices.size(),
        " index tensors for an array of shape ", x.shape());
  JoinedIndex places;
  places.dims = static_cast<int>(indices.size());
  for (const Tensor& index : indices) {
    places.shape = broadcast_shapes(op, places.shape, index.shape());
  }
  Tensor total;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t size = x.shape()[static_cast<int>(i)];
    check(indices[i].dtype() == kInt64 || indices[i].dtype() == kInt32, op, ": index ", i, " is ",
          indices[i].dtype(), "; indices are int64, int32 or bool (masks)");
    const Tensor raw = indices[i].detach().to(kInt64);
    const Tensor counted = detail::counted_positions(raw, size);
    const Tensor index(core::checked_index(op, counted.array(), size));
    total = total.defined() ? total * size + index : index;
    places.size *= size;
  }
  places.index = total.expand(places.shape).reshape({-1});
  return places;
}

// x as [indexed places, the rest].
Tensor as_rows(const Tensor& x, const JoinedIndex& places) {
  const int64_t rest = places.size == 0 ? 1 : x.numel() / places.size;
  return reshape(x, {places.size, rest});
}

// All elements as one dimension; only numbers, as one dimension of one.
Tensor as_line(const Tensor& x) { return reshape(x, {x.numel()}); }
Tensor at_least_line(const Tensor& x) { return x.ndim() > 0 ? x : as_line(x); }

// Whether an index without elements could be one of elements: then src, of which nothing is taken,
// keeps its place in the graph, with a gradient of zeros.
bool keeps_source(const Tensor& x, int axis, const Tensor& index, const Tensor& src) {
  bool keeps = src.requires_grad() && index.ndim() == x.ndim() && src.ndim() == x.ndim() &&
               (index.dtype() == kInt64 || index.dtype() == kInt32);
  for (int i = 0; keeps && i < x.ndim(); ++i) {
    keeps = index.size(i) <= src.size(i) && (i == axis || index.size(i) <= x.size(i));
  }
  return keeps;
}

}  // namespace

namespace detail {

// Numbers stand beside lines, and an index without elements beside anything, as in PyTorch.
Tensor written(Into into, ScatterMode mode, const Tensor& x, int64_t dim, const Tensor& index,
               const Tensor& src) {
  const char* op = mode == ScatterMode::add ? "scatter_add" : "scatter";
  const int axis = normalize_dim(op, dim, x.ndim());
  if (index.numel() == 0 && !keeps_source(x, axis, index, src)) {
    return into == Into::copy ? clone(x) : x;
  }
  const bool lines = x.ndim() > 0 && index.ndim() > 0 && src.ndim() > 0;
  if (!lines) {
    const Tensor line = at_least_line(x), places = at_least_line(index), from = at_least_line(src);
    return reshape(written(into, mode, line, axis, places, from), x.shape());
  }
  if (into == Into::copy) return record(Scatter(mode, axis), x, index, src);
  const Tensor* inputs[] = {&x, &index, &src};
  const OpInterceptor watcher(op, AutocastRule::promote, inputs);
  core::scatter_into(mode, inputs[0]->array(), axis, inputs[1]->array(), inputs[2]->array());
  return watcher.look(*inputs[0]);
}

Tensor index_add(Into into, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                 double alpha) {
  check_defined("index_add", {{"x", x}, {"index", index}, {"src", src}});
  check_factor("index_add", "alpha", alpha, x.dtype());
  const int axis = normalize_dim("index_add", dim, x.ndim());
  const Scalar factor = cut_to(alpha, x.dtype());
  if (into == Into::copy) return record(IndexAdd(axis, factor), x, index, src);
  const Tensor* inputs[] = {&x, &index, &src};
  const OpInterceptor watcher("index_add", AutocastRule::promote, inputs);
  core::index_add_into(inputs[0]->array(), axis, inputs[1]->array(), inputs[2]->array(), factor);
  return watcher.look(*inputs[0]);
}

Tensor index_put(Into into, const Tensor& x, const std::vector<Tensor>& indices,
                 const Tensor& values, bool accumulate) {
  check_defined("index_put", {{"x", x}, {"values", values}});
  if (const AutocastInputs in(AutocastRule::promote, x, values); in.changed()) {
    return index_put(into, in[0], indices, in[1], accumulate);
  }
  const JoinedIndex places = join_indices("index_put", x, indices);
  Shape shape = places.shape;
  for (int i = places.dims; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  check(values.dtype() == x.dtype(), "index_put: values are ", values.dtype(), ", array is ",
        x.dtype(), "; convert with to()");
  check(broadcast_shapes("index_put", values.shape(), shape) == shape,
        "index_put: values of shape ", values.shape(), " do not broadcast to the indexed ", shape);
  const Tensor rows = as_rows(x, places);
  const Shape source = {places.index.numel(), rows.size(1)};
  const Tensor src = reshape(expand(values, shape), source);
  const Tensor result = accumulate ? index_add(into, rows, 0, places.index, src, 1)
                                   : written(into, ScatterMode::assign, rows, 0,
                                             expand(unsqueeze(places.index, 1), source), src);
  return reshape(result, x.shape());
}

Tensor scatter_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index) {
  return record(ScatterZeros(shape, dim), g, index);
}

Tensor index_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index) {
  return record(IndexZeros(shape, dim), g, index);
}

Tensor place_zeros(const Tensor& g, const Shape& shape, const Array& places) {
  const Tensor index(places.reshape({g.numel()}));
  return reshape(index_zeros(reshape(g, {g.numel()}), {shape.numel()}, 0, index), shape);
}

Array positions(int64_t count, Device device) {
  if (core::is_accelerator(device)) {
    // Made there: a copy would have to wait for the host's bytes to be read.
    const Array ones = Array::ones({count}, kInt64, device);
    if (count > 0) {
      core::backend(device).run(
          core::call::Scan{core::ScanOp::sum, core::Direction::forward, ones, 0, ones});
    }
    return core::map<k::Sub>(ones, Scalar(1));
  }
  if (!core::has_values(device)) return Array::empty({count}, kInt64, device);
  const Array result = Array::empty({count}, kInt64);
  for (int64_t i = 0; i < count; ++i) result.data<int64_t>()[i] = i;
  return result.to(device);
}

}  // namespace detail

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  detail::check_defined("gather", {{"x", x}, {"index", index}});
  const int axis = normalize_dim("gather", dim, x.ndim());
  if (index.numel() == 0) return reshape(slice(as_line(x), 0, 0, 0), index.shape());
  if (x.ndim() > 0 && index.ndim() > 0) return record(Gather(axis), x, index);
  return reshape(record(Gather(axis), at_least_line(x), at_least_line(index)), index.shape());
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  detail::check_defined("scatter", {{"x", x}, {"index", index}, {"src", src}});
  return detail::written(detail::Into::copy, ScatterMode::assign, x, dim, index, src);
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  const detail::Named named("scatter_add", {"x", x}, {"index", index}, {"src", src});
  detail::check_defined("scatter_add", {{"x", x}, {"index", index}, {"src", src}});
  return detail::written(detail::Into::copy, ScatterMode::add, x, dim, index, src);
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  detail::check_defined("index_select", {{"x", x}, {"index", index}});
  return record(IndexSelect(normalize_dim("index_select", dim, x.ndim())), x, index);
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                 double alpha) {
  return detail::index_add(detail::Into::copy, x, dim, index, src, alpha);
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  detail::check_defined("index", {{"x", x}});
  const JoinedIndex places = join_indices("index", x, indices);
  Shape shape = places.shape;
  for (int i = places.dims; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  return reshape(index_select(as_rows(x, places), 0, places.index), shape);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate) {
  return detail::index_put(detail::Into::copy, x, indices, values, accumulate);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  detail::check_defined("masked_select", {{"x", x}, {"mask", mask}});
  check(mask.dtype() == kBool, "masked_select: the mask is ", mask.dtype(),
        "; compare it to get bool");
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Array found = core::nonzero(mask.array().expand(shape).reshape({-1}));
  return index_select(reshape(expand(x, shape), {-1}), 0, Tensor(found.reshape({-1})));
}

Tensor nonzero(const Tensor& x) {
  detail::check_defined("nonzero", {{"x", x}});
  return Tensor(core::nonzero(x.array()));
}

}  // namespace hero
