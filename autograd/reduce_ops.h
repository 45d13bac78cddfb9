#pragma once
// Reductions, order statistics and running functions beyond those of ops.h. Reductions run over
// `dims`, all of them when empty.
#include <hero/autograd/nn_ops.h>

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
/// \}

/// \name Without NaN, and counts
/// \{
Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// NaN where there is nothing else.
Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// int64.
Tensor count_nonzero(const Tensor& x, const Dims& dims = {});
struct MinMax {
  Tensor min, max;
};
/// amin and amax over one dimension, or all.
MinMax aminmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const VarOptions& options = {});
/// \}

/// \name Order statistics
/// NaN is the largest number. Indices are int64; of equal elements they name one.
/// \{
/// The lower of the two in the middle; NaN where there is one. Without a dimension, equal elements
/// share the gradient.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, int64_t dim, bool keepdim = false);
/// The median of what is not NaN.
Tensor nanmedian(const Tensor& x);
ValuesIndices nanmedian(const Tensor& x, int64_t dim, bool keepdim = false);
/// The k-th smallest, k >= 1.
ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);
/// The most frequent element, the smallest of several, and its last position.
ValuesIndices mode(const Tensor& x, int64_t dim = -1, bool keepdim = false);
enum class Quantile { linear, lower, higher, midpoint, nearest };
struct QuantileOptions {
  std::optional<int64_t> dim = {};  ///< all elements when absent
  bool keepdim = false;
  Quantile interpolation = Quantile::linear;
};
/// The number below which the share q in [0, 1] of the elements lies, between neighbours by
/// `interpolation`; NaN where there is one. q [Q] makes a first dimension of Q.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/// The quantile of what is not NaN.
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/// sort(x, 0).values
Tensor msort(const Tensor& x);
/// \}

/// \name Running functions along a dimension
/// \{
/// Largest element so far and its last position; NaN once there is one.
ValuesIndices cummax(const Tensor& x, int64_t dim);
ValuesIndices cummin(const Tensor& x, int64_t dim);
/// log(cumsum(exp(x))) without overflow.
Tensor logcumsumexp(const Tensor& x, int64_t dim);
/// Differences of neighbours, n times.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1);
/// \}

}  // namespace hero
