#pragma once
// Reading and writing through indices beyond ops.h, searches in sorted numbers, and counts of
// values. Indices are int64 (int32 is converted); negative ones count from the end where said.
#include <hero/autograd/ops.h>

namespace hero {

/// \name Reading and writing
/// \{
/// Elements of the flattened x at `index`, negative or not, in the shape of `index`.
Tensor take(const Tensor& x, const Tensor& index);
/// x with the elements of the flattened x at `index` replaced by, or increased by, those of src.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& src, bool accumulate = false);
/// gather() whose x and index broadcast in the other dimensions; without dim, of the flattened
/// ones.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<int64_t> dim = {});
/// x with the slices of `dim` at `index`, negative or not, filled with one number.
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value);
/// x with the slices of `dim` at `index` replaced by those of src; of equal places the last wins.
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// scatter() of a number.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);
/// x with the elements where mask is true replaced by the first elements of src, in order.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& src);
/// x with src in the place of select(x, dim, index), slice(x, dim, start, stop, step) or
/// diagonal(x, offset, dim1, dim2).
Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t index);
Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim = 0, int64_t start = 0,
                     int64_t stop = kEnd, int64_t step = 1);
Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                        int64_t dim2 = 1);
/// Positions of the non-zero elements, one int64 tensor [count] a dimension: what index() takes.
std::vector<Tensor> where(const Tensor& condition);
/// nonzero() by NumPy's name.
Tensor argwhere(const Tensor& x);
/// \}

/// \name Reductions by place
/// \{
enum class ScatterReduce { sum, mean, prod, amax, amin };
/// out[index[i][j]][j] = the sum (mean, ...) of src[i][j] and, with include_self, of x[..], for dim
/// 0; places that index does not name keep x. Equal largest elements share the gradient; the mean
/// of integers is rounded down.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, bool include_self = true);
enum class BagMode { sum, mean, max };
struct EmbeddingBagOptions {
  Tensor offsets = {};  ///< int64 [B], where each bag of an index [N] begins
  BagMode mode = BagMode::mean;
  Tensor per_sample_weights = {};    ///< factors of the rows, of the index's shape; sums only
  bool include_last_offset = false;  ///< the last offset is the end
  std::optional<int64_t> padding_idx = {};  ///< rows that do not count
};
/// Sums, means or largest of rows of weight [V, D] over bags: the rows of index [B, N], or of [N]
/// from one offset to the next; [B, D], 0 for empty bags.
Tensor embedding_bag(const Tensor& weight, const Tensor& index,
                     const EmbeddingBagOptions& options = {});
/// \}

/// \name Searches
/// \{
struct SearchOptions {
  bool right = false;  ///< behind equal numbers, not before them
  bool out_int32 = false;
};
/// Where each value would go into the sorted last dimension of `sorted`, int64: sorted [N], or the
/// same leading dimensions as values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});
Tensor searchsorted(const Tensor& sorted, Scalar value, const SearchOptions& options = {});
/// searchsorted() with the arguments the other way round; boundaries [N].
Tensor bucketize(const Tensor& x, const Tensor& boundaries, const SearchOptions& options = {});
/// True where an element is among the test elements, or with invert where it is not.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool invert = false);
/// \}

/// \name Values that occur
/// Sizes of results depend on values: not on meta.
/// \{
struct UniqueOptions {
  bool sorted = true;  ///< always so; the argument is PyTorch's
  bool return_inverse = false;
  bool return_counts = false;
  std::optional<int64_t> dim = {};  ///< slices of this dimension are compared, not elements
};
struct Unique {
  Tensor values;   ///< ascending; a NaN is equal to nothing
  Tensor inverse;  ///< where each element or slice is among the values; undefined unless asked for
  Tensor counts;   ///< how often each value occurs; undefined unless asked for
};
Unique unique(const Tensor& x, const UniqueOptions& options = {});
/// The same of neighbours alone, in the order of x.
Unique unique_consecutive(const Tensor& x, const UniqueOptions& options = {});
/// How often each of 0 .. max(x), and at least minlength numbers, occurs in a vector of integers,
/// int64; with weights, the sums of these, float64 unless they are float32.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// Counts of `bins` bins of one width between low and high, both included, in x's floating dtype;
/// between x's least and largest element where low == high.
Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0.0, double high = 0.0);
/// \}

}  // namespace hero
