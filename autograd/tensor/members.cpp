// Tensor's members and operators that only forward to functions.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>

namespace hero {

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and of parameters
#define HERO_UNARY(f) \
  Tensor Tensor::f() const { return hero::f(*this); }
#define HERO_BINARY(f, a, b) \
  Tensor Tensor::f(const Tensor& b) const { return hero::f(*this, b); }
#define HERO_NUMBER(f, a, b) \
  Tensor Tensor::f(Scalar b) const { return hero::f(*this, b); }
#include <hero/autograd/ops/elementwise/elementwise_list.h>
// NOLINTEND(bugprone-macro-parentheses)

Tensor Tensor::view(const Shape& shape) const {
  const detail::Named named("view", {"x", *this});
  const Array viewed = array().reshape(shape);
  check(viewed.storage_ref() == array().storage_ref(), "view: ", this->shape(), " with strides ",
        strides(), " cannot be seen as ", shape, "; use reshape()");
  return hero::reshape(*this, shape);
}
Tensor Tensor::var(const Dims& dims) const { return hero::var(*this, VarOptions{.dims = dims}); }
Tensor Tensor::std(const Dims& dims) const { return hero::std(*this, VarOptions{.dims = dims}); }

Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return hero::clamp(*this, low, high);
}
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

Tensor Tensor::polygamma(int64_t n) const { return hero::polygamma(n, *this); }
Tensor Tensor::mvlgamma(int64_t p) const { return hero::multigammaln(*this, p); }
Tensor Tensor::igamma(const Tensor& x) const { return hero::gammainc(*this, x); }
Tensor Tensor::igammac(const Tensor& x) const { return hero::gammaincc(*this, x); }
Frexp Tensor::frexp() const { return hero::frexp(*this); }
Tensor Tensor::nextafter(const Tensor& towards) const { return hero::nextafter(*this, towards); }
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  return hero::where(condition, *this, other);
}
Tensor Tensor::sum_to_size(const Shape& shape) const { return hero::sum_to(*this, shape); }
Tensor Tensor::logit(std::optional<double> eps) const { return hero::logit(*this, eps); }
Tensor Tensor::nan_to_num() const { return hero::nan_to_num(*this); }
Tensor Tensor::round(int64_t decimals) const { return hero::round(*this, decimals); }
Tensor Tensor::div(const Tensor& other, Rounding rounding) const {
  return hero::div(*this, other, rounding);
}
Tensor Tensor::div(Scalar other, Rounding rounding) const {
  return hero::div(*this, other, rounding);
}
Tensor Tensor::clamp(const Tensor& low, const Tensor& high) const {
  return hero::clamp(*this, low, high);
}
Tensor Tensor::max(const Tensor& other) const { return hero::maximum(*this, other); }
Tensor Tensor::min(const Tensor& other) const { return hero::minimum(*this, other); }
Tensor Tensor::var(std::initializer_list<int64_t> dims) const { return var(Dims(dims)); }
Tensor Tensor::std(std::initializer_list<int64_t> dims) const { return std(Dims(dims)); }
Tensor Tensor::heaviside(const Tensor& values) const { return hero::heaviside(*this, values); }
Tensor Tensor::masked_fill(const Tensor& mask, const Tensor& value) const {
  return hero::masked_fill(*this, mask, value);
}
Tensor Tensor::movedim(const Dims& source, const Dims& destination) const {
  return hero::movedim(*this, source, destination);
}
Tensor Tensor::moveaxis(const Dims& source, const Dims& destination) const {
  return hero::moveaxis(*this, source, destination);
}
Tensor Tensor::swapaxes(int64_t axis0, int64_t axis1) const {
  return hero::swapaxes(*this, axis0, axis1);
}
Tensor Tensor::swapdims(int64_t dim0, int64_t dim1) const {
  return hero::swapdims(*this, dim0, dim1);
}
Tensor Tensor::squeeze(const std::vector<int64_t>& dims) const {
  return hero::squeeze(*this, dims);
}
Tensor Tensor::unflatten(int64_t dim, const Shape& sizes) const {
  return hero::unflatten(*this, dim, sizes);
}
Tensor Tensor::ravel() const { return hero::ravel(*this); }
Tensor Tensor::expand_as(const Tensor& other) const { return hero::expand_as(*this, other); }
Tensor Tensor::view_as(const Tensor& other) const { return hero::view_as(*this, other); }
Tensor Tensor::reshape_as(const Tensor& other) const { return hero::reshape_as(*this, other); }
Tensor Tensor::broadcast_to(const Shape& shape) const { return hero::broadcast_to(*this, shape); }
Tensor Tensor::tile(const Dims& repeats) const { return hero::tile(*this, repeats); }
Tensor Tensor::fliplr() const { return hero::fliplr(*this); }
Tensor Tensor::flipud() const { return hero::flipud(*this); }
Tensor Tensor::rot90(int64_t k, const Dims& dims) const { return hero::rot90(*this, k, dims); }
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim) const {
  return hero::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::repeat_interleave(int64_t repeats) const {
  return hero::repeat_interleave(*this, repeats);
}
Tensor Tensor::diag(int64_t offset) const { return hero::diag(*this, offset); }
Tensor Tensor::diag_embed(int64_t offset, int64_t dim1, int64_t dim2) const {
  return hero::diag_embed(*this, offset, dim1, dim2);
}
Tensor Tensor::diagflat(int64_t offset) const { return hero::diagflat(*this, offset); }
Tensor Tensor::trace() const { return hero::trace(*this); }
std::vector<Tensor> Tensor::tensor_split(int64_t sections, int64_t dim) const {
  return hero::tensor_split(*this, sections, dim);
}
std::vector<Tensor> Tensor::tensor_split(const std::vector<int64_t>& indices, int64_t dim) const {
  return hero::tensor_split(*this, indices, dim);
}
std::vector<Tensor> Tensor::tensor_split(const Tensor& indices_or_sections, int64_t dim) const {
  return hero::tensor_split(*this, indices_or_sections, dim);
}
std::vector<Tensor> Tensor::hsplit(int64_t sections) const { return hero::hsplit(*this, sections); }
std::vector<Tensor> Tensor::vsplit(int64_t sections) const { return hero::vsplit(*this, sections); }
std::vector<Tensor> Tensor::dsplit(int64_t sections) const { return hero::dsplit(*this, sections); }
Tensor Tensor::multinomial(int64_t num_samples, bool replacement) const {
  return hero::multinomial(*this, num_samples, replacement);
}
Tensor Tensor::bernoulli() const { return hero::bernoulli(*this); }

Tensor Tensor::new_empty(const Shape& shape) const { return new_empty(shape, {}); }
Tensor Tensor::new_empty(const Shape& shape, const LikeOptions& options) const {
  return empty(shape, detail::options_like(*this, options));
}
Tensor Tensor::new_zeros(const Shape& shape) const { return new_zeros(shape, {}); }
Tensor Tensor::new_zeros(const Shape& shape, const LikeOptions& options) const {
  return zeros(shape, detail::options_like(*this, options));
}
Tensor Tensor::new_ones(const Shape& shape) const { return new_ones(shape, {}); }
Tensor Tensor::new_ones(const Shape& shape, const LikeOptions& options) const {
  return ones(shape, detail::options_like(*this, options));
}
Tensor Tensor::new_full(const Shape& shape, Scalar value) const {
  return new_full(shape, value, {});
}
Tensor Tensor::new_full(const Shape& shape, Scalar value, const LikeOptions& options) const {
  return full(shape, value, detail::options_like(*this, options));
}
Tensor Tensor::type_as(const Tensor& other) const { return to(other.dtype()); }
int64_t Tensor::element_size() const { return item_size(dtype()); }
bool Tensor::is_floating_point() const { return is_floating(dtype()); }

Tensor Tensor::mT() const {
  check(ndim() >= 2, "mT: needs a matrix: got shape ", shape());
  return transpose(-1, -2);
}

Tensor Tensor::select_scatter(const Tensor& src, int64_t dim, int64_t index) const {
  return hero::select_scatter(*this, src, dim, index);
}
Tensor Tensor::slice_scatter(const Tensor& src, int64_t dim, int64_t start, int64_t stop,
                             int64_t step) const {
  return hero::slice_scatter(*this, src, dim, start, stop, step);
}
Tensor Tensor::diagonal_scatter(const Tensor& src, int64_t offset, int64_t dim1,
                                int64_t dim2) const {
  return hero::diagonal_scatter(*this, src, offset, dim1, dim2);
}
Tensor Tensor::index_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                            ScatterReduce reduce, bool include_self) const {
  return hero::index_reduce(*this, dim, index, src, reduce, include_self);
}
Tensor Tensor::addmm(const Tensor& a, const Tensor& b) const { return hero::addmm(*this, a, b); }
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::addmm(*this, a, b, options);
}
Tensor Tensor::addmv(const Tensor& a, const Tensor& v) const { return hero::addmv(*this, a, v); }
Tensor Tensor::addmv(const Tensor& a, const Tensor& v, const AddProduct& options) const {
  return hero::addmv(*this, a, v, options);
}
Tensor Tensor::addr(const Tensor& u, const Tensor& v) const { return hero::addr(*this, u, v); }
Tensor Tensor::addr(const Tensor& u, const Tensor& v, const AddProduct& options) const {
  return hero::addr(*this, u, v, options);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b) const {
  return hero::baddbmm(*this, a, b);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::baddbmm(*this, a, b, options);
}
Tensor Tensor::addbmm(const Tensor& a, const Tensor& b) const { return hero::addbmm(*this, a, b); }
Tensor Tensor::addbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return hero::addbmm(*this, a, b, options);
}
Tensor Tensor::renorm(double p, int64_t dim, double maxnorm) const {
  return hero::renorm(*this, p, dim, maxnorm);
}
Tensor Tensor::corrcoef() const { return hero::corrcoef(*this); }
Tensor Tensor::det() const { return hero::det(*this); }
Tensor Tensor::logdet() const { return hero::logdet(*this); }
SignLogDet Tensor::slogdet() const { return hero::slogdet(*this); }
Tensor Tensor::inverse() const { return hero::inv(*this); }
Tensor Tensor::pinverse() const { return hero::pinv(*this); }
Tensor Tensor::cholesky() const { return hero::cholesky(*this); }
QR Tensor::qr() const { return hero::qr(*this); }

