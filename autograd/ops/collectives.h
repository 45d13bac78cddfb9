#pragma once
// Differentiable operations between ranks that compute one function together, each a slice of it,
// as in tensor parallelism. A tensor is *whole* if all ranks have the same values, and then its
// gradient is also the same on all ranks; it is a *summand* if the function's value is the sum over
// the ranks, and a *part* if the value consists of the ranks' tensors, one after the other. Shoeybi
// et al., arXiv 1909.08053.
//
//   copy_in      whole to copies whose gradients are summands     its gradient: sum_out
//   sum_out      summands to the whole                            its gradient: copy_in
//   gather       parts to the whole                               its gradient: split
//   split        the whole to parts                               its gradient: gather
//   gather_in    parts to copies whose gradients are summands     its gradient: scatter_out
//   scatter_out  summands to parts of their sum                   its gradient: gather_in
//   mean_out     losses of parts of a batch to their mean         its gradient: each rank its own
//
// In forward or backward or both, each is a collective of the group (partition.h), all ranks of
// which run the same operations in the same order. They can be differentiated any number of times.
#include <memory>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero::collectives {

using Group = std::shared_ptr<RankGroup>;

/// [note: slices of a rank] If a rank has several slices, it takes as many copies, or adds as many
/// summands, all of the same shape and dtype. They are added up in a tree, and so are the ranks'
/// sums: sums over w slices have the same bits on any number of ranks with 2^k slices each. Half
/// precision is added up in float32 and rounded once.
std::vector<Tensor> copy_in(const Tensor& x, const Group& group, int copies);
Tensor copy_in(const Tensor& x, const Group& group);
Tensor sum_out(const std::vector<Tensor>& summands, const Group& group);
Tensor sum_out(const Tensor& summand, const Group& group);

/// Gathers the whole along `dim`; x is this rank's part, of size() parts with the same shape.
Tensor gather(const Tensor& x, int64_t dim, const Group& group);
/// This rank's part of x. Throws an Error if size() does not divide x.size(dim).
Tensor split(const Tensor& x, int64_t dim, const Group& group);

/// Does what gather() and then copy_in() do, in one step, whose backward sends half the bytes.
std::vector<Tensor> gather_in(const Tensor& x, int64_t dim, const Group& group, int copies);
/// The mean over the ranks of each rank's sum of `summands`, on all ranks. Backward gives each
/// summand the whole gradient, as if there were no other ranks; for losses on ranks whose gradients
/// are averaged afterwards, for example by DDP, and are then those of the mean.
Tensor mean_out(const std::vector<Tensor>& summands, const Group& group);

/// Does what sum_out() and then split() do, in one step.
Tensor scatter_out(const std::vector<Tensor>& summands, int64_t dim, const Group& group);

}  // namespace hero::collectives
