// TensorMembers: what only forwards to functions of product_ops.h, linalg.h and index_ops.h.
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>

namespace hero {

Tensor TensorMembers::select_scatter(const Tensor& src, int64_t dim, int64_t index) const {
  return hero::select_scatter(self(), src, dim, index);
}
Tensor TensorMembers::slice_scatter(const Tensor& src, int64_t dim, int64_t start, int64_t stop,
                                    int64_t step) const {
  return hero::slice_scatter(self(), src, dim, start, stop, step);
}
Tensor TensorMembers::diagonal_scatter(const Tensor& src, int64_t offset, int64_t dim1,
                                       int64_t dim2) const {
  return hero::diagonal_scatter(self(), src, offset, dim1, dim2);
}
Tensor TensorMembers::index_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                                   ScatterReduce reduce, bool include_self) const {
  return hero::index_reduce(self(), dim, index, src, reduce, include_self);
}
Tensor TensorMembers::addmm(const Tensor& a, const Tensor& b) const {
  return hero::addmm(self(), a, b);
}
Tensor TensorMembers::addmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::addmm(self(), a, b, options);
}
Tensor TensorMembers::addmv(const Tensor& a, const Tensor& v) const {
  return hero::addmv(self(), a, v);
}
Tensor TensorMembers::addmv(const Tensor& a, const Tensor& v, const AddProduct& options) const {
  return hero::addmv(self(), a, v, options);
}
Tensor TensorMembers::addr(const Tensor& u, const Tensor& v) const {
  return hero::addr(self(), u, v);
}
Tensor TensorMembers::addr(const Tensor& u, const Tensor& v, const AddProduct& options) const {
  return hero::addr(self(), u, v, options);
}
Tensor TensorMembers::baddbmm(const Tensor& a, const Tensor& b) const {
  return hero::baddbmm(self(), a, b);
}
Tensor TensorMembers::baddbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::baddbmm(self(), a, b, options);
}
Tensor TensorMembers::addbmm(const Tensor& a, const Tensor& b) const {
  return hero::addbmm(self(), a, b);
}
Tensor TensorMembers::addbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::addbmm(self(), a, b, options);
}
Tensor TensorMembers::renorm(double p, int64_t dim, double maxnorm) const {
  return hero::renorm(self(), p, dim, maxnorm);
}
Tensor TensorMembers::corrcoef() const { return hero::corrcoef(self()); }
Tensor TensorMembers::det() const { return hero::det(self()); }
Tensor TensorMembers::logdet() const { return hero::logdet(self()); }
SignLogDet TensorMembers::slogdet() const { return hero::slogdet(self()); }
Tensor TensorMembers::inverse() const { return hero::inv(self()); }
Tensor TensorMembers::pinverse() const { return hero::pinv(self()); }
Tensor TensorMembers::cholesky() const { return hero::cholesky(self()); }
QR TensorMembers::qr() const { return hero::qr(self()); }

}  // namespace hero
