// The views of Array: new shape, strides and offset over the same storage.
#include <algorithm>

#include <hero/core/array.h>

namespace hero::core {

Array Array::slice(int64_t dim, int64_t start, int64_t stop, int64_t step) const {
  const int axis = normalize_dim("slice", dim, ndim());
  check(ndim() > 0, "slice: a 0-dimensional array has nothing to slice");
  check(step > 0, "slice: step must be positive: ", step, "; use flip() to reverse");
  const int64_t size = shape_[axis];
  const auto clip = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t first = clip(start);
  const int64_t length = std::max<int64_t>(clip(stop) - first, 0);
  Shape shape = shape_;
  Dims strides = strides_;
  shape[axis] = std::min<int64_t>(length, 1);
  if (step < length) {  // a longer step takes the first element alone, whose stride nobody asks for
    shape[axis] = (length - 1) / step + 1;
    strides[axis] *= step;
  }
  const int64_t skipped = length > 0 ? first * strides_[axis] : 0;
  return Array(storage_, shape, strides, offset_ + skipped, dtype_);
}

Array Array::select(int64_t dim, int64_t index) const {
  check(ndim() > 0, "select: a 0-dimensional array has no dimension to select from");
  const int axis = normalize_dim("select", dim, ndim());
  const int64_t size = shape_[axis];
  check(index >= -size && index < size, "select: index ", index, " is out of range for dim ", axis,
        " of shape ", shape_);
  Shape shape = shape_;
  Dims strides = strides_;
  shape.erase(axis);
  strides.erase(axis);
  const int64_t at = index < 0 ? index + size : index;
  return Array(storage_, shape, strides, offset_ + at * strides_[axis], dtype_);
}

Array Array::transpose(int64_t dim0, int64_t dim1) const {
  const int a = normalize_dim("transpose", dim0, ndim());
  const int b = normalize_dim("transpose", dim1, ndim());
  if (ndim() == 0) return *this;
  Shape shape = shape_;
  Dims strides = strides_;
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::permute(const Dims& dims) const {
  check(dims.size() == ndim(), "permute: ", dims, " does not name each dimension of ", shape_);
  normalize_dims("permute", dims, ndim());
  Shape shape;
  Dims strides;
  for (int64_t dim : dims) {
    const int axis = normalize_dim("permute", dim, ndim());
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::expand(const Shape& target) const {
  check(target.size() >= ndim(), "expand: ", target, " has fewer dimensions than ", shape_);
  const int lead = target.size() - ndim();
  Shape shape = target;
  Dims strides = Dims::filled(target.size(), 0);
  for (int i = 0; i < target.size(); ++i) {
    if (i < lead) {
      check(target[i] >= 0, "expand: new dimension ", i, " needs a size: ", target);
      continue;
    }
    const int64_t own = shape_[i - lead];
    check(target[i] >= -1, "expand: negative size in ", target);
    if (target[i] == -1) shape[i] = own;
    check(shape[i] == own || own == 1, "expand: shape ", shape_, " does not expand to ", target);
    strides[i] = own == shape[i] ? strides_[i - lead] : 0;
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

namespace {

// Strides of `target` over the same elements, or false where only a copy can have that shape. Runs
// of old dimensions that are contiguous among themselves may be split and merged freely.
bool view_strides(const Shape& from, const Dims& strides, const Shape& target, Dims& result) {
  result = Dims::filled(target.size(), 0);
  int at = target.size() - 1;
  int64_t run = 1;   // elements of the current run of old dimensions
  int64_t made = 1;  // elements of the new dimensions laid over it
  int64_t base = from.empty() ? 1 : strides.back();
  for (int i = from.size() - 1; i >= 0; --i) {
    run *= from[i];
    // A stride that nobody asks for, as that of one element, may be any number.
    int64_t next = 0;
    const bool told = !__builtin_mul_overflow(run, base, &next);
    const bool run_ends = i == 0 || (from[i - 1] != 1 && !(told && strides[i - 1] == next));
    if (!run_ends) continue;
    while (at >= 0 && (made < run || target[at] == 1)) {
      if (__builtin_mul_overflow(made, base, &result[at])) result[at] = 1;  // of one element
      made *= target[at--];
    }
    if (made != run) return false;
    if (i > 0) {
      base = strides[i - 1];
      run = made = 1;
    }
  }
  while (at >= 0 && target[at] == 1) result[at--] = base;
  return at == -1;
}

Shape resolve_reshape(const Shape& from, int64_t numel, const Shape& target) {
  Shape shape = target;
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    check(shape[i] >= -1, "reshape: negative size in ", target);
    if (shape[i] != -1) continue;
    check(unknown < 0, "reshape: more than one -1 in ", target);
    unknown = i;
    shape[i] = 1;
  }
  const int64_t known = shape.numel("reshape");
  const bool fills = unknown < 0 ? known == numel : known > 0 && numel % known == 0;
  check(fills, "reshape: ", from, " (", numel, " elements) does not fill ", target);
  if (unknown >= 0) shape[unknown] = numel / known;
  return shape;
}

}  // namespace

Array Array::reshape(const Shape& target) const {
  check(defined(), "reshape: the array is undefined");
  const Shape shape = resolve_reshape(shape_, numel_, target);
  if (contiguous_) return Array(storage_, shape, contiguous_strides(shape), offset_, dtype_);
  Dims strides;
  if (numel_ > 0 && view_strides(shape_, strides_, shape, strides)) {
    return Array(storage_, shape, strides, offset_, dtype_);
  }
  return clone().reshape(shape);
}

Array Array::squeeze(int64_t dim) const {
  const int axis = normalize_dim("squeeze", dim, ndim());
  if (ndim() == 0 || shape_[axis] != 1) return *this;
  Shape shape = shape_;
  Dims strides = strides_;
  shape.erase(axis);
  strides.erase(axis);
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::squeeze() const {
  Shape shape;
  Dims strides;
  for (int i = 0; i < ndim(); ++i) {
    if (shape_[i] == 1) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::unsqueeze(int64_t dim) const {
  const int axis = normalize_dim("unsqueeze", dim, ndim() + 1);
  Shape shape = shape_;
  Dims strides = strides_;
  int64_t stride = 1;  // of one element: any number is right
  if (axis < ndim() && __builtin_mul_overflow(shape_[axis], strides_[axis], &stride)) stride = 1;
  shape.insert(axis, 1);
  strides.insert(axis, stride);
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::flatten(int64_t start_dim, int64_t end_dim) const {
  // A single number counts as a vector.
  const int dims = std::max(ndim(), 1);
  const int first = normalize_dim("flatten", start_dim, dims);
  const int last = normalize_dim("flatten", end_dim, dims);
  check(first <= last, "flatten: start_dim ", start_dim, " comes after end_dim ", end_dim);
  if (ndim() == 0) return reshape({1});
  Shape shape;
  for (int i = 0; i < ndim(); ++i) {
    if (i > first && i <= last) {
      shape.back() *= shape_[i];
    } else {
      shape.push_back(shape_[i]);
    }
  }
  return reshape(shape);
}

Array Array::as_strided(const Shape& shape, const Dims& strides, int64_t offset) const {
  check(defined(), "as_strided: the array is undefined");
  const int64_t last = last_position("as_strided", shape, strides, offset);
  const int64_t held = storage_->bytes() / item_size(dtype_);
  check(shape.numel("as_strided") == 0 || last < held, "as_strided: shape ", shape,
        " with strides ", strides, " at offset ", offset, " reaches beyond the storage of ", held,
        " elements");
  return Array(storage_, shape, strides, offset, dtype_);
}

Array Array::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const {
  const int a = normalize_dim("diagonal", dim1, ndim());
  const int b = normalize_dim("diagonal", dim2, ndim());
  check(ndim() >= 2 && a != b, "diagonal: needs two different dimensions of shape ", shape_);
  const int64_t shift = std::clamp(offset, -shape_[a], shape_[b]);
  const int64_t down = std::max<int64_t>(-shift, 0);
  const int64_t right = std::max<int64_t>(shift, 0);
  const int64_t length = std::max<int64_t>(std::min(shape_[a] - down, shape_[b] - right), 0);
  Shape shape = shape_;
  Dims strides = strides_;
  const int64_t stride = length > 1 ? strides_[a] + strides_[b] : 1;
  const int64_t start = length > 0 ? down * strides_[a] + right * strides_[b] : 0;
  for (int axis : {std::max(a, b), std::min(a, b)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(length);
  strides.push_back(stride);
  return Array(storage_, shape, strides, offset_ + start, dtype_);
}

Array Array::unfold(int64_t dim, int64_t size, int64_t step) const {
  const int axis = normalize_dim("unfold", dim, ndim());
  check(ndim() > 0, "unfold: a 0-dimensional array has no windows");
  check(size >= 0 && size <= shape_[axis], "unfold: window of ", size, " does not fit dim ", axis,
        " of shape ", shape_);
  check(step > 0, "unfold: step must be positive: ", step);
  Shape shape = shape_;
  Dims strides = strides_;
  shape[axis] = (shape_[axis] - size) / step + 1;
  if (shape[axis] > 1) strides[axis] *= step;
  shape.push_back(size);
  strides.push_back(strides_[axis]);
  return Array(storage_, shape, strides, offset_, dtype_);
}

}  // namespace hero::core
