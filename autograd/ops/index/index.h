#pragma once
// Indexing operations beyond those of ops.h, searches in sorted numbers, and counts of values.
// Indices are int64 (int32 is converted); negative indices count from the end where a text says so.
#include <hero/autograd/ops.h>

namespace hero {

/// \name Reading and writing
/// \{
/// The elements of the flattened x at `index`, in the shape of `index`; negative indices count from
/// the end.
Tensor take(const Tensor& x, const Tensor& index);
/// A copy of x in which the elements of the flattened x at `index` are replaced by those of src, or
/// increased by them if accumulate is true.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, bool accumulate = false);
/// gather() along dim, for x and index with as many dimensions as each other, which broadcast in
/// all but dim; the result has the shape of index broadcast so. Without dim, both are flattened,
/// and the result is a vector. Negative indices count from the end; an Error names one that is out
/// of range.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim = {});
/// A copy of x in which the slices of `dim` at `index` are filled with one number; negative indices
/// count from the end.
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value);
/// A copy of x in which the slices of `dim` at `index` are replaced by those of src; if an index
/// occurs several times, the last one counts.
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// scatter() with one number for all positions.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);
/// A copy of x in which the elements where mask is true are replaced by the first elements of src,
/// in order.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& src);
/// A copy of x with src in the place of select(x, dim, index), of slice(x, dim, start, stop, step),
/// or of diagonal(x, offset, dim1, dim2).
Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t index);
Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim = 0, int64_t start = 0,
                     int64_t stop = kEnd, int64_t step = 1);
Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                        int64_t dim2 = 1);
/// The positions of the non-zero elements, as an int64 tensor [count] for each dimension, which
/// index() takes.
std::vector<Tensor> where(const Tensor& condition);
/// NumPy's name of nonzero().
Tensor argwhere(const Tensor& x);
/// \}

/// \name Reductions by index
/// \{
/// How scatter_reduce() combines elements with the same position.
enum class ScatterReduce { sum, mean, prod, amax, amin };
/// For dim 0, out[index[i][j]][j] is the sum (mean, ...) of all these src[i][j] and, with
/// include_self, of the element of x; positions that do not occur in index keep x. Equal largest
/// elements share the gradient; the mean of integers is rounded down.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, bool include_self = true);
/// The same with one number for all positions, and the elements of x.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value,
               ScatterReduce reduce);
/// The same with slices: out.select(dim, index[i]) is made of all these src.select(dim, i), for an
/// index [N].
Tensor index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                    ScatterReduce reduce, bool include_self = true);
/// How embedding_bag() combines the rows of a bag.
enum class BagMode { sum, mean, max };
/// Options of embedding_bag().
struct EmbeddingBagOptions {
  Tensor offsets = {};               ///< int64 [B]: where each bag begins in an index [N]
  BagMode mode = BagMode::mean;      ///< how the rows of a bag are combined
  Tensor per_sample_weights = {};    ///< factors of the rows, in the shape of index; for sums only
  bool include_last_offset = false;  ///< true: the last offset is the end of the last bag
  std::optional<int64_t> padding_idx = {};  ///< rows that do not count
  /// Divide the gradient of a row by the number of times that it occurs; not for maxima.
  bool scale_grad_by_freq = false;
};
/// Combines rows of weight [V, D] over bags to [B, D]. A bag is a row of index [B, N], or the part
/// of index [N] from one offset to the next. Empty bags give 0.
Tensor embedding_bag(const Tensor& weight, const Tensor& index,
                     const EmbeddingBagOptions& options = {});
/// \}

/// \name Searches
/// \{
/// Options of searchsorted() and bucketize().
struct SearchOptions {
  bool right = false;      ///< true: positions after equal numbers, not before them
  bool out_int32 = false;  ///< true: the result is int32 instead of int64
  /// Positions, int64 in the shape of the numbers, that bring these into order; when undefined,
  /// they are in order.
  Tensor sorter = {};
};
/// The position, int64, at which each value would have to be inserted into the sorted last
/// dimension of `sorted`, which is [N] or has the same leading dimensions as values. NaN lies
/// behind all numbers. Numbers of two dtypes are compared in the promoted one. If numbers are not
/// in order, or NaN is among them, positions are those of PyTorch's search by halving.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});
Tensor searchsorted(const Tensor& sorted, Scalar value, const SearchOptions& options = {});
/// searchsorted() with the arguments in the other order; boundaries is [N].
Tensor bucketize(const Tensor& x, const Tensor& boundaries, const SearchOptions& options = {});
/// A bool for each element: whether it is among the test elements, or with invert, whether it is
/// not.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool invert = false);
/// \}

/// \name Values that occur
/// The sizes of results depend on values, so these functions are not supported on meta.
/// \{
/// Options of unique() and unique_consecutive().
struct UniqueOptions {
  bool sorted = true;  ///< has no effect, since results are always sorted; it is PyTorch's argument
  bool return_inverse = false;      ///< whether the result has `inverse`
  bool return_counts = false;       ///< whether the result has `counts`
  std::optional<int64_t> dim = {};  ///< slices of this dimension are compared, instead of elements
};
/// What unique() and unique_consecutive() return.
struct Unique {
  Tensor values;  ///< ascending; a NaN is equal to nothing
  /// The position of each element or slice among the values; undefined unless asked for.
  Tensor inverse;
  Tensor counts;  ///< how often each value occurs; undefined unless asked for
};
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// Removes all but the first of equal neighbours; the result has the order of x.
Unique unique_consecutive(const Tensor& x, const UniqueOptions& options = {});
/// How often each of the numbers from 0 to max(x) occurs in a vector of integers, int64, for at
/// least minlength numbers. With weights, the sums of the weights, float64 unless weights are
/// float32.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// A histogram: the counts in `bins` bins of equal width between low and high, both included, in
/// x's floating dtype. If low == high, it is between x's smallest and largest element.
Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0.0, double high = 0.0);
/// \}

/// The positions along each dimension of `shape` of elements whose indices in it, when it is flat,
/// are x: an int64 tensor of the shape of x for each dimension. Indices outside of it are not
/// refused, and wrap around, as in PyTorch.
std::vector<Tensor> unravel_index(const Tensor& x, const Shape& shape);

}  // namespace hero
