#pragma once
// What the solvers and decompositions of matrices share.
#include <algorithm>
#include <mutex>

// Scalar code, so that results do not depend on the machine's vector width; under a namespace of
// our own, since a program may use Eigen with other settings and the linker would mix the two.
#define EIGEN_DONT_VECTORIZE
#define Eigen hero_eigen
#include <Eigen/Core>

#include <hero/core/array.h>
#include <hero/core/thread_pool.h>

namespace hero::core::linalg {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>>;
template <class T>
using ConstView = Eigen::Map<const Matrix<T>>;

inline void check_input(const char* op, const Array& a) {
  check(a.defined(), op, ": the array is undefined");
  check(a.dtype() == kFloat32 || a.dtype() == kFloat64, op, ": matrix is ", a.dtype(),
        "; convert to float32 or float64");
  check(a.ndim() >= 2, op, ": needs a matrix: got shape ", a.shape());
}

inline void check_square(const char* op, const Array& a) {
  check_input(op, a);
  check(a.size(-1) == a.size(-2), op, ": matrix is not square: ", a.shape());
}

inline Shape batch_of(const Array& a) {
  Shape shape = a.shape();
  shape.pop_back();
  shape.pop_back();
  return shape;
}

inline Shape matrices(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// The matrices of a batch, one after another.
template <class T>
class Batch {
 public:
  Batch(const Array& array, const Shape& batch)
      : dense_(array.expand(matrices(batch, array.size(-2), array.size(-1))).contiguous()),
        rows_(array.size(-2)),
        columns_(array.size(-1)),
        data_(dense_.data<T>()) {}
  View<T> operator[](int64_t i) const {
    return View<T>(data_ + i * rows_ * columns_, rows_, columns_);
  }

 private:
  Array dense_;
  int64_t rows_, columns_;
  T* data_;
};

// Calls body(i) for each matrix; the first (by position) for which it gives false is named.
template <class Body>
void for_each_matrix(const char* op, const Shape& batch, const char* fault, Body&& body) {
  const int64_t count = batch.numel();
  std::mutex mutex;
  int64_t first = count;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (body(i)) continue;
      const std::scoped_lock lock(mutex);
      first = std::min(first, i);
    }
  });
  if (first == count) return;
  if (batch.empty()) fail(op, ": the matrix is ", fault);
  fail(op, ": matrix ", first, " of the batch ", batch, " is ", fault);
}

template <class Body>
void with_floats(const Array& a, Body&& body) {
  if (a.dtype() == kFloat64) return body(TypeTag<double>{});
  body(TypeTag<float>{});
}

// There are no kernels of solvers on GPUs: the host computes on a copy.
inline bool is_on_gpu(const Array& a) { return a.device().type == DeviceType::cuda; }

inline bool has_bytes(const Array& a) { return a.device().type != DeviceType::meta; }

inline void check_pair(const char* op, const Array& a, const Array& b) {
  check_input(op, b);
  check_same_device(op, a, b);
  check(a.dtype() == b.dtype(), op, ": matrix is ", a.dtype(), ", right side ", b.dtype(),
        "; convert with to()");
  check(a.size(-2) == b.size(-2), op, ": rows differ: ", a.shape(), " and ", b.shape());
}

}  // namespace hero::core::linalg
