// In-place operations. While recording, the out-of-place operation is recorded and its result
// copied into the tensor, so that values saved for backward are never in the overwritten memory.
#include <cmath>
#include <numbers>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_place.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/clamp.h>
#include <hero/autograd/ops/index/written.h>
#include <hero/core/array/promotion.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/overlap.h>

namespace hero {

namespace k = core::kernels;
using core::ScatterMode;
using detail::become, detail::Into, detail::wants, detail::write_in_place, detail::write_into;

namespace {

// Whether recorded views lead from `tensor` to a leaf that requires grad and has its memory.
bool views_leaf(const Tensor& tensor) {
  detail::Edge at = detail::gradient_edge(tensor);
  while (at.node) {
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(at.node.get())) {
      return leaf->leaf().data.storage_ref() == tensor.array().storage_ref();
    }
    const int viewed = at.node->viewed_input(at.index);
    at = viewed < 0 ? detail::Edge() : detail::Edge(at.node->input_edge(viewed));
  }
  return false;
}

}  // namespace

namespace detail {

void check_writable(const char* op, const Tensor& self) {
  check(!self.is_leaf() || !self.requires_grad(), op, ": a leaf of shape ", self.shape(),
        " that requires grad cannot be changed in place while recording; use NoGrad or clone()");
  check(!views_leaf(self) && !Recorder::shows_leaf(self), op, ": a view of shape ", self.shape(),
        " of a leaf that requires grad cannot be changed in place while recording; use NoGrad or "
        "clone()");
  core::check_no_overlap(op, self.array());
}

void overwrite(const char* op, const Array& array, const Array& result) {
  check(result.shape() == array.shape(), op, ": result of shape ", result.shape(),
        " does not fit into ", array.shape());
  check(can_store(result.dtype(), array.dtype()), op, ": result of ", result.dtype(),
        " cannot be stored in ", array.dtype(), "; convert with to()");
  core::check_no_overlap(op, array);
  core::backend(array.device()).run(core::call::Copy{result, array});
  array.storage().bump_version();
}

}  // namespace detail

namespace {

template <class F>
const Tensor& with_tensor(const char* op, const Tensor& self, const Tensor& other,
                          Tensor (*out_of_place)(const Tensor&, const Tensor&)) {
  return write_in_place(
      op, self, wants(op, other), [&] { return out_of_place(self, other); },
      [&](const Array& a) { core::map_into<F>(a, a, other.array()); });
}

template <class F>
const Tensor& with_scalar(const char* op, const Tensor& self, Scalar value,
                          Tensor (*out_of_place)(const Tensor&, Scalar)) {
  return write_in_place(
      op, self, false, [&] { return out_of_place(self, value); },
      [&](const Array& a) { core::map_into<F>(a, a, value); });
}

}  // namespace

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  if (alpha.real() == 1.0) return with_tensor<k::Add>("add_", *this, other, hero::add);
  const auto sum = [&] { return hero::add(*this, other, alpha); };
  if (!is_floating(dtype())) return detail::become("add_", *this, wants("add_", other), sum);
  return write_in_place("add_", *this, wants("add_", other), sum, [&](const Array& a) {
    core::map_into<k::Addcmul>(a, a, other.array(), alpha, Scalar(1));
  });
}
const Tensor& Tensor::add_(Scalar v) const {
  return with_scalar<k::Add>("add_", *this, v, hero::add);
}
const Tensor& Tensor::sub_(const Tensor& other) const {
  return with_tensor<k::Sub>("sub_", *this, other, hero::sub);
}
const Tensor& Tensor::sub_(Scalar v) const {
  return with_scalar<k::Sub>("sub_", *this, v, hero::sub);
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  return with_tensor<k::Mul>("mul_", *this, other, hero::mul);
}
const Tensor& Tensor::mul_(Scalar v) const {
  return with_scalar<k::Mul>("mul_", *this, v, hero::mul);
}
const Tensor& Tensor::div_(const Tensor& other) const {
  return with_tensor<k::Div>("div_", *this, other, hero::div);
}
const Tensor& Tensor::div_(Scalar v) const {
  return with_scalar<k::Div>("div_", *this, v, hero::div);
}

const Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) const {
  const detail::Bounds bounds = detail::clamp_bounds("clamp_", dtype(), low, high);
  return write_in_place(
      "clamp_", *this, false, [&] { return hero::clamp(*this, low, high); },
      [&](const Array& a) { core::map_into<k::Clamp>(a, a, bounds.low, bounds.high); });
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  check(source.defined(), "copy_: the source is undefined");
  check(broadcast_shapes("copy_", shape(), source.shape()) == shape(), "copy_: source of shape ",
        source.shape(), " does not fit into ", shape());
  const bool recorded = wants("copy_", source);
  return write_in_place(
      "copy_", *this, recorded,
      [&] {
        const Tensor from = source.to(dtype()).expand(shape());
        if (recorded) return from.clone();
        // What was here stays in the graph, with a gradient of zeros, as under fill_.
        return hero::where(Tensor(Array::ones({}, kBool, device())), from, *this);
      },
      [&](const Array& a) {
        core::check_no_overlap("copy_", a);
        // Overlapping memory would be overwritten before it is read.
        const bool shared = source.array().storage_ref() == a.storage_ref();
        core::backend(a.device())
            .run(core::call::Copy{shared ? source.array().clone() : source.array(), a});
        a.storage().bump_version();
      });
}

const Tensor& Tensor::fill_(Scalar value) const {
  check(fits(value, dtype()), "fill_: ", value, " does not fit ", dtype());
  return write_in_place(
      "fill_", *this, false,
      [&] {
        const Tensor all(Array::ones(shape(), kBool, device()));
        return hero::masked_fill(*this, all, value);
      },
      [&](const Array& a) {
        core::backend(a.device()).run(core::call::Fill{a, value});
        a.storage().bump_version();
      });
}

const Tensor& Tensor::zero_() const { return fill_(0); }

// Operations in place whose values are those of their counterparts: computed, then copied over.

// NOLINTBEGIN(bugprone-macro-parentheses): names of functions and of parameters
#define HERO_UNARY_IN_PLACE(f) \
  const Tensor& Tensor::f##_() const { return become(#f "_", *this, hero::f); }
#define HERO_BINARY_IN_PLACE(f, a, b)                                                  \
  const Tensor& Tensor::f##_(const Tensor& b) const {                                  \
    return become(#f "_", *this, wants(#f "_", b), [&] { return hero::f(*this, b); }); \
  }
#define HERO_NUMBER_IN_PLACE(f, a, b)                                       \
  const Tensor& Tensor::f##_(Scalar b) const {                              \
    return become(#f "_", *this, false, [&] { return hero::f(*this, b); }); \
  }
#include <hero/autograd/ops/elementwise/elementwise_list.h>
// NOLINTEND(bugprone-macro-parentheses)

