#include <hero/core/dims.h>
#include <hero/core/scalar.h>

namespace hero {

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

std::string to_string(const Scalar& scalar) {
  if (scalar.is_boolean()) return scalar.real() != 0 ? "true" : "false";
  return scalar.is_floating() ? detail::number_text(scalar.real())
                              : detail::number_text(scalar.to<int64_t>());
}

void Dims::fail_numel(const char* op) const {
  for (int64_t size : *this) check(size >= 0, op, ": negative size in shape ", *this);
  fail(op, ": shape ", *this, " has more elements than 64 bits count");
}

Dims contiguous_strides(const Shape& shape) {
  Dims strides = shape;
  int64_t stride = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

int64_t last_position(const char* op, const Shape& shape, const Dims& strides, int64_t offset) {
  check(shape.size() == strides.size(), op, ": shape ", shape, " and strides ", strides,
        " differ in length");
  check(offset >= 0, op, ": negative offset: ", offset);
  int64_t last = offset;
  for (int i = 0; i < shape.size(); ++i) {
    check(shape[i] >= 0 && strides[i] >= 0, op, ": negative size or stride: ", shape, ", ",
          strides);
    int64_t reach = 0;
    check(!__builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), strides[i], &reach) &&
              !__builtin_add_overflow(last, reach, &last),
          op, ": shape ", shape, " with strides ", strides, " overflows");
  }
  return last;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const int lead = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    int64_t& size = result[lead + i];
    const int64_t other = shorter[i];
    check(size == other || size == 1 || other == 1, op, ": shapes do not broadcast: ", a, " and ",
          b);
    if (size == 1) size = other;
  }
  return result;
}

int normalize_dim(const char* op, int64_t dim, int ndim) {
  // A 0-dimensional array takes dim 0 and -1, as in PyTorch.
  const int64_t range = std::max(ndim, 1);
  check(dim >= -range && dim < range, op, ": dim out of range: ", dim, " for ", ndim,
        " dimensions; use ", -range, " to ", range - 1);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

Dims normalize_dims(const char* op, const Dims& dims, int ndim) {
  Dims result;
  if (dims.empty()) {
    for (int i = 0; i < ndim; ++i) result.push_back(i);
    return result;
  }
  for (int64_t dim : dims) {
    const int64_t normal = normalize_dim(op, dim, ndim);
    check(!result.contains(normal), op, ": dim ", dim, " appears twice in ", dims);
    result.push_back(normal);
  }
  if (ndim == 0) return {};
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace hero