Tensor Tensor::sum(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::sum(*this, dims, keepdim, dtype);
}
Tensor Tensor::mean(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::mean(*this, dims, keepdim, dtype);
}
Tensor Tensor::prod(const Dims& dims, bool keepdim, DType dtype) const {
  return hero::prod(*this, dims, keepdim, dtype);
}
Tensor Tensor::cumsum(int64_t dim, DType dtype) const { return hero::cumsum(*this, dim, dtype); }
Tensor Tensor::cumprod(int64_t dim, DType dtype) const { return hero::cumprod(*this, dim, dtype); }
Tensor Tensor::softmax(int64_t dim, DType dtype) const { return hero::softmax(*this, dim, dtype); }
Tensor Tensor::log_softmax(int64_t dim, DType dtype) const {
  return hero::log_softmax(*this, dim, dtype);
}
Tensor Tensor::nansum(const Dims& dims, bool keepdim) const {
  return hero::nansum(*this, dims, keepdim);
}
Tensor Tensor::nanmean(const Dims& dims, bool keepdim) const {
  return hero::nanmean(*this, dims, keepdim);
}
Tensor Tensor::count_nonzero(const Dims& dims) const { return hero::count_nonzero(*this, dims); }
MinMax Tensor::aminmax(std::optional<int64_t> dim, bool keepdim) const {
  return hero::aminmax(*this, dim, keepdim);
}
Tensor Tensor::median() const { return hero::median(*this); }
ValuesIndices Tensor::median(int64_t dim, bool keepdim) const {
  return hero::median(*this, dim, keepdim);
}
Tensor Tensor::nanmedian() const { return hero::nanmedian(*this); }
ValuesIndices Tensor::nanmedian(int64_t dim, bool keepdim) const {
  return hero::nanmedian(*this, dim, keepdim);
}
ValuesIndices Tensor::kthvalue(int64_t k, int64_t dim, bool keepdim) const {
  return hero::kthvalue(*this, k, dim, keepdim);
}
ValuesIndices Tensor::mode(int64_t dim, bool keepdim) const {
  return hero::mode(*this, dim, keepdim);
}
Tensor Tensor::quantile(double q, const QuantileOptions& options) const {
  return hero::quantile(*this, q, options);
}
Tensor Tensor::nanquantile(double q, const QuantileOptions& options) const {
  return hero::nanquantile(*this, q, options);
}
Tensor Tensor::msort() const { return hero::msort(*this); }
ValuesIndices Tensor::cummax(int64_t dim) const { return hero::cummax(*this, dim); }
ValuesIndices Tensor::cummin(int64_t dim) const { return hero::cummin(*this, dim); }
Tensor Tensor::logcumsumexp(int64_t dim) const { return hero::logcumsumexp(*this, dim); }
Tensor Tensor::diff(int64_t n, int64_t dim) const { return hero::diff(*this, n, dim); }
Tensor Tensor::take(const Tensor& index) const { return hero::take(*this, index); }
Tensor Tensor::put(const Tensor& index, const Tensor& src, bool accumulate) const {
  return hero::put(*this, index, src, accumulate);
}
Tensor Tensor::take_along_dim(const Tensor& index, std::optional<int64_t> dim) const {
  return hero::take_along_dim(*this, index, dim);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Scalar value) const {
  return hero::index_fill(*this, dim, index, value);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, const Tensor& value) const {
  return hero::index_fill(*this, dim, index, value);
}
Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& src) const {
  return hero::index_copy(*this, dim, index, src);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  return hero::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value, ScatterReduce reduce) const {
  return hero::scatter(*this, dim, index, value, reduce);
}
Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                              ScatterReduce reduce, bool include_self) const {
  return hero::scatter_reduce(*this, dim, index, src, reduce, include_self);
}
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& src) const {
  return hero::masked_scatter(*this, mask, src);
}
Tensor Tensor::argwhere() const { return hero::argwhere(*this); }
Unique Tensor::unique(const UniqueOptions& options) const { return hero::unique(*this, options); }
Unique Tensor::unique_consecutive(const UniqueOptions& options) const {
  return hero::unique_consecutive(*this, options);
}
Tensor Tensor::bincount(const Tensor& weights, int64_t minlength) const {
  return hero::bincount(*this, weights, minlength);
}
Tensor Tensor::bincount() const { return hero::bincount(*this); }
Tensor Tensor::histc(int64_t bins, double low, double high) const {
  return hero::histc(*this, bins, low, high);
}
Tensor Tensor::mv(const Tensor& v) const { return hero::mv(*this, v); }
Tensor Tensor::inner(const Tensor& other) const { return hero::inner(*this, other); }
Tensor Tensor::vdot(const Tensor& other) const { return hero::vdot(*this, other); }
Tensor Tensor::kron(const Tensor& other) const { return hero::kron(*this, other); }
Tensor Tensor::cross(const Tensor& other, std::optional<int64_t> dim) const {
  return hero::cross(*this, other, dim);
}
Tensor Tensor::matrix_power(int64_t n) const { return hero::matrix_power(*this, n); }
Tensor Tensor::matrix_exp() const { return hero::matrix_exp(*this); }

}  // namespace hero
