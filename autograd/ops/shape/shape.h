#pragma once
// Operations on shapes beyond those of ops.h: moving, adding and removing dimensions, joining and
// splitting, grids and lists of indices. They return views where PyTorch does.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/creation/creation.h>

namespace hero {

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
/// Adds dimensions until there are at least as many as the name says: a vector [N] becomes [1, N]
/// and [1, N, 1], and a number [1].
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);
/// \}

/// \name Moves
/// \{
/// repeat(), for which missing repeats are 1.
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
/// A matrix with all elements of x on its diagonal.
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
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
Tensor dstack(const std::vector<Tensor>& tensors);
/// Joins matrices side by side, and vectors as their columns.
Tensor column_stack(const std::vector<Tensor>& tensors);
/// Splits x into `sections` parts whose sizes differ by at most 1, the larger ones first.
std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim = 0);
/// Splits x before each of the indices, which count as those of slice().
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 int64_t dim = 0);
/// The same where an integer tensor of the host says how: a single number, [], how many parts, and
/// a vector, where each part but the first begins.
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
/// `steps` powers of base, [steps], whose exponents are equally spaced from start to end, both
/// included. They are computed in double and returned in float32 unless a dtype is given; for an
/// integer dtype the fractions of start and end are cut off first. An Error if steps is negative.
Tensor logspace(double start, double end, int64_t steps, double base = 10.0,
                const TensorOptions& options = {});
/// The Vandermonde matrix [.., N, n] of x [.., N]: column i holds the powers x^i if increasing,
/// else x^(n - 1 - i). When absent, n is N. Floats keep their dtype, and integers and bools become
/// int64. An Error if x has no dimension or n is negative.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {}, bool increasing = false);
/// \}

}  // namespace hero
