// Writing to places and adding products in place: computed, then copied over.
#include <hero/autograd/ops/detail/in_place_by_copy.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/products/products.h>

namespace hero {

using detail::become, detail::wants;

const Tensor& InPlaceMembers::scatter_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return become("scatter_", self(), wants("scatter_", index) || wants("scatter_", src),
                [&] { return hero::scatter(self(), dim, index, src); });
}
const Tensor& InPlaceMembers::scatter_add_(int64_t dim, const Tensor& index,
                                           const Tensor& src) const {
  return become("scatter_add_", self(), wants("scatter_add_", index) || wants("scatter_add_", src),
                [&] { return hero::scatter_add(self(), dim, index, src); });
}
const Tensor& InPlaceMembers::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                         double alpha) const {
  return become("index_add_", self(), wants("index_add_", index) || wants("index_add_", src),
                [&] { return hero::index_add(self(), dim, index, src, alpha); });
}
const Tensor& InPlaceMembers::index_put_(const std::vector<Tensor>& indices, const Tensor& values,
                                         bool accumulate) const {
  return become("index_put_", self(), wants("index_put_", values),
                [&] { return hero::index_put(self(), indices, values, accumulate); });
}

const Tensor& InPlaceMembers::scatter_(int64_t dim, const Tensor& index, Scalar value) const {
  return become("scatter_", self(), false,
                [&] { return hero::scatter(self(), dim, index, value); });
}
const Tensor& InPlaceMembers::scatter_(int64_t dim, const Tensor& index, Scalar value,
                                       ScatterReduce reduce) const {
  return become("scatter_", self(), wants("scatter_", index),
                [&] { return hero::scatter(self(), dim, index, value, reduce); });
}
const Tensor& InPlaceMembers::scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src,
                                              ScatterReduce reduce, bool include_self) const {
  return become("scatter_reduce_", self(), wants("scatter_reduce_", src), [&] {
    const Tensor before = grad_enabled() ? self().clone() : self();  // several operations save it
    return hero::scatter_reduce(before, dim, index, src, reduce, include_self);
  });
}
const Tensor& InPlaceMembers::masked_scatter_(const Tensor& mask, const Tensor& src) const {
  return become("masked_scatter_", self(), wants("masked_scatter_", src),
                [&] { return hero::masked_scatter(self(), mask, src); });
}
const Tensor& InPlaceMembers::put_(const Tensor& index, const Tensor& src, bool accumulate) const {
  return become("put_", self(), wants("put_", src),
                [&] { return hero::put(self(), index, src, accumulate); });
}
const Tensor& InPlaceMembers::index_fill_(int64_t dim, const Tensor& index, Scalar value) const {
  return become("index_fill_", self(), false,
                [&] { return hero::index_fill(self(), dim, index, value); });
}
const Tensor& InPlaceMembers::index_fill_(int64_t dim, const Tensor& index,
                                          const Tensor& value) const {
  return become("index_fill_", self(), wants("index_fill_", value),
                [&] { return hero::index_fill(self(), dim, index, value); });
}
const Tensor& InPlaceMembers::index_copy_(int64_t dim, const Tensor& index,
                                          const Tensor& src) const {
  return become("index_copy_", self(), wants("index_copy_", src),
                [&] { return hero::index_copy(self(), dim, index, src); });
}
const Tensor& InPlaceMembers::addmm_(const Tensor& a, const Tensor& b) const {
  return addmm_(a, b, {});
}
const Tensor& InPlaceMembers::addmm_(const Tensor& a, const Tensor& b,
                                     const AddProduct& options) const {
  return become("addmm_", self(), wants("addmm_", a) || wants("addmm_", b),
                [&] { return hero::addmm(self(), a, b, options); });
}
const Tensor& InPlaceMembers::addmv_(const Tensor& a, const Tensor& v) const {
  return addmv_(a, v, {});
}
const Tensor& InPlaceMembers::addmv_(const Tensor& a, const Tensor& v,
                                     const AddProduct& options) const {
  return become("addmv_", self(), wants("addmv_", a) || wants("addmv_", v),
                [&] { return hero::addmv(self(), a, v, options); });
}
const Tensor& InPlaceMembers::addr_(const Tensor& u, const Tensor& v) const {
  return addr_(u, v, {});
}
const Tensor& InPlaceMembers::addr_(const Tensor& u, const Tensor& v,
                                    const AddProduct& options) const {
  return become("addr_", self(), wants("addr_", u) || wants("addr_", v),
                [&] { return hero::addr(self(), u, v, options); });
}
const Tensor& InPlaceMembers::baddbmm_(const Tensor& a, const Tensor& b) const {
  return baddbmm_(a, b, {});
}
const Tensor& InPlaceMembers::baddbmm_(const Tensor& a, const Tensor& b,
                                       const AddProduct& options) const {
  return become("baddbmm_", self(), wants("baddbmm_", a) || wants("baddbmm_", b),
                [&] { return hero::baddbmm(self(), a, b, options); });
}
const Tensor& InPlaceMembers::addbmm_(const Tensor& a, const Tensor& b) const {
  return addbmm_(a, b, {});
}
const Tensor& InPlaceMembers::addbmm_(const Tensor& a, const Tensor& b,
                                      const AddProduct& options) const {
  return become("addbmm_", self(), wants("addbmm_", a) || wants("addbmm_", b),
                [&] { return hero::addbmm(self(), a, b, options); });
}

}  // namespace hero
