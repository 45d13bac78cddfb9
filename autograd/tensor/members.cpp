// Tensor's members and operators that only forward to the functions of ops.h and nn_ops.h.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

Tensor Tensor::view(const Shape& shape) const {
  const detail::Named named("view", {"x", *this});
  const Array viewed = array().reshape(shape);
  check(viewed.storage_ref() == array().storage_ref(), "view: ", this->shape(), " with strides ",
        strides(), " cannot be seen as ", shape, "; use reshape()");
  return hero::reshape(*this, shape);
}
Tensor Tensor::var(const Dims& dims, bool keepdim) const {
  return hero::var(*this, VarOptions{.dims = dims, .keepdim = keepdim});
}
Tensor Tensor::std(const Dims& dims, bool keepdim) const {
  return hero::std(*this, VarOptions{.dims = dims, .keepdim = keepdim});
}

Tensor Tensor::neg() const { return hero::neg(*this); }
Tensor Tensor::abs() const { return hero::abs(*this); }
Tensor Tensor::sign() const { return hero::sign(*this); }
Tensor Tensor::exp() const { return hero::exp(*this); }
Tensor Tensor::exp2() const { return hero::exp2(*this); }
Tensor Tensor::expm1() const { return hero::expm1(*this); }
Tensor Tensor::log() const { return hero::log(*this); }
Tensor Tensor::log2() const { return hero::log2(*this); }
Tensor Tensor::log1p() const { return hero::log1p(*this); }
Tensor Tensor::sqrt() const { return hero::sqrt(*this); }
Tensor Tensor::rsqrt() const { return hero::rsqrt(*this); }
Tensor Tensor::square() const { return hero::square(*this); }
Tensor Tensor::reciprocal() const { return hero::reciprocal(*this); }
Tensor Tensor::sin() const { return hero::sin(*this); }
Tensor Tensor::cos() const { return hero::cos(*this); }
Tensor Tensor::tan() const { return hero::tan(*this); }
Tensor Tensor::atan() const { return hero::atan(*this); }
Tensor Tensor::sinh() const { return hero::sinh(*this); }
Tensor Tensor::cosh() const { return hero::cosh(*this); }
Tensor Tensor::tanh() const { return hero::tanh(*this); }
Tensor Tensor::sigmoid() const { return hero::sigmoid(*this); }
Tensor Tensor::logsigmoid() const { return hero::logsigmoid(*this); }
Tensor Tensor::erf() const { return hero::erf(*this); }
Tensor Tensor::relu() const { return hero::relu(*this); }
Tensor Tensor::relu6() const { return hero::relu6(*this); }
Tensor Tensor::silu() const { return hero::silu(*this); }
Tensor Tensor::mish() const { return hero::mish(*this); }
Tensor Tensor::softsign() const { return hero::softsign(*this); }
Tensor Tensor::hardswish() const { return hero::hardswish(*this); }
Tensor Tensor::floor() const { return hero::floor(*this); }
Tensor Tensor::ceil() const { return hero::ceil(*this); }
Tensor Tensor::round() const { return hero::round(*this); }
Tensor Tensor::logical_not() const { return hero::logical_not(*this); }
Tensor Tensor::isnan() const { return hero::isnan(*this); }
Tensor Tensor::isinf() const { return hero::isinf(*this); }
Tensor Tensor::isfinite() const { return hero::isfinite(*this); }
Tensor Tensor::leaky_relu(double negative_slope) const {
  return hero::leaky_relu(*this, negative_slope);
}
Tensor Tensor::elu(double alpha) const { return hero::elu(*this, alpha); }
Tensor Tensor::softplus(double beta, double threshold) const {
  return hero::softplus(*this, beta, threshold);
}
Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return hero::clamp(*this, low, high);
}
Tensor Tensor::add(const Tensor& other) const { return hero::add(*this, other); }
Tensor Tensor::add(Scalar other) const { return hero::add(*this, other); }
Tensor Tensor::sub(const Tensor& other) const { return hero::sub(*this, other); }
Tensor Tensor::sub(Scalar other) const { return hero::sub(*this, other); }
Tensor Tensor::mul(const Tensor& other) const { return hero::mul(*this, other); }
Tensor Tensor::mul(Scalar other) const { return hero::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return hero::div(*this, other); }
Tensor Tensor::div(Scalar other) const { return hero::div(*this, other); }
Tensor Tensor::pow(const Tensor& other) const { return hero::pow(*this, other); }
Tensor Tensor::pow(Scalar other) const { return hero::pow(*this, other); }
Tensor Tensor::remainder(const Tensor& other) const { return hero::remainder(*this, other); }
Tensor Tensor::remainder(Scalar other) const { return hero::remainder(*this, other); }
Tensor Tensor::maximum(const Tensor& other) const { return hero::maximum(*this, other); }
Tensor Tensor::minimum(const Tensor& other) const { return hero::minimum(*this, other); }
Tensor Tensor::atan2(const Tensor& other) const { return hero::atan2(*this, other); }
Tensor Tensor::logaddexp(const Tensor& other) const { return hero::logaddexp(*this, other); }
Tensor Tensor::lerp(const Tensor& end, double weight) const {
  return hero::lerp(*this, end, weight);
}
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  return hero::lerp(*this, end, weight);
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, double value) const {
  return hero::addcmul(*this, a, b, value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, double value) const {
  return hero::addcdiv(*this, a, b, value);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return hero::masked_fill(*this, mask, value);
}
Tensor Tensor::eq(const Tensor& other) const { return hero::eq(*this, other); }
Tensor Tensor::eq(Scalar other) const { return hero::eq(*this, other); }
Tensor Tensor::ne(const Tensor& other) const { return hero::ne(*this, other); }
Tensor Tensor::ne(Scalar other) const { return hero::ne(*this, other); }
Tensor Tensor::lt(const Tensor& other) const { return hero::lt(*this, other); }
Tensor Tensor::lt(Scalar other) const { return hero::lt(*this, other); }
Tensor Tensor::le(const Tensor& other) const { return hero::le(*this, other); }
Tensor Tensor::le(Scalar other) const { return hero::le(*this, other); }
Tensor Tensor::gt(const Tensor& other) const { return hero::gt(*this, other); }
Tensor Tensor::gt(Scalar other) const { return hero::gt(*this, other); }
Tensor Tensor::ge(const Tensor& other) const { return hero::ge(*this, other); }
Tensor Tensor::ge(Scalar other) const { return hero::ge(*this, other); }
Tensor Tensor::logical_and(const Tensor& other) const { return hero::logical_and(*this, other); }
Tensor Tensor::logical_or(const Tensor& other) const { return hero::logical_or(*this, other); }
Tensor Tensor::logical_xor(const Tensor& other) const { return hero::logical_xor(*this, other); }
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return hero::isclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return hero::allclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& other) const { return hero::equal(*this, other); }
Tensor Tensor::sum(const Dims& dims, bool keepdim) const { return hero::sum(*this, dims, keepdim); }
Tensor Tensor::mean(const Dims& dims, bool keepdim) const {
  return hero::mean(*this, dims, keepdim);
}
Tensor Tensor::prod(const Dims& dims, bool keepdim) const {
  return hero::prod(*this, dims, keepdim);
}
Tensor Tensor::amax(const Dims& dims, bool keepdim) const {
  return hero::amax(*this, dims, keepdim);
}
Tensor Tensor::amin(const Dims& dims, bool keepdim) const {
  return hero::amin(*this, dims, keepdim);
}
Tensor Tensor::any(const Dims& dims, bool keepdim) const { return hero::any(*this, dims, keepdim); }
Tensor Tensor::all(const Dims& dims, bool keepdim) const { return hero::all(*this, dims, keepdim); }
Tensor Tensor::logsumexp(const Dims& dims, bool keepdim) const {
  return hero::logsumexp(*this, dims, keepdim);
}
Tensor Tensor::norm(double p, const Dims& dims, bool keepdim) const {
  return hero::norm(*this, p, dims, keepdim);
}
Tensor Tensor::var() const { return hero::var(*this); }
Tensor Tensor::var(const VarOptions& options) const { return hero::var(*this, options); }
Tensor Tensor::std() const { return hero::std(*this); }
Tensor Tensor::std(const VarOptions& options) const { return hero::std(*this, options); }
Tensor Tensor::max() const { return hero::max(*this); }
ValuesIndices Tensor::max(int64_t dim, bool keepdim) const {
  return hero::max(*this, dim, keepdim);
}
Tensor Tensor::min() const { return hero::min(*this); }
ValuesIndices Tensor::min(int64_t dim, bool keepdim) const {
  return hero::min(*this, dim, keepdim);
}
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim) const {
  return hero::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim) const {
  return hero::argmin(*this, dim, keepdim);
}
Tensor Tensor::cumsum(int64_t dim) const { return hero::cumsum(*this, dim); }
Tensor Tensor::cumprod(int64_t dim) const { return hero::cumprod(*this, dim); }
Tensor Tensor::softmax(int64_t dim) const { return hero::softmax(*this, dim); }
Tensor Tensor::log_softmax(int64_t dim) const { return hero::log_softmax(*this, dim); }
ValuesIndices Tensor::sort(int64_t dim, bool descending) const {
  return hero::sort(*this, dim, descending);
}
Tensor Tensor::argsort(int64_t dim, bool descending) const {
  return hero::argsort(*this, dim, descending);
}
ValuesIndices Tensor::topk(int64_t k, int64_t dim, bool largest) const {
  return hero::topk(*this, k, dim, largest);
}
Tensor Tensor::reshape(const Shape& shape) const { return hero::reshape(*this, shape); }
Tensor Tensor::permute(const Dims& dims) const { return hero::permute(*this, dims); }
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  return hero::transpose(*this, dim0, dim1);
}
Tensor Tensor::t() const {
  detail::check_defined("t", {{"x", *this}});
  return ndim() < 2 ? *this : hero::transpose(*this, -2, -1);
}
Tensor Tensor::expand(const Shape& shape) const { return hero::expand(*this, shape); }
Tensor Tensor::squeeze() const { return hero::squeeze(*this); }
Tensor Tensor::squeeze(int64_t dim) const { return hero::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int64_t dim) const { return hero::unsqueeze(*this, dim); }
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  return hero::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::slice(int64_t dim, int64_t start, int64_t stop, int64_t step) const {
  return hero::slice(*this, dim, start, stop, step);
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return hero::narrow(*this, dim, start, length);
}
Tensor Tensor::select(int64_t dim, int64_t index) const { return hero::select(*this, dim, index); }
Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const {
  return hero::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::unfold(int64_t dim, int64_t size, int64_t step) const {
  return hero::unfold(*this, dim, size, step);
}
Tensor Tensor::flip(const Dims& dims) const { return hero::flip(*this, dims); }
Tensor Tensor::roll(const Dims& shifts, const Dims& dims) const {
  return hero::roll(*this, shifts, dims);
}
Tensor Tensor::repeat(const Dims& repeats) const { return hero::repeat(*this, repeats); }
Tensor Tensor::repeat_interleave(int64_t repeats, int64_t dim) const {
  return hero::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::tril(int64_t diagonal) const { return hero::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return hero::triu(*this, diagonal); }
std::vector<Tensor> Tensor::split(int64_t size, int64_t dim) const {
  return hero::split(*this, size, dim);
}
std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t dim) const {
  return hero::split(*this, sizes, dim);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim) const {
  return hero::chunk(*this, chunks, dim);
}
std::vector<Tensor> Tensor::unbind(int64_t dim) const { return hero::unbind(*this, dim); }
Tensor Tensor::contiguous() const { return hero::contiguous(*this); }
Tensor Tensor::clone() const { return hero::clone(*this); }
Tensor Tensor::to(DType dtype) const { return hero::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return hero::to(*this, device); }
Tensor Tensor::gather(int64_t dim, const Tensor& index) const {
  return hero::gather(*this, dim, index);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& src) const {
  return hero::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src) const {
  return hero::scatter_add(*this, dim, index, src);
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
  return hero::index_select(*this, dim, index);
}
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& src, double alpha) const {
  return hero::index_add(*this, dim, index, src, alpha);
}
Tensor Tensor::index(const std::vector<Tensor>& indices) const {
  return hero::index(*this, indices);
}
Tensor Tensor::index_put(const std::vector<Tensor>& indices, const Tensor& values,
                         bool accumulate) const {
  return hero::index_put(*this, indices, values, accumulate);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return hero::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return hero::nonzero(*this); }
Tensor Tensor::matmul(const Tensor& other) const { return hero::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return hero::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return hero::bmm(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return hero::dot(*this, other); }
Tensor Tensor::outer(const Tensor& other) const { return hero::outer(*this, other); }

Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
const Tensor& operator+=(const Tensor& a, Scalar b) { return a.add_(b); }
const Tensor& operator-=(const Tensor& a, Scalar b) { return a.sub_(b); }
const Tensor& operator*=(const Tensor& a, const Tensor& b) { return a.mul_(b); }
const Tensor& operator/=(const Tensor& a, const Tensor& b) { return a.div_(b); }
const Tensor& operator/=(const Tensor& a, Scalar b) { return a.div_(b); }

}  // namespace hero
