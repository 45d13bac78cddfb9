#pragma once
// Reductions, order statistics, running functions, differences and integrals. Reductions are over
// `dims`, or over all dimensions when empty; negative dimensions count from the end. Gradients at
// kinks: that of norm is 0 at 0; equal values of amax and amin share the gradient evenly.
#include <optional>
#include <vector>

#include <hero/autograd/ops/elementwise/elementwise.h>

namespace hero {

/// \name Reductions over `dims`, or over all dimensions when empty
/// \{
/// \snippet test_examples_tensors.cpp sum
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Whether any element is not zero. The result is bool, or uint8 for uint8, as in PyTorch.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow.
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false);
/// Options of var(), std() and their like.
struct VarOptions {
  Dims dims = {};                         ///< the dimensions that are reduced; all when empty
  bool keepdim = false;                   ///< true: reduced dimensions stay, with size 1
  bool unbiased = true;                   ///< true: divide by n - 1; false: by n
  std::optional<double> correction = {};  ///< divide by n - correction, whatever unbiased says
};
Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor std(const Tensor& x, const VarOptions& options = {});
/// What std_mean() returns.
struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const VarOptions& options = {});
/// The p-norm (sum |x|^p)^(1/p). p may be infinity, for the largest magnitude, or 0, for the number
/// of non-zero elements.
Tensor norm(const Tensor& x, double p = 2.0, const Dims& dims = {}, bool keepdim = false);
/// Elements and their positions.
struct ValuesIndices {
  Tensor values, indices;  ///< indices are int64, without gradient
};
/// The largest element along dim and the position of its first occurrence.
/// \snippet test_examples_tensors.cpp max
ValuesIndices max(const Tensor& x, int64_t dim, bool keepdim = false);
ValuesIndices min(const Tensor& x, int64_t dim, bool keepdim = false);
/// The largest of all elements; equal ones share the gradient evenly.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor cumprod(const Tensor& x, int64_t dim);
/// Sorts along dim. The sort is stable, and NaN counts as the largest number.
ValuesIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// \snippet test_examples_tensors.cpp topk
ValuesIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);
/// Sums x over the dimensions in which `shape` broadcasts to x's shape: the transpose of expand().
Tensor sum_to(const Tensor& x, const Shape& shape);
/// \}

namespace detail {
template <DimNumber I>
Dims dims_of(std::initializer_list<I> list) {
  Dims dims;
  for (I dim : list) dims.push_back(static_cast<int64_t>(dim));
  return dims;
}
}  // namespace detail

/// \name var and std over some dimensions: var(x, -1), std(x, {0, 1})
/// PyTorch's second argument says there whether they are unbiased; here that, and keepdim, are
/// options. The lists are templates, so that {} still means the options.
/// \{
template <std::same_as<Dims> D>
Tensor var(const Tensor& x, const D& dims) {
  return var(x, VarOptions{.dims = dims});
}
template <std::same_as<Dims> D>
Tensor std(const Tensor& x, const D& dims) {
  return std(x, VarOptions{.dims = dims});
}
template <DimNumber I>
Tensor var(const Tensor& x, I dim) {
  return x.var(dim);
}
template <DimNumber I>
Tensor std(const Tensor& x, I dim) {
  return x.std(dim);
}
template <DimNumber I>
Tensor var(const Tensor& x, std::initializer_list<I> dims) {
  return x.var(detail::dims_of(dims));
}
template <DimNumber I>
Tensor std(const Tensor& x, std::initializer_list<I> dims) {
  return x.std(detail::dims_of(dims));
}
/// \}

/// \name std under another name, since std(x) is ambiguous after `using namespace hero`
/// \{
inline Tensor stddev(const Tensor& x, const VarOptions& options = {}) {
  return hero::std(x, options);
}
template <DimNumber I>
Tensor stddev(const Tensor& x, I dim) {
  return x.std(dim);
}
template <DimNumber I>
Tensor stddev(const Tensor& x, std::initializer_list<I> dims) {
  return x.std(detail::dims_of(dims));
}
/// \}

/// \name Reductions in a dtype
/// x is converted first, as PyTorch's `dtype=` does, and the result has that dtype.
/// \{
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
Tensor sum(const Tensor& x, DType dtype);
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
Tensor mean(const Tensor& x, DType dtype);
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
Tensor prod(const Tensor& x, DType dtype);
Tensor cumsum(const Tensor& x, int64_t dim, DType dtype);
Tensor cumprod(const Tensor& x, int64_t dim, DType dtype);
Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim, DType dtype);
/// The p-norm, as norm() of x converted to the floating dtype first.
Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim, DType dtype);
/// \}

