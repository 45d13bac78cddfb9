#pragma once
// Reductions, order statistics and running functions beyond those of ops.h. Reductions are over
// `dims`, or over all dimensions when empty.
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

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
Tensor softmax(const Tensor& x, int64_t dim, DType dtype);
Tensor log_softmax(const Tensor& x, int64_t dim, DType dtype);
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
/// NaN counts as the largest number. Indices are int64; among equal elements they name one.
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
/// The same of x with these tensors in front of it and behind it along dim; one may be undefined.
Tensor diff(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append = {});
/// The integral along dim of lines through the points y, which lie dx apart.
Tensor trapezoid(const Tensor& y, double dx = 1.0, int64_t dim = -1);
/// The same of points at x, which is of y's shape, or one line for all.
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// The integral from the first point to each of the others.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1.0, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// \}

/// \name Relations of variables
/// \{
/// Options of cov().
struct CovOptions {
  double correction = 1.0;  ///< what is subtracted from the number of observations
  Tensor fweights = {};  ///< how often each observation counts, integers [N]; once when undefined
  Tensor aweights = {};  ///< the weight of each observation [N]; equal ones when undefined
};
/// The covariances [V, V] of variables, which are the rows of x [V, N]; [] of one variable, [1, N]
/// or [N]. Halves with weights of float32 give float32.
Tensor cov(const Tensor& x, const CovOptions& options = {});
/// The correlations of Pearson [V, V] of the rows of x [V, N], within [-1, 1].
Tensor corrcoef(const Tensor& x);
/// \}

}  // namespace hero
