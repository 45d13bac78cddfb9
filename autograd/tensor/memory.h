#pragma once
// What the program itself reads and writes of a tensor's memory.
#include <hero/autograd/ops/creation/creation.h>

namespace hero::detail {

/// Called before memory of `x` is handed out that the program may write to: its values count as
/// changed from now on, as by an operation in place, so that backward refuses what it saved of
/// them. An Error of `op` if a gradient would be wrong without anybody noticing, because x
/// requires grad and recording is on, or if elements of x overlap.
void begin_write(const char* op, const Tensor& x);

/// An Error of `op` unless the values of x are of this dtype and lie in the host's memory.
void check_host_values(const char* op, const Tensor& x, DType dtype);

/// The values in the host's memory in this dtype: those of x itself where they are so already.
Array host_copy(const char* op, const Tensor& x, DType dtype);

/// A tensor of the array, in the dtype and on the device of `options`.
Tensor with_options(const char* op, const Array& array, const TensorOptions& options);

/// A tensor over memory of the program's own, whose elements lie at `strides`, in elements. An
/// Error of `op` for a stride below 0, a null or unaligned address, or options that ask for a copy.
Tensor tensor_over(const char* op, void* data, const Shape& shape, const Dims& strides, DType dtype,
                   const TensorOptions& options);

/// What a type of matrices asks of a tensor. Sizes of -1 may be any.
struct MatrixRequest {
  DType dtype = kFloat32;
  bool is_vector = false;     ///< one dimension
  bool is_row = false;        ///< of a vector: the one row of a matrix
  bool is_row_major = false;  ///< the last dimension is the inner one
  bool is_strided = false;    ///< the inner one may have gaps
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

/// The memory of x as a matrix. An Error of `op` for what the request does not allow.
MatrixView matrix_view(const char* op, const Tensor& x, const MatrixRequest& request);

}  // namespace hero::detail
