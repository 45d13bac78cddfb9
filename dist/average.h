#pragma once
// Means of parameters, for ranks that train alone for some steps.
#include <cstdint>
#include <vector>

#include <hero/autograd/tensor.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// Options of average_parameters().
struct AverageOptions {
  int64_t bucket_bytes = 25 << 20;  ///< bytes of parameters that are averaged in one call
  Order order = Order::tree;        ///< order in which the ranks' parameters are added up
};

/// Replaces parameters by their mean over the ranks of a group, as PyTorch's averagers do. A
/// collective, between two steps; throws an Error on every rank if their sizes differ. With DDP
/// within a host and this between hosts in every k-th step, the slow link carries 1 / k of the
/// bytes: local SGD, Lin et al., arXiv 1808.07217. The states of an optimizer are not averaged.
/// Parameters may be shards, on any rung, if the ranks of the group hold the same ones. Buffers can
/// be averaged in the same way if they are of floating dtype.
/// \snippet test_examples_ranks.cpp average_parameters
void average_parameters(const std::vector<Tensor>& parameters, const Communicator& group,
                        const AverageOptions& options = {});

}  // namespace hero::dist
