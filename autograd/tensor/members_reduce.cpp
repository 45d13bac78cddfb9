// TensorMembers: what only forwards to functions that reduce, choose by place or multiply.
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>

namespace hero {

Tensor TensorMembers::sum(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::sum(self(), dims, keepdim, dtype);
}
Tensor TensorMembers::mean(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::mean(self(), dims, keepdim, dtype);
}
Tensor TensorMembers::prod(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::prod(self(), dims, keepdim, dtype);
}
Tensor TensorMembers::cumsum(int64_t dim, DType dtype) const {
  return hero::cumsum(self(), dim, dtype);
}
Tensor TensorMembers::cumprod(int64_t dim, DType dtype) const {
  return hero::cumprod(self(), dim, dtype);
}
Tensor TensorMembers::softmax(int64_t dim, DType dtype) const {
  return hero::softmax(self(), dim, dtype);
}
Tensor TensorMembers::log_softmax(int64_t dim, DType dtype) const {
  return hero::log_softmax(self(), dim, dtype);
}
Tensor TensorMembers::nansum(const Dims& dims, bool keepdim) const {
  return hero::nansum(self(), dims, keepdim);
}
Tensor TensorMembers::nanmean(const Dims& dims, bool keepdim) const {
  return hero::nanmean(self(), dims, keepdim);
}
Tensor TensorMembers::count_nonzero(const Dims& dims) const {
  return hero::count_nonzero(self(), dims);
}
MinMax TensorMembers::aminmax(std::optional<int64_t> dim, bool keepdim) const {
  return hero::aminmax(self(), dim, keepdim);
}
Tensor TensorMembers::median() const { return hero::median(self()); }
ValuesIndices TensorMembers::median(int64_t dim, bool keepdim) const {
  return hero::median(self(), dim, keepdim);
}
Tensor TensorMembers::nanmedian() const { return hero::nanmedian(self()); }
ValuesIndices TensorMembers::nanmedian(int64_t dim, bool keepdim) const {
  return hero::nanmedian(self(), dim, keepdim);
}
ValuesIndices TensorMembers::kthvalue(int64_t k, int64_t dim, bool keepdim) const {
  return hero::kthvalue(self(), k, dim, keepdim);
}
ValuesIndices TensorMembers::mode(int64_t dim, bool keepdim) const {
  return hero::mode(self(), dim, keepdim);
}
Tensor TensorMembers::quantile(double q, const QuantileOptions& options) const {
  return hero::quantile(self(), q, options);
}
Tensor TensorMembers::nanquantile(double q, const QuantileOptions& options) const {
  return hero::nanquantile(self(), q, options);
}
Tensor TensorMembers::msort() const { return hero::msort(self()); }
ValuesIndices TensorMembers::cummax(int64_t dim) const { return hero::cummax(self(), dim); }
ValuesIndices TensorMembers::cummin(int64_t dim) const { return hero::cummin(self(), dim); }
Tensor TensorMembers::logcumsumexp(int64_t dim) const { return hero::logcumsumexp(self(), dim); }
Tensor TensorMembers::diff(int64_t n, int64_t dim) const { return hero::diff(self(), n, dim); }
Tensor TensorMembers::take(const Tensor& index) const { return hero::take(self(), index); }
Tensor TensorMembers::put(const Tensor& index, const Tensor& src, bool accumulate) const {
  return hero::put(self(), index, src, accumulate);
}
Tensor TensorMembers::take_along_dim(const Tensor& index, std::optional<int64_t> dim) const {
  return hero::take_along_dim(self(), index, dim);
}
Tensor TensorMembers::index_fill(int64_t dim, const Tensor& index, Scalar value) const {
  return hero::index_fill(self(), dim, index, value);
}
Tensor TensorMembers::index_fill(int64_t dim, const Tensor& index, const Tensor& value) const {
  return hero::index_fill(self(), dim, index, value);
}
Tensor TensorMembers::index_copy(int64_t dim, const Tensor& index, const Tensor& src) const {
  return hero::index_copy(self(), dim, index, src);
}
Tensor TensorMembers::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  return hero::scatter(self(), dim, index, value);
}
Tensor TensorMembers::scatter(int64_t dim, const Tensor& index, Scalar value,
                              ScatterReduce reduce) const {
  return hero::scatter(self(), dim, index, value, reduce);
}
Tensor TensorMembers::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                                     ScatterReduce reduce, bool include_self) const {
  return hero::scatter_reduce(self(), dim, index, src, reduce, include_self);
}
Tensor TensorMembers::masked_scatter(const Tensor& mask, const Tensor& src) const {
  return hero::masked_scatter(self(), mask, src);
}
Tensor TensorMembers::argwhere() const { return hero::argwhere(self()); }
Unique TensorMembers::unique(const UniqueOptions& options) const {
  return hero::unique(self(), options);
}
Unique TensorMembers::unique_consecutive(const UniqueOptions& options) const {
  return hero::unique_consecutive(self(), options);
}
Tensor TensorMembers::bincount(const Tensor& weights, int64_t minlength) const {
  return hero::bincount(self(), weights, minlength);
}
Tensor TensorMembers::bincount() const { return hero::bincount(self()); }
Tensor TensorMembers::histc(int64_t bins, double low, double high) const {
  return hero::histc(self(), bins, low, high);
}
Tensor TensorMembers::mv(const Tensor& v) const { return hero::mv(self(), v); }
Tensor TensorMembers::inner(const Tensor& other) const { return hero::inner(self(), other); }
Tensor TensorMembers::vdot(const Tensor& other) const { return hero::vdot(self(), other); }
Tensor TensorMembers::kron(const Tensor& other) const { return hero::kron(self(), other); }
Tensor TensorMembers::cross(const Tensor& other, int64_t dim) const {
  return hero::cross(self(), other, dim);
}
Tensor TensorMembers::matrix_power(int64_t n) const { return hero::matrix_power(self(), n); }
Tensor TensorMembers::matrix_exp() const { return hero::matrix_exp(self()); }

}  // namespace hero
