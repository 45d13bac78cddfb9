#pragma once
// Operations on shapes beyond those of ops.h: dimensions moved, added and removed by other names,
// joins and splits, grids and index lists. Views where PyTorch gives views.
#include <hero/autograd/creation.h>
#include <hero/autograd/ops.h>

namespace hero {

/// \name Dimensions
/// \{
/// Each dimension of `source` goes to the place of `destination`; the others keep their order.
Tensor movedim(const Tensor& x, const DimList& source, const DimList& destination);
Tensor moveaxis(const Tensor& x, const DimList& source, const DimList& destination);
/// transpose by NumPy's name.
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1);
Tensor swapdims(const Tensor& x, int64_t dim0, int64_t dim1);
/// Drops those of `dims` whose size is 1.
Tensor squeeze(const Tensor& x, const std::vector<int64_t>& dims);
/// Dimension `dim` as `sizes`, one of which may be -1.
Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes);
/// One dimension; a view where the elements lie in order.
Tensor ravel(const Tensor& x);
Tensor expand_as(const Tensor& x, const Tensor& other);
Tensor view_as(const Tensor& x, const Tensor& other);
Tensor reshape_as(const Tensor& x, const Tensor& other);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// All of them expanded to their common shape.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// At least so many dimensions: [1], [1, N] and [1, N, 1] of a vector.
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);
/// \}

/// \name Moves
/// \{
/// repeat() whose missing repeats are 1.
Tensor tile(const Tensor& x, const Dims& repeats);
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);
/// A rotation by k quarter turns from dims[0] towards dims[1].
Tensor rot90(const Tensor& x, int64_t k = 1, const Dims& dims = {0, 1});
/// Each element, or slice of `dim`, as often as `repeats` (int64 or int32, one or as many as there
/// are) says. Without dim x is flattened. The result's size depends on values.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim = {});
Tensor repeat_interleave(const Tensor& x, int64_t repeats);
/// x's last dimension on the diagonals of matrices in dimensions dim1 and dim2 of the result.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
/// All elements on the diagonal of a matrix.
Tensor diagflat(const Tensor& x, int64_t offset = 0);
/// The matrices along the diagonal of one; numbers and vectors count as matrices of one row.
Tensor block_diag(const std::vector<Tensor>& tensors);
/// The sum of a matrix's diagonal.
Tensor trace(const Tensor& x);
/// [.., C r^2, H, W] to [.., C, H r, W r]. Shi et al., arXiv 1609.05158.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor);
/// The channels of [N, C, ..] as groups by C / groups, transposed. Zhang et al., arXiv 1707.01083.
Tensor channel_shuffle(const Tensor& x, int64_t groups);
/// \}

/// \name Joins and splits
/// \{
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
Tensor dstack(const std::vector<Tensor>& tensors);
/// Vectors as columns beside matrices.
Tensor column_stack(const std::vector<Tensor>& tensors);
/// `sections` parts whose sizes differ by 1 at most, the larger ones first.
std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim = 0);
/// Parts that end before each of the indices, which count as those of slice().
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& indices,
                                 int64_t dim = 0);
/// tensor_split along dimension 1 (0 of a vector), 0 and 2, into parts of one size.
std::vector<Tensor> hsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, int64_t sections);
/// \}

/// \name Grids and lists of indices
/// \{
enum class Indexing { ij, xy };
/// Coordinates of a grid over vectors: [N0, N1, ..] each, or [N1, N0, ..] for xy; views.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Indexing indexing = Indexing::ij);
/// All tuples of elements of the vectors, [count, vectors].
Tensor cartesian_prod(const std::vector<Tensor>& tensors);
/// All choices of r elements of a vector in their order, [count, r].
Tensor combinations(const Tensor& x, int64_t r = 2, bool with_replacement = false);
/// int64 [2, count]: rows and columns of a matrix's lower or upper triangle, row by row.
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0, Device device = kCpu);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0, Device device = kCpu);
/// start times base to the powers start .. end: base^linspace(start, end, steps).
Tensor logspace(double start, double end, int64_t steps, double base = 10.0,
                const TensorOptions& options = {});
/// Columns of powers x^0, x^1, ... (increasing) or from the highest down.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {}, bool increasing = false);
/// \}

}  // namespace hero
