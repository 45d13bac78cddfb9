#include <algorithm>
#include <mutex>

#include <hero/core/functions/matrix_batch.h>
#include <hero/core/thread_pool.h>

namespace hero::core::linalg {

void check_input(const char* op, const Array& a) {
  check(a.defined(), op, ": the array is undefined");
  check(a.dtype() == kFloat32 || a.dtype() == kFloat64, op, ": matrix is ", a.dtype(),
        "; convert to float32 or float64");
  check(a.ndim() >= 2, op, ": needs a matrix: got shape ", a.shape());
}

void check_square(const char* op, const Array& a) {
  check_input(op, a);
  check(a.size(-1) == a.size(-2), op, ": matrix is not square: ", a.shape());
}

void check_pair(const char* op, const Array& a, const Array& b) {
  check_input(op, b);
  check_same_device(op, a, b);
  check(a.dtype() == b.dtype(), op, ": matrix is ", a.dtype(), ", right side ", b.dtype(),
        "; convert with to()");
  check(a.size(-2) == b.size(-2), op, ": rows differ: ", a.shape(), " and ", b.shape());
}

Shape batch_of(const Array& a) {
  Shape shape = a.shape();
  shape.pop_back();
  shape.pop_back();
  return shape;
}

Shape matrices(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

Batch::Batch(const Array& array, const Shape& batch)
    : dense_(array),
      batch_(batch),
      repeats_(batch_of(array) != batch),
      rows_(array.size(-2)),
      columns_(array.size(-1)) {
  turned_ = !dense_.is_contiguous() && dense_.t().is_contiguous();
  if (!turned_) dense_ = dense_.contiguous();
}

// The place among the array's own matrices of the one for matrix i of the batch.
int64_t Batch::place_of(int64_t i) const {
  const int own = dense_.ndim() - 2;
  int64_t place = 0, step = 1;
  for (int d = 1; d <= own; ++d) {
    const int64_t size = dense_.shape()[own - d], all = batch_[batch_.size() - d];
    if (size > 1) place += i % all * step;
    i /= all;
    step *= size;
  }
  return place;
}

void each_matrix(const Shape& batch, int64_t steps, const std::function<void(int64_t)>& body) {
  constexpr int64_t kSteps = 1 << 14;  // that are worth a chunk
  const int64_t grain = 1 + kSteps / std::max<int64_t>(steps, 1);
  parallel_for(batch.numel(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

std::optional<int64_t> first_without(const Shape& batch, int64_t steps,
                                     const std::function<bool(int64_t)>& body) {
  std::mutex mutex;
  std::optional<int64_t> first;
  each_matrix(batch, steps, [&](int64_t i) {
    if (body(i)) return;
    const std::scoped_lock lock(mutex);
    first = std::min(first.value_or(i), i);
  });
  return first;
}

void check_matrices(const char* op, const Shape& batch, const char* fault,
                    std::optional<int64_t> first) {
  if (!first) return;
  if (batch.empty()) fail(op, ": the matrix is ", fault);
  fail(op, ": matrix ", *first, " of the batch ", batch, " is ", fault);
}

}  // namespace hero::core::linalg
