#pragma once
// Rows of a sparse matrix along a dimension: resampling and its derivative.
#include <memory>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::detail {

/// Row i has the weights [starts[i], starts[i + 1]) in columns of the same places.
struct Resampling {
  int64_t columns = 0;  ///< of the matrix: elements before
  std::vector<int64_t> starts = {0};
  std::vector<int64_t> places = {};
  std::vector<double> weights = {};

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }
  void add(int64_t column, double weight) {
    places.push_back(column);
    weights.push_back(weight);
  }
  void end_row() { starts.push_back(static_cast<int64_t>(places.size())); }
  Resampling transposed() const;
};

/// The matrix times each line of x, float32 or float64, along `dim`. Its derivative is the
/// transposed matrix.
Tensor resample(const Tensor& x, int dim, std::shared_ptr<const Resampling> rows);

}  // namespace hero::detail
