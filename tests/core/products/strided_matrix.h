#pragma once
// Operands of products, in every layout that a product takes.
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace hero_test {

// How an operand lies in memory. general leaves gaps in both directions, backward has negative
// strides, repeated reads one row for all.
enum class Order { rows, columns, padded_rows, general, backward, repeated };

template <class T>
struct StridedMatrix {
  std::vector<T> values;
  int64_t rs = 0;
  int64_t cs = 0;
  int64_t origin = 0;

  const T* data() const { return values.data() + origin; }
  T* data() { return values.data() + origin; }
  T& at(int64_t i, int64_t j) { return data()[i * rs + j * cs]; }
  T at(int64_t i, int64_t j) const { return data()[i * rs + j * cs]; }
};

// Elements are drawn row by row. Gaps hold `gap`, a NaN, so that reading one shows.
template <class T, class Draw>
StridedMatrix<T> make_strided(int64_t rows, int64_t columns, Order order, T gap, Draw&& draw) {
  StridedMatrix<T> x;
  switch (order) {
    case Order::rows:
      x.rs = columns, x.cs = 1;
      break;
    case Order::columns:
      x.rs = 1, x.cs = rows;
      break;
    case Order::padded_rows:
      x.rs = columns + 3, x.cs = 1;
      break;
    case Order::general:
      x.rs = 3, x.cs = 3 * rows + 2;
      break;
    case Order::backward:
      x.rs = -columns, x.cs = -1;
      break;
    case Order::repeated:
      x.rs = 0, x.cs = 1;
      break;
  }
  const int64_t span = (rows - 1) * std::abs(x.rs) + (columns - 1) * std::abs(x.cs) + 1;
  x.values.assign(static_cast<size_t>(rows * columns == 0 ? 0 : span), gap);
  if (order == Order::backward && rows * columns != 0) x.origin = span - 1;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) x.at(i, j) = draw();
  }
  return x;
}

}  // namespace hero_test