const Tensor& Tensor::logit_(std::optional<double> eps) const {
  return become("logit_", *this, false, [&] { return hero::logit(*this, eps); });
}
const Tensor& Tensor::nan_to_num_() const {
  return become("nan_to_num_", *this, false, [&] { return hero::nan_to_num(*this); });
}
const Tensor& Tensor::round_(int64_t decimals) const {
  return become("round_", *this, false, [&] { return hero::round(*this, decimals); });
}
const Tensor& Tensor::div_(const Tensor& other, Rounding rounding) const {
  return become("div_", *this, wants("div_", other),
                [&] { return hero::div(*this, other, rounding); });
}
const Tensor& Tensor::div_(Scalar other, Rounding rounding) const {
  return become("div_", *this, false, [&] { return hero::div(*this, other, rounding); });
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  return become("sub_", *this, wants("sub_", other),
                [&] { return hero::sub(*this, other, alpha); });
}
const Tensor& Tensor::clamp_(const Tensor& low, const Tensor& high) const {
  return become("clamp_", *this, wants("clamp_", low) || wants("clamp_", high),
                [&] { return hero::clamp(*this, low, high); });
}
const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  return become("lerp_", *this, wants("lerp_", end),
                [&] { return hero::lerp(*this, end, weight); });
}
const Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) const {
  return become("lerp_", *this, wants("lerp_", end) || wants("lerp_", weight),
                [&] { return hero::lerp(*this, end, weight); });
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  return become("addcmul_", *this, wants("addcmul_", a) || wants("addcmul_", b),
                [&] { return hero::addcmul(*this, a, b, value); });
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return become("addcdiv_", *this, wants("addcdiv_", a) || wants("addcdiv_", b),
                [&] { return hero::addcdiv(*this, a, b, value); });
}
namespace {

// Whether x can be filled where a mask says so while the mask is read.
bool mask_lies_apart(const Array& x, const Tensor& mask) {
  return mask.defined() && mask.dtype() == kBool && mask.device() == x.device() &&
         broadcast_shapes("masked_fill_", x.shape(), mask.shape()) == x.shape() &&
         &mask.array().storage() != &x.storage();
}

template <class Value>
void fill_where(const Array& x, const Tensor& mask, const Value& value) {
  core::check_no_overlap("masked_fill_", x);
  core::map_into<core::kernels::Where>(x, mask.array(), value, x);
  x.storage().bump_version();
}

}  // namespace

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  return detail::write_in_place(
      "masked_fill_", *this, wants("masked_fill_", mask),
      [&] { return hero::masked_fill(*this, mask, value); },
      [&](const Array& array) {
        const bool direct = mask_lies_apart(array, mask) && fits(value, array.dtype());
        if (direct) return fill_where(array, mask, cut_to(value, array.dtype()));
        const NoGrad no_grad;
        detail::overwrite("masked_fill_", array, hero::masked_fill(*this, mask, value).array());
      });
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Tensor& value) const {
  return detail::write_in_place(
      "masked_fill_", *this, wants("masked_fill_", mask) || wants("masked_fill_", value),
      [&] { return hero::masked_fill(*this, mask, value); },
      [&](const Array& array) {
        const bool direct = mask_lies_apart(array, mask) && value.defined() && value.ndim() == 0 &&
                            value.device() == array.device() &&
                            &value.array().storage() != &array.storage();
        const NoGrad no_grad;
        if (direct) return fill_where(array, mask, value.to(array.dtype()).array());
        detail::overwrite("masked_fill_", array, hero::masked_fill(*this, mask, value).array());
      });
}
const Tensor& Tensor::tril_(int64_t diagonal) const {
  return become("tril_", *this, false, [&] { return hero::tril(*this, diagonal); });
}
const Tensor& Tensor::triu_(int64_t diagonal) const {
  return become("triu_", *this, false, [&] { return hero::triu(*this, diagonal); });
}
const Tensor& Tensor::cumsum_(int64_t dim) const {
  return become("cumsum_", *this, false, [&] { return hero::cumsum(*this, dim); });
}
const Tensor& Tensor::cumprod_(int64_t dim) const {
  return become("cumprod_", *this, false, [&] { return hero::cumprod(*this, dim); });
}
const Tensor& Tensor::fill_(const Tensor& value) const {
  check(value.ndim() == 0, "fill_: the value has shape ", value.shape(),
        "; it must be a single number without dimensions");
  return copy_(value);
}
const Tensor& Tensor::fill_diagonal_(Scalar value) const {
  check(ndim() == 2, "fill_diagonal_: needs a matrix: got shape ", shape());
  diagonal().fill_(value);
  return *this;
}

// Writing to places, and products that are added in place: computed, then copied over.

