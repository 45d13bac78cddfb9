#pragma once
// Making tensors: from values, over memory that the program owns, filled, as ranges. Random ones
// are in random.h.
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// The dtype and device of a new tensor, and whether it requires gradients.
struct TensorOptions {
  std::optional<DType> dtype = {};  ///< when absent, each function says which dtype it takes
  Device device = kCpu;             ///< where it is made
  bool requires_grad = false;       ///< true: gradients are computed for it
};
/// The element types of lists, and of rows of a list, that tensor() takes.
template <class T>
concept RowElement = std::same_as<T, double> || std::same_as<T, float> || std::same_as<T, int> ||
    std::same_as<T, int64_t> || std::same_as<T, bool>;
namespace detail {
/// An element of a list whose elements have several types.
struct MixedElement {
  template <RowElement T>
  MixedElement(T number) : value(number) {}
  Scalar value;
};
template <class T>
Tensor tensor_of_span(std::span<const T> values, const TensorOptions& options);
}  // namespace detail

/// \name From values: unless a dtype is given, floats become float32 and integers int64
/// Doubles become float32, too, as Python's floats do in PyTorch's tensor(); {.dtype = kFloat64}
/// keeps all their digits.
/// \{
/// Makes a tensor without dimensions from a number.
/// \snippet test_examples_tensors.cpp tensor
Tensor tensor(Scalar value, const TensorOptions& options = {});
/// Makes a vector of elements of one type.
template <RowElement T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {});
/// Makes a vector of elements of several types, as {1.0, INFINITY, 2}: they are taken as doubles if
/// any of them is floating, else as int64.
Tensor tensor(std::initializer_list<detail::MixedElement> values,
              const TensorOptions& options = {});
/// Makes a matrix of rows, which have equal lengths.
template <RowElement T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {});
Tensor tensor(std::initializer_list<std::initializer_list<detail::MixedElement>> rows,
              const TensorOptions& options = {});
Tensor tensor(const std::vector<double>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<float>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<int>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<int64_t>& values, const TensorOptions& options = {});
Tensor tensor(const std::vector<bool>& values, const TensorOptions& options = {});
/// A vector of the values of a span, copied; uint8, Float16 and BFloat16 keep their dtypes. In
/// another shape: tensor(span).reshape(...).
template <class T, size_t N>
requires kIsElement<std::remove_const_t<T>> Tensor tensor(std::span<T, N> values,
                                                          const TensorOptions& options = {}) {
  using Value = std::remove_const_t<T>;
  return detail::tensor_of_span<Value>(std::span<const Value>(values), options);
}
/// \}

/// \name Over memory of the program's own, which is not copied
/// A tensor of this shape whose elements are in memory from `data` on, in row-major order, float32
/// unless a dtype is given, on options.device. The program and the tensor see each other's writes,
/// but backward does not notice those of the program. The memory has to stay allocated until the
/// last tensor over it is destroyed, including those that graphs have saved. Then `deleter` is
/// called with `data`, on the thread that destroys that tensor; it must not throw, and on a GPU,
/// work that reads the memory may still be queued. Throws an Error if data is null though there are
/// elements, or not aligned for the dtype.
/// \{
/// \snippet test_examples_tensors.cpp from_blob
Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {});
Tensor from_blob(void* data, const Shape& shape, const std::function<void(void*)>& deleter,
                 const TensorOptions& options = {});
/// The same over the elements of a span, with the dtype of T. Throws an Error if the span has not
/// as many elements as the shape, or if options name another dtype.
/// \snippet test_examples_tensors.cpp from_blob_span
template <class T, size_t N>
requires kIsElement<T> Tensor from_blob(std::span<T, N> values, const Shape& shape,
                                        TensorOptions options = {}) {
  const DType dtype = options.dtype.value_or(kDTypeOf<T>);
  check(dtype == kDTypeOf<T>, "from_blob: the span's elements are ", kDTypeOf<T>, ", not ", dtype);
  check(shape.numel("from_blob") == static_cast<int64_t>(values.size()), "from_blob: a span of ",
        values.size(), " elements does not fill shape ", shape);
  options.dtype = dtype;
  return from_blob(static_cast<void*>(values.data()), shape, options);
}
/// \}

Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// \snippet test_examples_tensors.cpp zeros
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// A tensor whose elements all have this value; float32, int64 or bool, as the value is, unless a
/// dtype is given.
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
/// Options of tensors that are made in the shape of another tensor.
struct LikeOptions {
  std::optional<DType> dtype = {};    ///< that of the other tensor when absent
  std::optional<Device> device = {};  ///< that of the other tensor when absent
  bool requires_grad = false;         ///< true: gradients are computed for the new tensor
};
namespace detail {
/// These options as TensorOptions, in which absent ones are x's dtype and device.
TensorOptions options_like(const Tensor& x, const LikeOptions& options);
}  // namespace detail

/// \name In the shape of x, and in its dtype and on its device unless others are given
/// \{
Tensor empty_like(const Tensor& x, const LikeOptions& options);
Tensor zeros_like(const Tensor& x, const LikeOptions& options);
Tensor ones_like(const Tensor& x, const LikeOptions& options);
Tensor full_like(const Tensor& x, Scalar value, const LikeOptions& options);
/// \}

/// The values start, start + step, ... that lie before end; int64 if all arguments are integers,
/// else float32. If an integer dtype is given, the fractions of start and step are cut off first,
/// as in PyTorch.
/// \snippet test_examples_tensors.cpp arange
Tensor arange(Scalar start, Scalar end, Scalar step = 1, const TensorOptions& options = {});
Tensor arange(Scalar end, const TensorOptions& options = {});
/// `steps` equally spaced values from start to end, both included. If an integer dtype is given,
/// the fractions of start and end are cut off first, and then those of the values.
Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options = {});
/// `steps` powers of base, [steps], whose exponents are equally spaced from start to end, both
/// included. They are computed in double and returned in float32 unless a dtype is given; for an
/// integer dtype the fractions of start and end are cut off first. Throws an Error if steps is
/// negative.
Tensor logspace(double start, double end, int64_t steps, double base = 10.0,
                const TensorOptions& options = {});
Tensor eye(int64_t n, const TensorOptions& options = {});
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {});
/// int64 [.., num_classes] with a 1 at each index in `x`; if num_classes is -1, there is one class
/// more than the largest index.
Tensor one_hot(const Tensor& x, int64_t num_classes = -1);

/// \name With a dtype instead of options: zeros({2}, kInt64)
/// They are templates, so that {} still means the options.
/// \{
template <std::same_as<DType> D>
Tensor empty(const Shape& shape, D dtype) {
  return empty(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor zeros(const Shape& shape, D dtype) {
  return zeros(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor ones(const Shape& shape, D dtype) {
  return ones(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor full(const Shape& shape, Scalar value, D dtype) {
  return full(shape, value, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor arange(Scalar end, D dtype) {
  return arange(end, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor arange(Scalar start, Scalar end, Scalar step, D dtype) {
  return arange(start, end, step, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor eye(int64_t n, D dtype) {
  return eye(n, TensorOptions{.dtype = dtype});
}
/// \}

}  // namespace hero
