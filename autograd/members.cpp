// Tensor's members that only forward to the functions of ops.h.
#include <hero/autograd/ops.h>

namespace hero {

Tensor Tensor::sum(const Dims& dims, bool keepdim) const { return hero::sum(*this, dims, keepdim); }
Tensor Tensor::mean(const Dims& dims, bool keepdim) const {
  return hero::mean(*this, dims, keepdim);
}
Tensor Tensor::reshape(const Shape& shape) const { return hero::reshape(*this, shape); }
Tensor Tensor::view(const Shape& shape) const {
  const Array viewed = array().reshape(shape);
  check(viewed.storage_ref() == array().storage_ref(), "view: ", this->shape(), " with strides ",
        strides(), " cannot be seen as ", shape, "; use reshape()");
  return hero::reshape(*this, shape);
}
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  return hero::transpose(*this, dim0, dim1);
}
Tensor Tensor::permute(const Dims& dims) const { return hero::permute(*this, dims); }
Tensor Tensor::t() const { return ndim() < 2 ? *this : hero::transpose(*this, -2, -1); }
Tensor Tensor::expand(const Shape& shape) const { return hero::expand(*this, shape); }
Tensor Tensor::squeeze(int64_t dim) const { return hero::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int64_t dim) const { return hero::unsqueeze(*this, dim); }
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  return hero::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::slice(int64_t dim, int64_t start, int64_t stop, int64_t step) const {
  return hero::slice(*this, dim, start, stop, step);
}
Tensor Tensor::select(int64_t dim, int64_t index) const { return hero::select(*this, dim, index); }
Tensor Tensor::contiguous() const { return hero::contiguous(*this); }
Tensor Tensor::clone() const { return hero::clone(*this); }
Tensor Tensor::to(DType dtype) const { return hero::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return hero::to(*this, device); }
Tensor Tensor::matmul(const Tensor& other) const { return hero::matmul(*this, other); }

}  // namespace hero
