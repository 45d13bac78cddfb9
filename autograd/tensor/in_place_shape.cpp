// Members that change a tensor's shape in place, and rare functions and draws in place.
#include <cmath>
#include <numbers>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/in_place_by_copy.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

using detail::become, detail::wants;

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

const Tensor& InPlaceMembers::squeeze_() const {
  return become_view("squeeze_", self(), [&] { return hero::squeeze(self()); });
}
const Tensor& InPlaceMembers::squeeze_(int64_t dim) const {
  return become_view("squeeze_", self(), [&] { return hero::squeeze(self(), dim); });
}
const Tensor& InPlaceMembers::squeeze_(const std::vector<int64_t>& dims) const {
  return become_view("squeeze_", self(), [&] { return hero::squeeze(self(), dims); });
}
const Tensor& InPlaceMembers::unsqueeze_(int64_t dim) const {
  return become_view("unsqueeze_", self(), [&] { return hero::unsqueeze(self(), dim); });
}
const Tensor& InPlaceMembers::t_() const {
  return become_view("t_", self(), [&] { return self().t(); });
}
const Tensor& InPlaceMembers::transpose_(int64_t dim0, int64_t dim1) const {
  return become_view("transpose_", self(), [&] { return hero::transpose(self(), dim0, dim1); });
}
const Tensor& InPlaceMembers::swapaxes_(int64_t axis0, int64_t axis1) const {
  return become_view("swapaxes_", self(), [&] { return hero::swapaxes(self(), axis0, axis1); });
}
const Tensor& InPlaceMembers::swapdims_(int64_t dim0, int64_t dim1) const {
  return become_view("swapdims_", self(), [&] { return hero::swapdims(self(), dim0, dim1); });
}

const Tensor& InPlaceMembers::polygamma_(int64_t n) const {
  return become("polygamma_", self(), false, [&] { return hero::polygamma(n, self()); });
}
const Tensor& InPlaceMembers::mvlgamma_(int64_t p) const {
  return become("mvlgamma_", self(), false, [&] { return hero::multigammaln(kept(self()), p); });
}
const Tensor& InPlaceMembers::igamma_(const Tensor& x) const {
  return become("igamma_", self(), wants("igamma_", x), [&] { return hero::gammainc(self(), x); });
}
const Tensor& InPlaceMembers::igammac_(const Tensor& x) const {
  return become("igammac_", self(), wants("igammac_", x),
                [&] { return hero::gammaincc(self(), x); });
}
const Tensor& InPlaceMembers::i0_() const { return become("i0_", self(), hero::i0); }
const Tensor& InPlaceMembers::gcd_(const Tensor& other) const {
  return become("gcd_", self(), false, [&] { return hero::gcd(self(), other); });
}
const Tensor& InPlaceMembers::lcm_(const Tensor& other) const {
  return become("lcm_", self(), false, [&] { return hero::lcm(self(), other); });
}
const Tensor& InPlaceMembers::ldexp_(const Tensor& exponent) const {
  return become("ldexp_", self(), wants("ldexp_", exponent),
                [&] { return hero::ldexp(self(), exponent); });
}
const Tensor& InPlaceMembers::nextafter_(const Tensor& towards) const {
  return become("nextafter_", self(), false, [&] { return hero::nextafter(self(), towards); });
}
const Tensor& InPlaceMembers::heaviside_(const Tensor& values) const {
  return become("heaviside_", self(), false, [&] { return hero::heaviside(self(), values); });
}
const Tensor& InPlaceMembers::renorm_(double p, int64_t dim, double maxnorm) const {
  return become("renorm_", self(), false,
                [&] { return hero::renorm(kept(self()), p, dim, maxnorm); });
}

const Tensor& InPlaceMembers::log_normal_(double mean, double std) const {
  check(is_floating(self().dtype()), "log_normal_: needs a floating dtype, not ", self().dtype());
  check(std > 0.0, "log_normal_: the standard deviation must be positive: ", std);
  return become("log_normal_", self(), false,
                [&] { return hero::exp(room(self()).normal_(mean, std)); });
}
const Tensor& InPlaceMembers::cauchy_(double median, double scale) const {
  check(is_floating(self().dtype()), "cauchy_: needs a floating dtype, not ", self().dtype());
  check(scale > 0.0, "cauchy_: the scale must be positive: ", scale);
  return become("cauchy_", self(), false, [&] {
    return hero::tan((room(self()).uniform_() - 0.5) * std::numbers::pi) * scale + median;
  });
}
const Tensor& InPlaceMembers::geometric_(double p) const {
  check(p > 0.0 && p < 1.0, "geometric_: the probability is not in (0, 1): ", p);
  return become("geometric_", self(), false, [&] {
    const Tensor trials = hero::ceil(room(self()).exponential_(-std::log1p(-p)));
    return hero::clamp_min(trials, 1.0).to(self().dtype());
  });
}

}  // namespace hero
