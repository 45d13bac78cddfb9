// In-place operations. While recording, the values come from the recorded out-of-place operation
// and are copied over, so that what was saved for backward is never the overwritten memory.
#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/in_place_by_copy.h>
#include <hero/autograd/ops/elementwise/clamp.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/overlap.h>
#include <hero/core/promotion.h>

namespace hero {

namespace k = core::kernels;
using detail::wants, detail::write_in_place;

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
  core::backend(array.device()).copy(result, array);
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
        core::backend(a.device()).copy(shared ? source.array().clone() : source.array(), a);
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
        core::backend(a.device()).fill(a, value);
        a.storage().bump_version();
      });
}

const Tensor& Tensor::zero_() const { return fill_(0); }

}  // namespace hero
