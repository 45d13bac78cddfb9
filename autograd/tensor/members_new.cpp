// TensorMembers: new tensors of this one's kind, and what kind that is.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/creation/creation.h>

namespace hero {

Tensor TensorMembers::new_empty(const Shape& shape) const { return new_empty(shape, {}); }
Tensor TensorMembers::new_empty(const Shape& shape, const LikeOptions& options) const {
  return empty(shape, detail::options_like(self(), options));
}
Tensor TensorMembers::new_zeros(const Shape& shape) const { return new_zeros(shape, {}); }
Tensor TensorMembers::new_zeros(const Shape& shape, const LikeOptions& options) const {
  return zeros(shape, detail::options_like(self(), options));
}
Tensor TensorMembers::new_ones(const Shape& shape) const { return new_ones(shape, {}); }
Tensor TensorMembers::new_ones(const Shape& shape, const LikeOptions& options) const {
  return ones(shape, detail::options_like(self(), options));
}
Tensor TensorMembers::new_full(const Shape& shape, Scalar value) const {
  return new_full(shape, value, {});
}
Tensor TensorMembers::new_full(const Shape& shape, Scalar value, const LikeOptions& options) const {
  return full(shape, value, detail::options_like(self(), options));
}
Tensor TensorMembers::type_as(const Tensor& other) const { return self().to(other.dtype()); }
int64_t TensorMembers::element_size() const { return item_size(self().dtype()); }
bool TensorMembers::is_floating_point() const { return is_floating(self().dtype()); }

Tensor TensorMembers::mT() const {
  check(self().ndim() >= 2, "mT: needs a matrix: got shape ", self().shape());
  return self().transpose(-1, -2);
}

}  // namespace hero
