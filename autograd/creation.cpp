#include <hero/autograd/creation.h>
#include <hero/autograd/ops.h>
#include <hero/core/backend.h>
#include <hero/core/map.h>

namespace hero {

namespace {

template <class T>
Tensor from_values(const std::vector<T>& values, const Shape& shape, DType natural,
                   const TensorOptions& options) {
  const Array array = Array::from(values, shape).to(options.dtype.value_or(natural));
  return Tensor(array.to(options.device), options.requires_grad);
}

template <class T>
Tensor from_list(std::initializer_list<T> values, DType natural, const TensorOptions& options) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return from_values(std::vector<T>(values), shape, natural, options);
}

template <class T>
Tensor from_rows(std::initializer_list<std::initializer_list<T>> rows, DType natural,
                 const TensorOptions& options) {
  std::vector<T> values;
  const size_t width = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    check(row.size() == width, "tensor: rows of different lengths: ", width, " and ", row.size());
    values.insert(values.end(), row);
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  return from_values(values, shape, natural, options);
}

Tensor make(const char* op, Array array, const TensorOptions& options) {
  check(!options.requires_grad || is_floating(array.dtype()), op,
        ": requires_grad needs a floating "
        "dtype, not ",
        array.dtype());
  return Tensor(std::move(array), options.requires_grad);
}

}  // namespace

Tensor tensor(double value, const TensorOptions& options) {
  return make("tensor", Array::full({}, value, options.dtype.value_or(kFloat32), options.device),
              options);
}
Tensor tensor(std::initializer_list<double> values, const TensorOptions& options) {
  return from_list(values, kFloat32, options);
}
Tensor tensor(std::initializer_list<float> values, const TensorOptions& options) {
  return from_list(values, kFloat32, options);
}
Tensor tensor(std::initializer_list<int> values, const TensorOptions& options) {
  return from_list(values, kInt64, options);
}
Tensor tensor(std::initializer_list<int64_t> values, const TensorOptions& options) {
  return from_list(values, kInt64, options);
}
Tensor tensor(std::initializer_list<bool> values, const TensorOptions& options) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  return from_values(bytes, {static_cast<int64_t>(bytes.size())}, kBool, options);
}
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows,
              const TensorOptions& options) {
  return from_rows(rows, kFloat32, options);
}
Tensor tensor(std::initializer_list<std::initializer_list<float>> rows,
              const TensorOptions& options) {
  return from_rows(rows, kFloat32, options);
}
Tensor tensor(std::initializer_list<std::initializer_list<int>> rows,
              const TensorOptions& options) {
  return from_rows(rows, kInt64, options);
}
Tensor tensor(const std::vector<double>& values, const TensorOptions& options) {
  return from_values(values, {static_cast<int64_t>(values.size())}, kFloat32, options);
}
Tensor tensor(const std::vector<float>& values, const TensorOptions& options) {
  return from_values(values, {static_cast<int64_t>(values.size())}, kFloat32, options);
}
Tensor tensor(const std::vector<int64_t>& values, const TensorOptions& options) {
  return from_values(values, {static_cast<int64_t>(values.size())}, kInt64, options);
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return make("empty", Array::empty(shape, options.dtype.value_or(kFloat32), options.device),
              options);
}
Tensor zeros(const Shape& shape, const TensorOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  return make("full", Array::full(shape, value, options.dtype.value_or(kFloat32), options.device),
              options);
}
Tensor empty_like(const Tensor& x) { return Tensor(x.array().empty_like()); }
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, Scalar value) {
  return Tensor(Array::full(x.shape(), value, x.dtype(), x.device()));
}

}  // namespace hero