/// \name Without NaN, and counts
/// \{
Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The mean of all elements that are not NaN; NaN if there are none.
Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// The number of elements that are not 0, int64.
Tensor count_nonzero(const Tensor& x, const Dims& dims = {});
/// What aminmax() returns.
struct MinMax {
  Tensor min, max;
};
/// amin() and amax() over one dimension, or over all.
MinMax aminmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
/// What var_mean() returns.
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const VarOptions& options = {});
/// \}

/// \name Order statistics
/// NaN counts as the largest number. Indices are int64; among equal elements it is not specified
/// which one they name.
/// \{
/// The median, which is the lower of the two elements in the middle, and NaN if there is a NaN.
/// Without a dimension, equal elements share the gradient.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, int64_t dim, bool keepdim = false);
/// The median of all elements that are not NaN.
Tensor nanmedian(const Tensor& x);
ValuesIndices nanmedian(const Tensor& x, int64_t dim, bool keepdim = false);
/// The k-th smallest element along dim, k >= 1.
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);
/// The most frequent element (the smallest, if there are several) and its last position.
ValuesIndices mode(const Tensor& x, int64_t dim = -1, bool keepdim = false);
/// How quantile() computes a value between two elements.
enum class Quantile { linear, lower, higher, midpoint, nearest };
/// Options of quantile() and nanquantile().
struct QuantileOptions {
  std::optional<int64_t> dim = {};            ///< the dimension; all elements when absent
  bool keepdim = false;                       ///< true: the reduced dimension stays, with size 1
  Quantile interpolation = Quantile::linear;  ///< the rule between two elements
};
/// The number below which a share q in [0, 1] of the elements lies; between two elements,
/// `interpolation` decides. It is NaN if there is a NaN. For q [Q] the result has a first dimension
/// of size Q.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/// The quantile of all elements that are not NaN.
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/// sort(x, 0).values
Tensor msort(const Tensor& x);
/// \}

/// \name Running functions along a dimension
/// \{
/// The largest element so far and its last position; NaN as soon as there is a NaN.
ValuesIndices cummax(const Tensor& x, int64_t dim);
ValuesIndices cummin(const Tensor& x, int64_t dim);
/// log(cumsum(exp(x))) without overflow.
Tensor logcumsumexp(const Tensor& x, int64_t dim);
/// Differences of neighbours, taken n times.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1);
/// The same for x with `prepend` before it and `append` after it along dim; either may be
/// undefined.
Tensor diff(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append = {});
/// The integral along dim by the trapezoidal rule, for values y at points that are dx apart.
Tensor trapezoid(const Tensor& y, double dx = 1.0, int64_t dim = -1);
/// The same for values y at the points x, which has y's shape, or is one vector for all.
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// The integrals from the first point to each of the other points.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1.0, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// \}

inline Tensor trapz(const Tensor& y, double dx = 1.0, int64_t dim = -1) {
  return trapezoid(y, dx, dim);
}
inline Tensor trapz(const Tensor& y, const Tensor& x, int64_t dim = -1) {
  return trapezoid(y, x, dim);
}

/// Options of gradient().
struct GradientOptions {
  /// The distance of neighbours: one for all dimensions, or one for each.
  std::vector<double> spacing = {1.0};
  /// Instead of distances, the places of the points along each dimension, as vectors.
  std::vector<Tensor> coordinates = {};
  Dims dim = {};           ///< the dimensions; all when empty
  int64_t edge_order = 1;  ///< 1 or 2: the order of accuracy at both ends
};
/// The derivatives, along each of the dimensions, of a function of which x has samples, each in x's
/// shape: inside by finite differences with both neighbours, exact for parabolas; at the ends with
/// one neighbour or two. Integers give float32. This is torch.gradient, not the gradient of a
/// recorded graph. Throws an Error if a dimension has fewer than edge_order + 1 points, or if the
/// lists have other lengths than the dimensions.
std::vector<Tensor> gradient(const Tensor& x, const GradientOptions& options = {});

/// \name Relations of variables
/// \{
/// Options of cov().
struct CovOptions {
  double correction = 1.0;  ///< subtracted from the number of observations in the divisor
  Tensor fweights = {};  ///< how often each observation counts, integers [N]; once when undefined
  Tensor aweights = {};  ///< the weight of each observation [N]; equal ones when undefined
};
/// The covariances [V, V] of variables, which are the rows of x [V, N]; [] for one variable, [1, N]
/// or [N]. Half precision with weights of float32 gives float32.
Tensor cov(const Tensor& x, const CovOptions& options = {});
/// Pearson's correlation coefficients [V, V] of the rows of x [V, N], within [-1, 1].
Tensor corrcoef(const Tensor& x);
/// \}

}  // namespace hero
