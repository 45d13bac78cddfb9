#pragma once
// Conversions between tensors and matrices of Eigen 3.4 or newer, which copy the values or share
// the memory. No other header of Hero includes this one or needs Eigen. Matrices and arrays of
// Eigen are tensors of two dimensions, and types that are vectors at compile time tensors of one.
// The element types are float, double, int32_t, int64_t, uint8_t and bool.
#include <type_traits>

#include <Eigen/Core>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/tensor/memory.h>

namespace hero {

/// A row-major matrix of any size, as a contiguous tensor is. Eigen's own MatrixXf and its like are
/// column-major.
template <class T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace detail {

template <class Matrix>
inline constexpr bool kIsEigenElement =
    kIsElement<typename Matrix::Scalar> && !core::kIsHalf<typename Matrix::Scalar>;

template <class Matrix>
Shape eigen_shape(const Matrix& m) {
  if constexpr (Matrix::IsVectorAtCompileTime) return {static_cast<int64_t>(m.size())};
  return {static_cast<int64_t>(m.rows()), static_cast<int64_t>(m.cols())};
}

// What a Map of this type requires of a tensor.
template <class Plain>
MatrixRequest eigen_request(bool strided) {
  using Type = std::remove_const_t<Plain>;
  static_assert(std::is_base_of_v<Eigen::PlainObjectBase<Type>, Type>,
                "name a matrix or an array of Eigen, as RowMajorMatrix<float>, or its const");
  static_assert(kIsEigenElement<Type>, "no dtype has elements of this type");
  const auto size = [](int n) { return n == Eigen::Dynamic ? int64_t{-1} : int64_t{n}; };
  return {.dtype = kDTypeOf<typename Type::Scalar>,
          .is_vector = static_cast<bool>(Type::IsVectorAtCompileTime),
          .is_row = Type::RowsAtCompileTime == 1,
          .is_row_major = static_cast<bool>(Type::IsRowMajor),
          .is_strided = strided,
          .is_written = !std::is_const_v<Plain>,
          .rows = size(Type::RowsAtCompileTime),
          .cols = size(Type::ColsAtCompileTime),
          .max_rows = size(Type::MaxRowsAtCompileTime),
          .max_cols = size(Type::MaxColsAtCompileTime)};
}

template <class Plain>
using ElementsOf = std::conditional_t<std::is_const_v<Plain>, const typename Plain::Scalar,
                                      typename Plain::Scalar>;

template <class Plain>
using EigenStride =
    std::conditional_t<Plain::IsVectorAtCompileTime, Eigen::InnerStride<1>, Eigen::OuterStride<>>;

template <class Plain>
using EigenStrides = std::conditional_t<Plain::IsVectorAtCompileTime, Eigen::InnerStride<>,
                                        Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

}  // namespace detail

/// What eigen_map() returns: a map of a contiguous vector, or of a matrix each of whose rows
/// (row-major type) or columns (column-major type) is contiguous.
template <class Plain>
using EigenMap = Eigen::Map<Plain, Eigen::Unaligned, detail::EigenStride<Plain>>;
/// What strided_eigen_map() returns: a map with any strides.
template <class Plain>
using StridedEigenMap = Eigen::Map<Plain, Eigen::Unaligned, detail::EigenStrides<Plain>>;

namespace detail {

template <class Plain>
StridedEigenMap<Plain> strided_map(const char* op, const Tensor& x) {
  const MatrixView view = matrix_view(op, x, eigen_request<Plain>(true));
  auto* const data = reinterpret_cast<ElementsOf<Plain>*>(view.data);
  if constexpr (Plain::IsVectorAtCompileTime) {
    return StridedEigenMap<Plain>(data, view.rows * view.cols, Eigen::InnerStride<>(view.inner));
  } else {
    const EigenStrides<Plain> strides(view.outer, view.inner);
    return StridedEigenMap<Plain>(data, view.rows, view.cols, strides);
  }
}

}  // namespace detail

/// \name From Eigen
/// \{
/// A tensor with a copy of the values of a matrix, array, vector, map, block or expression. Its
/// dtype is that of the elements (float64 for double) unless `options` give another; throws an
/// Error if that is an integer dtype which cannot hold one of the values.
template <class Derived>
Tensor from_eigen(const Eigen::DenseBase<Derived>& values, const TensorOptions& options = {}) {
  static_assert(detail::kIsEigenElement<Derived>,
                "no dtype has elements of this type; cast<float>() them first");
  using Value = typename Derived::Scalar;
  const Array array = Array::empty(detail::eigen_shape(values.derived()), kDTypeOf<Value>);
  Eigen::Map<RowMajorMatrix<Value>>(array.data<Value>(), values.rows(), values.cols()) =
      values.derived();
  return detail::with_options("from_eigen", array, options);
}

/// A tensor that shares the memory of a matrix, vector, map, block or transpose, row-major or
/// column-major. Writes by either side are seen by the other one, but backward does not notice
/// those by Eigen. The memory has to stay allocated, and the matrix may not be resized, until the
/// last tensor over it is destroyed, including those that graphs have saved. `options` may not name
/// another dtype or device than the matrix has. An expression, a temporary matrix and const
/// elements do not compile; throws an Error for strides below 0.
template <class Matrix>
Tensor borrow_eigen(Matrix&& values, const TensorOptions& options = {}) {
  using Type = std::remove_cvref_t<Matrix>;
  static_assert(detail::kIsEigenElement<Type>, "no dtype has elements of this type");
  static_assert((int{Type::Flags} & int{Eigen::DirectAccessBit}) != 0,
                "an expression has no memory of its own; from_eigen() copies its values");
  static_assert(
      std::is_lvalue_reference_v<Matrix> || !std::is_base_of_v<Eigen::PlainObjectBase<Type>, Type>,
      "the memory of a temporary is gone before the tensor; from_eigen() copies it");
  using Pointer = decltype(values.data());
  static_assert(!std::is_const_v<std::remove_pointer_t<Pointer>>,
                "a tensor can be written to, and these elements are const; from_eigen() copies");
  const int64_t inner = values.innerStride(), outer = values.outerStride();
  Dims strides = Type::IsRowMajor ? Dims{outer, inner} : Dims{inner, outer};
  if constexpr (Type::IsVectorAtCompileTime) strides = {inner};
  return detail::tensor_over("borrow_eigen", values.data(), detail::eigen_shape(values), strides,
                             kDTypeOf<typename Type::Scalar>, options);
}
/// \}

/// \name To Eigen
/// A vector type needs a tensor of one dimension, other types one of two. A map refers to the
/// tensor's memory, which has to outlive it, so a temporary tensor does not compile. A map that
/// only reads has a const type: eigen_map<const Eigen::VectorXf>(x). To make any other map counts
/// as an operation in place on the values, an Error for a tensor that requires grad while
/// operations are recorded, or whose elements overlap; backward does not notice writes through the
/// map to values that were saved after the map was made. Throws an Error also if a size is not the
/// one that the type fixes, if the dtype is not that of the type's elements, or if the values are
/// not in the host's memory.
/// \{
/// The tensor's memory as a map with which Eigen computes at full speed. Throws an Error unless
/// each row (row-major type) or column (column-major type) is contiguous: use RowMajorMatrix<float>
/// and its like for contiguous tensors, MatrixXf for their transposes.
template <class Plain>
EigenMap<Plain> eigen_map(const Tensor& x) {
  const detail::MatrixView view =
      detail::matrix_view("eigen_map", x, detail::eigen_request<Plain>(false));
  auto* const data = reinterpret_cast<detail::ElementsOf<Plain>*>(view.data);
  if constexpr (Plain::IsVectorAtCompileTime) {
    return EigenMap<Plain>(data, view.rows * view.cols);
  } else {
    return EigenMap<Plain>(data, view.rows, view.cols, Eigen::OuterStride<>(view.outer));
  }
}
template <class Plain>
EigenMap<Plain> eigen_map(const Tensor&& x) = delete;

/// The same for any strides, which Eigen reads element by element.
template <class Plain>
StridedEigenMap<Plain> strided_eigen_map(const Tensor& x) {
  return detail::strided_map<Plain>("strided_eigen_map", x);
}
template <class Plain>
StridedEigenMap<Plain> strided_eigen_map(const Tensor&& x) = delete;

/// A copy, converted to the type's elements; the tensor may lie on any device and in any order.
template <class Plain>
Plain to_eigen(const Tensor& x) {
  const Tensor here(detail::host_copy("to_eigen", x, kDTypeOf<typename Plain::Scalar>));
  return detail::strided_map<const Plain>("to_eigen", here);
}
/// \}

}  // namespace hero
