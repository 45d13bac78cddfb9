#pragma once
// Other ways to call functions of ops.h, which includes this file: var and std with dimensions
// instead of options, grad() of one output.
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

/// The gradients of one output with respect to several inputs, as grad({output}, inputs).
template <std::same_as<Tensor> T>
std::vector<Tensor> grad(const T& output, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, inputs, options);
}

}  // namespace hero
