// A sparse matrix along a dimension; its derivative is its transpose.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/windows/resample.h>
#include <hero/core/backend.h>

namespace hero {

namespace {

Array numbers(const std::vector<int64_t>& values, Device device) {
  const Array here = Array::empty({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), here.data<int64_t>());
  return here.to(device);
}

Array weights_as(const std::vector<double>& values, DType dtype, Device device) {
  const Array here = Array::empty({static_cast<int64_t>(values.size())}, kFloat64);
  std::copy(values.begin(), values.end(), here.data<double>());
  return here.to(dtype).to(device);
}

struct Resample : Op {
  int dim;
  std::shared_ptr<const detail::Resampling> matrix;
  Resample(int d, std::shared_ptr<const detail::Resampling> m) : dim(d), matrix(std::move(m)) {}
  const char* name() const override { return "resample"; }
  Array forward(const Array& x) {
    Shape shape = x.shape();
    shape[dim] = matrix->rows();
    const Array out = Array::empty(shape, x.dtype(), x.device());
    if (x.device() == kMeta || out.numel() == 0) return out;
    const core::SparseRows rows{numbers(matrix->starts, x.device()),
                                numbers(matrix->places, x.device()),
                                weights_as(matrix->weights, x.dtype(), x.device())};
    core::backend(x.device()).weigh(rows, x.contiguous(), dim, out);
    return out;
  }
  Grads backward(const Tensor& g) override {
    return {
        detail::resample(g, dim, std::make_shared<const detail::Resampling>(matrix->transposed()))};
  }
};

}  // namespace

namespace detail {

// Columns become rows; entries keep their order.
Resampling Resampling::transposed() const {
  Resampling result;
  result.columns = rows();
  std::vector<int64_t> count(static_cast<size_t>(columns) + 1, 0);
  for (int64_t place : places) ++count[static_cast<size_t>(place) + 1];
  for (size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
  result.starts = count;
  result.places.resize(places.size());
  result.weights.resize(places.size());
  for (int64_t row = 0; row < rows(); ++row) {
    for (int64_t at = starts[static_cast<size_t>(row)]; at < starts[static_cast<size_t>(row) + 1];
         ++at) {
      const auto from = static_cast<size_t>(at);
      const auto to = static_cast<size_t>(count[static_cast<size_t>(places[from])]++);
      result.places[to] = row;
      result.weights[to] = weights[from];
    }
  }
  return result;
}

Tensor resample(const Tensor& x, int dim, std::shared_ptr<const Resampling> rows) {
  return record(Resample(dim, std::move(rows)), x);
}

}  // namespace detail

}  // namespace hero
