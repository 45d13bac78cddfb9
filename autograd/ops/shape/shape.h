#pragma once
// Operations on shapes: views, moving, adding and removing dimensions, repeating, padding, joining
// and splitting, grids and lists of indices, copies and conversions. They return views where
// PyTorch does; negative dimensions count from the end.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name Views and copies
/// \{
/// \snippet test_examples_tensors.cpp reshape
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const Dims& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
/// \snippet test_examples_tensors.cpp slice
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1);
/// `length` elements from `start` on; a negative start counts from the end.
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
/// For a vector x the matrix with x on its diagonal; for a matrix its diagonal.
Tensor diag(const Tensor& x, int64_t offset = 0);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
/// A view of x's memory with this shape and these strides; strides and offset count elements, from
/// the first of x. x must be contiguous. Where elements overlap, gradients are added up.
Tensor as_strided(const Tensor& x, const Shape& shape, const Dims& strides, int64_t offset = 0);
Tensor contiguous(const Tensor& x);
Tensor clone(const Tensor& x);
/// Converts x to a dtype; the gradient returns in the dtype of x.
Tensor to(const Tensor& x, DType dtype);
Tensor to(const Tensor& x, Device device);
/// \}

/// \name Dimensions
/// \{
/// Moves each dimension in `source` to the position in `destination`; the others keep their order.
Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);
Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination);
/// NumPy's name of transpose().
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1);
Tensor swapdims(const Tensor& x, int64_t dim0, int64_t dim1);
/// Removes those of `dims` whose size is 1.
Tensor squeeze(const Tensor& x, const std::vector<int64_t>& dims);
/// Splits dimension `dim` into dimensions of `sizes`, one of which may be -1.
Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes);
/// Flattens x to a vector; a view if its elements are contiguous.
Tensor ravel(const Tensor& x);
Tensor expand_as(const Tensor& x, const Tensor& other);
Tensor view_as(const Tensor& x, const Tensor& other);
Tensor reshape_as(const Tensor& x, const Tensor& other);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// Expands all tensors to their common shape.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// Adds dimensions of size 1 until there are at least as many as the name says: a vector [N]
/// becomes [1, N] with atleast_2d() and [1, N, 1] with atleast_3d(); a number becomes [1] with
/// atleast_1d().
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);
/// \}

/// \name Moves
/// \{
Tensor flip(const Tensor& x, const Dims& dims);
/// Moves elements by `shifts` along `dims`, or in row-major order if there are none; those that
/// leave return at the other end.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});
Tensor repeat(const Tensor& x, const Dims& repeats);
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
/// What pad() adds: a constant, x mirrored, its edge repeated, or its opposite end.
enum class PadMode { constant, reflect, replicate, circular };
/// Adds elements around x. `padding` has pairs (before, after), for the last dimension first;
/// negative widths cut elements off.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode = PadMode::constant,
           double value = 0.0);
/// repeat() in which missing repeats count as 1, as NumPy's tile().
Tensor tile(const Tensor& x, const Dims& repeats);
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);
/// Rotates by k quarter turns from dims[0] towards dims[1].
Tensor rot90(const Tensor& x, int64_t k = 1, const Dims& dims = {0, 1});
/// Repeats each element, or each slice of `dim`, as often as `repeats` says (int64 or int32, one
/// number or one for each). Without dim, x is flattened. The size of the result depends on values.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim = {});
Tensor repeat_interleave(const Tensor& x, int64_t repeats);
/// Puts the last dimension of x on the diagonals of matrices, in dimensions dim1 and dim2 of the
/// result.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
/// A matrix with all elements of x on its diagonal, for x of any shape.
Tensor diagflat(const Tensor& x, int64_t offset = 0);
/// A matrix with the given matrices along its diagonal; numbers and vectors count as matrices of
/// one row.
Tensor block_diag(const std::vector<Tensor>& tensors);
/// The sum of a matrix's diagonal.
Tensor trace(const Tensor& x);
/// Rearranges [.., C r^2, H, W] to [.., C, H r, W r], with r = upscale_factor. Shi et al., arXiv
/// 1609.05158.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor);
/// Rearranges the channels of [N, C, ..], taken as a matrix [groups, C / groups], by transposing
/// it. Zhang et al., arXiv 1707.01083.
Tensor channel_shuffle(const Tensor& x, int64_t groups);
/// \}

/// \name Joins and splits
/// \{
/// \snippet test_examples_tensors.cpp cat
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
Tensor dstack(const std::vector<Tensor>& tensors);
/// Joins matrices side by side, and vectors as their columns.
Tensor column_stack(const std::vector<Tensor>& tensors);
/// Splits x into `sections` parts whose sizes differ by at most 1, the larger ones first.
std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim = 0);
/// Splits x before each of the indices, which are positions as those of slice().
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 int64_t dim = 0);
/// The same by an integer tensor on the host: a number [] is the number of parts, and a vector has
/// the positions at which the parts after the first one begin.
std::vector<Tensor> tensor_split(const Tensor& x, const Tensor& indices_or_sections,
                                 int64_t dim = 0);
/// tensor_split() along dimension 1 (0 for a vector), 0 and 2, into parts of equal sizes, or before
/// each of the indices.
std::vector<Tensor> hsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<int64_t>& indices);
std::vector<Tensor> vsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<int64_t>& indices);
std::vector<Tensor> dsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<int64_t>& indices);
/// \}

/// \name Grids and lists of indices
/// \{
/// Whether meshgrid() puts the first vector along the first dimension (ij) or the second (xy).
enum class Indexing { ij, xy };
/// The coordinates of a grid over vectors: tensors [N0, N1, ..], or [N1, N0, ..] for xy, which are
/// views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Indexing indexing = Indexing::ij);
/// All tuples with an element of each vector, [count, vectors].
Tensor cartesian_prod(const std::vector<Tensor>& tensors);
/// All choices of r elements of a vector, in their order, [count, r].
Tensor combinations(const Tensor& x, int64_t r = 2, bool with_replacement = false);
/// The rows and columns of the elements in the lower or upper triangle of a matrix, row by row,
/// int64 [2, count].
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0, Device device = kCpu);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0, Device device = kCpu);
/// The Vandermonde matrix [.., N, n] of x [.., N]: column i holds the powers x^i if increasing,
/// else x^(n - 1 - i). When absent, n is N. Floats keep their dtype, and integers and bools become
/// int64. Throws an Error if x has no dimension or n is negative.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {}, bool increasing = false);
/// \}

/// \name Second names, as PyTorch has them
/// \{
inline Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0) {
  return cat(tensors, dim);
}
inline Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0) {
  return cat(tensors, dim);
}
inline Tensor row_stack(const std::vector<Tensor>& tensors) { return vstack(tensors); }
inline std::vector<Tensor> split_with_sizes(const Tensor& x, const std::vector<int64_t>& sizes,
                                            int64_t dim = 0) {
  return split(x, sizes, dim);
}
inline Tensor adjoint(const Tensor& a) { return a.mT(); }
/// \}

}  // namespace hero
