#pragma once
// Indexing as Python writes it (x({Slice(0, 2), None, Ellipsis, mask}) is x[0:2, None, ..., mask]),
// reading and writing through indices, searches in sorted numbers, and counts of values. Indices
// are int64 (int32 is converted); negative indices count from the end where a text says so.
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// Stands for a new dimension of size 1, or for a bound of a Slice that is left out.
struct NoneType {};

inline constexpr NoneType None{};

/// Stands for as many whole dimensions as the other indices leave over.
struct EllipsisType {};

inline constexpr EllipsisType Ellipsis{};

/// Stands for start:stop:step of a dimension. Negative bounds count from the end, and bounds are
/// limited to the dimension. A negative step goes backwards from start, in a copy; PyTorch does not
/// support it.
struct Slice {
  /// A position, or None.
  class Bound {
   public:
    Bound(NoneType) {}
    template <DimNumber I>
    Bound(I at) : at_(static_cast<int64_t>(at)) {}
    const std::optional<int64_t>& at() const { return at_; }

   private:
    std::optional<int64_t> at_;
  };

  /// Makes a slice, by default of the whole dimension.
  Slice(Bound from = None, Bound to = None, int64_t by = 1) : start(from), stop(to), step(by) {}

  Bound start, stop;  ///< the bounds
  int64_t step = 1;   ///< elements from one to the next; not 0
};

/// One of the indices in x({..}): a position (a negative one counts from the end), a Slice, None,
/// Ellipsis, a bool (a new dimension of size 1 or 0), a tensor of positions (int64 or int32), or a
/// mask. A tensor without dimensions is a position.
class Index {
 public:
  using Kind = std::variant<int64_t, Slice, NoneType, EllipsisType, bool, Tensor>;

  template <DimNumber I>
  Index(I position) : kind_(static_cast<int64_t>(position)) {}
  Index(std::same_as<bool> auto one) : kind_(bool{one}) {}
  Index(const Slice& slice) : kind_(slice) {}
  Index(NoneType none) : kind_(none) {}
  Index(EllipsisType rest) : kind_(rest) {}
  Index(const Tensor& tensor) : kind_(tensor) {}
  const Kind& kind() const { return kind_; }

 private:
  Kind kind_;
};

// Tensor::operator() takes a list of Index: numbers drop a dimension, slices and None give views,
// and index tensors broadcast to a common shape. This shape takes the place of the dimensions that
// the tensors index if these are neighbours, and else comes first. index_put() and index_put_()
// write to the elements that operator() reads.

/// \name Reading and writing
/// \{
/// \snippet test_examples_tensors.cpp gather
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                 double alpha = 1.0);
/// The elements (or slices) of x at (indices[0], indices[1], ...). The index tensors broadcast
/// together and index the first dimensions; negative indices count from the end. A mask (bool)
/// indexes as many dimensions as it has, by the positions where it is true.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
/// A copy of x in which the elements at (indices[0], indices[1], ...) are replaced by `values`, or
/// increased by them if accumulate is true; indices are as in index().
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);
/// The elements where mask (bool) is true, as a vector.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// The positions of the non-zero elements, int64 [count, ndim].
Tensor nonzero(const Tensor& x);
/// The elements of the flattened x at `index`, in the shape of `index`; negative indices count from
/// the end.
Tensor take(const Tensor& x, const Tensor& index);
/// A copy of x in which the elements of the flattened x at `index` are replaced by those of src, or
/// increased by them if accumulate is true.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, bool accumulate = false);
/// gather() along dim, for x and index with the same number of dimensions, which broadcast in all
/// dimensions but dim; the result has the shape of the broadcast index. Without dim, both are
/// flattened, and the result is a vector. Negative indices count from the end; throws an Error that
/// names an index out of range.
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
/// For dim 0, out[k][j] is the sum (mean, ...) of src[i][j] over all i with index[i][j] = k and,
/// with include_self, of x[k][j]; where no index is k, it is x[k][j]. Equal largest elements share
/// the gradient; the mean of integers is rounded down.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, bool include_self = true);
/// The same with one number in place of src, including the elements of x.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value,
               ScatterReduce reduce);
/// The same with slices, for an index [N]: out.select(dim, k) is the sum (mean, ...) of
/// src.select(dim, i) over all i with index[i] = k.
Tensor index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                    ScatterReduce reduce, bool include_self = true);
/// \}

/// \name Searches
/// \{
/// Options of searchsorted() and bucketize().
struct SearchOptions {
  bool right = false;      ///< true: positions after equal numbers, not before them
  bool out_int32 = false;  ///< true: the result is int32 instead of int64
  /// Positions, int64 in the shape of `sorted`, that sort its numbers; undefined if they are in
  /// order already.
  Tensor sorter = {};
};
/// The position, int64, at which each value would have to be inserted into the sorted last
/// dimension of `sorted`, which is [N] or has the same leading dimensions as values. NaN lies
/// behind all numbers. Numbers of two dtypes are compared in the promoted one. If `sorted` is not
/// in order, or has NaN, positions are those of PyTorch's binary search.
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
/// What histogram() returns.
struct Histogram {
  Tensor hist;       ///< [bins]: how many elements lie in each bin, in x's dtype
  Tensor bin_edges;  ///< [bins + 1], in x's dtype
};
/// Options of histogram().
struct HistogramOptions {
  /// The first and the last edge, if the number of bins is given. When absent, the smallest and the
  /// largest element; if these are equal, one half less and one half more.
  std::optional<std::pair<double, double>> range = {};
  Tensor weight = {};    ///< in x's shape: what each element counts; 1 when undefined
  bool density = false;  ///< true: counts are divided by their sum and the bins' widths
};
/// Counts the elements of floating x in `bins` bins of equal width. A bin contains its left edge,
/// and the last one its right edge, too; elements outside of all bins and NaN do not count. It has
/// no derivative.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
/// The same in bins between these edges, an ascending vector.
Histogram histogram(const Tensor& x, const Tensor& bins, const HistogramOptions& options = {});
/// \}

/// Converts indices x into an array of this shape, flattened in row-major order, to positions along
/// each of its dimensions: an int64 tensor of the shape of x for each dimension. Indices outside of
/// the array wrap around, as in PyTorch.
std::vector<Tensor> unravel_index(const Tensor& x, const Shape& shape);

}  // namespace hero