namespace {

// A number, as often as an index of `shape` wants it for x.
Tensor filling(const Shape& shape, Scalar value, const Tensor& x) {
  return full(shape, cut_to(value, x.dtype()), {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return write_into("scatter_", *this, wants("scatter_", index) || wants("scatter_", src),
                    [&](Into into) {
                      detail::check_defined("scatter", {{"index", index}, {"src", src}});
                      return detail::written(into, ScatterMode::assign, *this, dim, index, src);
                    });
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return write_into(
      "scatter_add_", *this, wants("scatter_add_", index) || wants("scatter_add_", src),
      [&](Into into) {
        const detail::Named named("scatter_add", {"x", *this}, {"index", index}, {"src", src});
        detail::check_defined("scatter_add", {{"index", index}, {"src", src}});
        return detail::written(into, ScatterMode::add, *this, dim, index, src);
      });
}
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                 double alpha) const {
  return write_into(
      "index_add_", *this, wants("index_add_", index) || wants("index_add_", src),
      [&](Into into) { return detail::index_add(into, *this, dim, index, src, alpha); });
}
const Tensor& Tensor::index_put_(const std::vector<Tensor>& indices, const Tensor& values,
                                 bool accumulate) const {
  return write_into("index_put_", *this, wants("index_put_", values), [&](Into into) {
    return detail::index_put(into, *this, indices, values, accumulate);
  });
}

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined("scatter", {{"index", index}});
  check(fits(value, dtype()), "scatter: ", value, " does not fit ", dtype());
  return scatter_(dim, index, filling(index.shape(), value, *this));
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Scalar value,
                               ScatterReduce reduce) const {
  detail::check_defined("scatter", {{"index", index}});
  check(fits(value, dtype()), "scatter: ", value, " does not fit ", dtype());
  return scatter_reduce_(dim, index, filling(index.shape(), value, *this), reduce);
}
const Tensor& Tensor::scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src,
                                      ScatterReduce reduce, bool include_self) const {
  return write_into("scatter_reduce_", *this, wants("scatter_reduce_", src), [&](Into into) {
    // Several operations save what was there.
    const Tensor before = into == Into::copy ? clone() : *this;
    return detail::scatter_reduce(into, before, dim, index, src, reduce, include_self);
  });
}
const Tensor& Tensor::put_(const Tensor& index, const Tensor& src, bool accumulate) const {
  return write_into("put_", *this, wants("put_", src),
                    [&](Into into) { return detail::put(into, *this, index, src, accumulate); });
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, Scalar value) const {
  return write_into("index_fill_", *this, false, [&](Into into) {
    if (into == Into::copy) return hero::index_fill(*this, dim, index, value);
    check(fits(value, dtype()), "index_fill: ", value, " does not fit ", dtype());
    return detail::index_fill(into, *this, dim, index, filling({}, value, *this));
  });
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, const Tensor& value) const {
  return write_into("index_fill_", *this, wants("index_fill_", value),
                    [&](Into into) { return detail::index_fill(into, *this, dim, index, value); });
}
const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return write_into("index_copy_", *this, wants("index_copy_", src),
                    [&](Into into) { return detail::index_copy(into, *this, dim, index, src); });
}
const Tensor& Tensor::addmm_(const Tensor& a, const Tensor& b) const { return addmm_(a, b, {}); }
const Tensor& Tensor::addmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return become("addmm_", *this, wants("addmm_", a) || wants("addmm_", b),
                [&] { return hero::addmm(*this, a, b, options); });
}
const Tensor& Tensor::addmv_(const Tensor& a, const Tensor& v) const { return addmv_(a, v, {}); }
const Tensor& Tensor::addmv_(const Tensor& a, const Tensor& v, const AddProduct& options) const {
  return become("addmv_", *this, wants("addmv_", a) || wants("addmv_", v),
                [&] { return hero::addmv(*this, a, v, options); });
}
const Tensor& Tensor::addr_(const Tensor& u, const Tensor& v) const { return addr_(u, v, {}); }
const Tensor& Tensor::addr_(const Tensor& u, const Tensor& v, const AddProduct& options) const {
  return become("addr_", *this, wants("addr_", u) || wants("addr_", v),
                [&] { return hero::addr(*this, u, v, options); });
}
const Tensor& Tensor::baddbmm_(const Tensor& a, const Tensor& b) const {
  return baddbmm_(a, b, {});
}
const Tensor& Tensor::baddbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return become("baddbmm_", *this, wants("baddbmm_", a) || wants("baddbmm_", b),
                [&] { return hero::baddbmm(*this, a, b, options); });
}
const Tensor& Tensor::addbmm_(const Tensor& a, const Tensor& b) const { return addbmm_(a, b, {}); }
const Tensor& Tensor::addbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const {
  return become("addbmm_", *this, wants("addbmm_", a) || wants("addbmm_", b),
                [&] { return hero::addbmm(*this, a, b, options); });
}

// Members that change a tensor's shape in place, and rare functions and draws in place.

