#pragma once
// Other ways to call the functions of ops.h, which includes this file: with one dimension instead
// of a list, and with lists instead of options.
#include <hero/autograd/ops.h>

namespace hero {

namespace detail {
template <DimNumber I>
Dims dims_of(std::initializer_list<I> list) {
  Dims dims;
  for (I dim : list) dims.push_back(static_cast<int64_t>(dim));
  return dims;
}
}  // namespace detail

/// \name Reductions over one dimension: mean(x, -1), sum(x, 1, true)
/// \{
template <DimNumber I>
Tensor sum(const Tensor& x, I dim, bool keepdim = false) {
  return x.sum(dim, keepdim);
}
template <DimNumber I>
Tensor mean(const Tensor& x, I dim, bool keepdim = false) {
  return x.mean(dim, keepdim);
}
template <DimNumber I>
Tensor prod(const Tensor& x, I dim, bool keepdim = false) {
  return x.prod(dim, keepdim);
}
template <DimNumber I>
Tensor amax(const Tensor& x, I dim, bool keepdim = false) {
  return x.amax(dim, keepdim);
}
template <DimNumber I>
Tensor amin(const Tensor& x, I dim, bool keepdim = false) {
  return x.amin(dim, keepdim);
}
template <DimNumber I>
Tensor any(const Tensor& x, I dim, bool keepdim = false) {
  return x.any(dim, keepdim);
}
template <DimNumber I>
Tensor all(const Tensor& x, I dim, bool keepdim = false) {
  return x.all(dim, keepdim);
}
template <DimNumber I>
Tensor logsumexp(const Tensor& x, I dim, bool keepdim = false) {
  return x.logsumexp(dim, keepdim);
}
template <DimNumber I>
Tensor norm(const Tensor& x, double p, I dim, bool keepdim = false) {
  return x.norm(p, dim, keepdim);
}
/// \}

/// \name var and std, called like the other reductions: var(x, -1), std(x, {0, 1}, true)
/// The lists are templates, so that {} still means the options.
/// \{
template <std::same_as<Dims> D>
Tensor var(const Tensor& x, const D& dims, bool keepdim = false) {
  return var(x, VarOptions{.dims = dims, .keepdim = keepdim});
}
template <std::same_as<Dims> D>
Tensor std(const Tensor& x, const D& dims, bool keepdim = false) {
  return std(x, VarOptions{.dims = dims, .keepdim = keepdim});
}
template <DimNumber I>
Tensor var(const Tensor& x, I dim, bool keepdim = false) {
  return x.var(dim, keepdim);
}
template <DimNumber I>
Tensor std(const Tensor& x, I dim, bool keepdim = false) {
  return x.std(dim, keepdim);
}
template <DimNumber I>
Tensor var(const Tensor& x, std::initializer_list<I> dims, bool keepdim = false) {
  return x.var(detail::dims_of(dims), keepdim);
}
template <DimNumber I>
Tensor std(const Tensor& x, std::initializer_list<I> dims, bool keepdim = false) {
  return x.std(detail::dims_of(dims), keepdim);
}
/// \}

/// \name std under another name, since std(x) is ambiguous after `using namespace hero`
/// \{
inline Tensor stddev(const Tensor& x, const VarOptions& options = {}) {
  return hero::std(x, options);
}
template <DimNumber I>
Tensor stddev(const Tensor& x, I dim, bool keepdim = false) {
  return x.std(dim, keepdim);
}
template <DimNumber I>
Tensor stddev(const Tensor& x, std::initializer_list<I> dims, bool keepdim = false) {
  return x.std(detail::dims_of(dims), keepdim);
}
/// \}

}  // namespace hero
