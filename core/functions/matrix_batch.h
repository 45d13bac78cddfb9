#pragma once
// Helpers of the solvers and decompositions of matrices.
#include <functional>
#include <optional>

#include <hero/core/array.h>

namespace hero::core::linalg {

void check_input(const char* op, const Array& a);
void check_square(const char* op, const Array& a);
void check_pair(const char* op, const Array& a, const Array& b);

// A shape without its last two dimensions.
Shape batch_of(const Array& a);
Shape matrices(Shape batch, int64_t rows, int64_t columns);

// The matrices of an array for a batch to which its own batch broadcasts, row-major, or
// column-major if they are so already. A matrix that is broadcast is stored once.
class Batch {
 public:
  Batch(const Array& array, const Shape& batch);
  template <class T>
  T* at(int64_t i) const {
    return dense_.data<T>() + (repeats_ ? place_of(i) : i) * rows_ * columns_;
  }
  int64_t row_step() const { return turned_ ? 1 : columns_; }
  int64_t column_step() const { return turned_ ? rows_ : 1; }

 private:
  int64_t place_of(int64_t i) const;
  Array dense_;
  Shape batch_;
  bool turned_, repeats_;
  int64_t rows_, columns_;
};

// Calls body(i), of so many steps, for each matrix.
void each_matrix(const Shape& batch, int64_t steps, const std::function<void(int64_t)>& body);
// The first matrix (by position) for which body(i) gives false, after it was called for all.
std::optional<int64_t> first_without(const Shape& batch, int64_t steps,
                                     const std::function<bool(int64_t)>& body);
// An Error that names the first matrix of the batch that has the fault, if one has.
void check_matrices(const char* op, const Shape& batch, const char* fault,
                    std::optional<int64_t> first);

template <class Body>
auto with_floats(const Array& a, Body&& body) {
  if (a.dtype() == kFloat64) return body(TypeTag<double>{});
  return body(TypeTag<float>{});
}

// GPUs have no kernels for solvers: the host computes with a copy.
inline bool is_on_gpu(const Array& a) { return a.device().type == DeviceType::cuda; }

inline bool has_bytes(const Array& a) { return a.device().type != DeviceType::meta; }

}  // namespace hero::core::linalg