namespace {

// `x` becomes the view, whether or not operations are recorded otherwise: values that were computed
// keep their history.
template <class View>
const Tensor& become_view(const char* op, const Tensor& x, const View& view) {
  check(x.defined(), op, ": the tensor is undefined");
  check(!x.is_leaf() || !x.requires_grad(), op, ": a leaf of shape ", x.shape(),
        " that requires grad cannot change its shape; use the view that the function without _ "
        "gives");
  const GradMode as_it_was(x.requires_grad());
  detail::Recorder::replace(x, view());
  return x;
}

// What several operations may save of x before it is written to.
Tensor kept(const Tensor& x) { return grad_enabled() ? hero::clone(x) : x; }

// Room for draws of x's shape, in which to compute with them before they are rounded.
Tensor room(const Tensor& x) {
  const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  return empty(x.shape(), {.dtype = dtype, .device = x.device()});
}

}  // namespace

const Tensor& Tensor::squeeze_() const {
  return become_view("squeeze_", *this, [&] { return hero::squeeze(*this); });
}
const Tensor& Tensor::squeeze_(int64_t dim) const {
  return become_view("squeeze_", *this, [&] { return hero::squeeze(*this, dim); });
}
const Tensor& Tensor::squeeze_(const std::vector<int64_t>& dims) const {
  return become_view("squeeze_", *this, [&] { return hero::squeeze(*this, dims); });
}
const Tensor& Tensor::unsqueeze_(int64_t dim) const {
  return become_view("unsqueeze_", *this, [&] { return hero::unsqueeze(*this, dim); });
}
const Tensor& Tensor::t_() const {
  return become_view("t_", *this, [&] { return t(); });
}
const Tensor& Tensor::transpose_(int64_t dim0, int64_t dim1) const {
  return become_view("transpose_", *this, [&] { return hero::transpose(*this, dim0, dim1); });
}
const Tensor& Tensor::swapaxes_(int64_t axis0, int64_t axis1) const {
  return become_view("swapaxes_", *this, [&] { return hero::swapaxes(*this, axis0, axis1); });
}
const Tensor& Tensor::swapdims_(int64_t dim0, int64_t dim1) const {
  return become_view("swapdims_", *this, [&] { return hero::swapdims(*this, dim0, dim1); });
}

const Tensor& Tensor::polygamma_(int64_t n) const {
  return become("polygamma_", *this, false, [&] { return hero::polygamma(n, *this); });
}
const Tensor& Tensor::mvlgamma_(int64_t p) const {
  return become("mvlgamma_", *this, false, [&] { return hero::multigammaln(kept(*this), p); });
}
const Tensor& Tensor::igamma_(const Tensor& x) const {
  return become("igamma_", *this, wants("igamma_", x), [&] { return hero::gammainc(*this, x); });
}
const Tensor& Tensor::igammac_(const Tensor& x) const {
  return become("igammac_", *this, wants("igammac_", x), [&] { return hero::gammaincc(*this, x); });
}
const Tensor& Tensor::nextafter_(const Tensor& towards) const {
  return become("nextafter_", *this, false, [&] { return hero::nextafter(*this, towards); });
}
const Tensor& Tensor::heaviside_(const Tensor& values) const {
  return become("heaviside_", *this, false, [&] { return hero::heaviside(*this, values); });
}
const Tensor& Tensor::renorm_(double p, int64_t dim, double maxnorm) const {
  return become("renorm_", *this, false,
                [&] { return hero::renorm(kept(*this), p, dim, maxnorm); });
}

const Tensor& Tensor::log_normal_(double mean, double std) const {
  check(is_floating(dtype()), "log_normal_: needs a floating dtype, not ", dtype());
  check(std > 0.0, "log_normal_: the standard deviation must be positive: ", std);
  return become("log_normal_", *this, false,
                [&] { return hero::exp(room(*this).normal_(mean, std)); });
}
const Tensor& Tensor::cauchy_(double median, double scale) const {
  check(is_floating(dtype()), "cauchy_: needs a floating dtype, not ", dtype());
  check(scale > 0.0, "cauchy_: the scale must be positive: ", scale);
  return become("cauchy_", *this, false, [&] {
    return hero::tan((room(*this).uniform_() - 0.5) * std::numbers::pi) * scale + median;
  });
}
const Tensor& Tensor::geometric_(double p) const {
  check(p > 0.0 && p < 1.0, "geometric_: the probability is not in (0, 1): ", p);
  return become("geometric_", *this, false, [&] {
    const Tensor trials = hero::ceil(room(*this).exponential_(-std::log1p(-p)));
    return hero::clamp_min(trials, 1.0).to(dtype());
  });
}

}  // namespace hero
