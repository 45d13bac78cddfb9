#pragma once
// Differentiable operations between ranks that compute one function together, each with a slice of
// it: tensor parallelism. A tensor is *whole* where all ranks hold the same values, and its
// gradient is then the same on all ranks, too; a *summand* where the function's value is the sum
// over ranks; a *part* where the ranks' tensors lie one behind the other. Shoeybi et al., arXiv
// 1909.08053.
//
//   copy_in      whole to copies whose gradients are summands     its gradient: sum_out
//   sum_out      summands to the whole                            its gradient: copy_in
//   gather       parts to the whole                               its gradient: split
//   split        the whole to parts                               its gradient: gather
//   gather_in    parts to copies whose gradients are summands     its gradient: scatter_out
//   scatter_out  summands to parts of their sum                   its gradient: gather_in
//   mean_out     losses of parts of a batch to their mean         its gradient: each rank its own
//
// All are collectives of the owners (partition.h), forward or backward or both: every one of them
// runs the same operations in the same order. They can be differentiated any number of times.
#include <memory>
#include <vector>

#include <hero/autograd/partition.h>

namespace hero::collectives {

using Group = std::shared_ptr<Owners>;

/// [note: slices of a rank] Where a rank has several slices it takes so many copies, or adds so
/// many summands, of one shape and dtype. They are added up in a tree, and the ranks' sums are
/// again: so sums over w slices have the same bits on any number of ranks that have 2^k of them
/// each. Halves are added up in float32 and rounded once.
std::vector<Tensor> copy_in(const Tensor& x, const Group& group, int copies);
Tensor copy_in(const Tensor& x, const Group& group);
Tensor sum_out(const std::vector<Tensor>& summands, const Group& group);
Tensor sum_out(const Tensor& summand, const Group& group);

/// x is this rank's of size() parts of one shape, along `dim`; the result is the whole.
Tensor gather(const Tensor& x, int64_t dim, const Group& group);
/// This rank's part of x; an Error where size() does not divide x.size(dim).
Tensor split(const Tensor& x, int64_t dim, const Group& group);

/// As gather() and then copy_in(), in one step: backward moves half of what these do.
std::vector<Tensor> gather_in(const Tensor& x, int64_t dim, const Group& group, int copies);
/// The mean over the ranks of each rank's sum of `summands`, on all ranks. Backward gives each
/// summand the whole gradient, as if no other rank were there: for losses of ranks whose
/// parameters' gradients are averaged afterwards, by DDP for one, as theirs are then those of the
/// mean.
Tensor mean_out(const std::vector<Tensor>& summands, const Group& group);

/// As sum_out() and then split(), in one step.
Tensor scatter_out(const std::vector<Tensor>& summands, int64_t dim, const Group& group);

}  // namespace hero::collectives
