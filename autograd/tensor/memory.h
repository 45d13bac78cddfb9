#pragma once
// Direct access of a program to a tensor's memory: accessors, spans and maps of Eigen.
#include <hero/autograd/ops/creation/creation.h>

namespace hero::detail {

/// Called before the program gets the memory of `x` to write to: the values count as changed, as by
/// an operation in place, so that backward refuses values of x that were saved before. Throws an
/// Error of `op` if x requires grad while recording is on, since gradients would be wrong without
/// anybody noticing, or if elements of x overlap.
void begin_write(const char* op, const Tensor& x);

/// Throws an Error of `op` unless the values of x are of this dtype and in the host's memory.
void check_host_values(const char* op, const Tensor& x, DType dtype);

/// The values of x in the host's memory, converted to this dtype: x's own array if it is there and
/// of this dtype already, else a copy.
Array host_copy(const char* op, const Tensor& x, DType dtype);

/// A tensor of the array, in the dtype and on the device of `options`.
Tensor with_options(const char* op, const Array& array, const TensorOptions& options);

/// A tensor over memory that the program owns; `strides` count elements. Throws an Error of `op`
/// for a stride below 0, a null or unaligned address, or options that could only be met by a copy.
Tensor tensor_over(const char* op, void* data, const Shape& shape, const Dims& strides, DType dtype,
                   const TensorOptions& options);

/// What a matrix type of Eigen requires of a tensor. A size of -1 may be any.
struct MatrixRequest {
  DType dtype = kFloat32;
  bool is_vector = false;     ///< one dimension
  bool is_row = false;        ///< for a vector: it is a matrix of one row
  bool is_row_major = false;  ///< the last dimension is the inner one
  bool is_strided = false;    ///< the inner dimension may have a stride
  bool is_written = false;
  int64_t rows = -1;
  int64_t cols = -1;
  int64_t max_rows = -1;
  int64_t max_cols = -1;
};

/// Memory as a matrix: strides in elements, from one element of the inner dimension to the next and
/// from one of the outer.
struct MatrixView {
  std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t inner = 1;
  int64_t outer = 1;
};

/// The memory of x as a matrix. Throws an Error of `op` if x is not as the request requires.
MatrixView matrix_view(const char* op, const Tensor& x, const MatrixRequest& request);

}  // namespace hero::detail
