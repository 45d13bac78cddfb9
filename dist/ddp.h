#pragma once
// This header has DDP, which trains one whole module on every rank, and its options.
#include <hero/dist/comm_hook.h>
#include <hero/dist/data_parallel.h>

namespace hero::dist {

struct DDPOptions {
  int64_t bucket_bytes = 25 << 20;       ///< gradients reduced in one call
  int64_t first_bucket_bytes = 1 << 20;  ///< the first, so that the reductions begin early
  bool broadcast_buffers = true;         ///< rank 0's, before each forward in training
  bool find_unused_parameters = false;   ///< parameters may go without gradient; costs the overlap
  bool broadcast_parameters = true;      ///< rank 0's first values, to all
  Order order = Order::tree;             ///< in which the ranks' gradients are added up
  double divide_by = 0.0;  ///< what their sum is divided by, 1 keeps it; 0: the number of ranks
  std::vector<std::string> ignored_modules = {};  ///< paths; their parameters are left alone
};

/// Distributed data parallelism: every rank holds the whole module, and gradients are averaged
/// while backward runs, bucket by bucket. Buckets follow the reverse order of registration and,
/// after the first backward, the order in which gradients became ready. A trainable parameter
/// without a gradient is an Error that names it. Li et al., arXiv 2006.15704.
/// \snippet test_examples_ranks.cpp DDP
class DDP : public DataParallel {
 public:
  DDP(nn::Module& module, const Communicator& comm, const DDPOptions& options = {});

  /// Averages gradients by this hook from the next backward on, in place of one all_reduce a
  /// bucket; another call replaces it. A collective, between two steps: an Error on every rank
  /// names who has another hook. Buckets then stay in the reverse order of registration, so that
  /// what a hook carries from step to step has its place in every run. One rank alone sends
  /// nothing, and its hook is not called. PyTorch's function of that name.
  /// \snippet test_examples_ranks.cpp register_comm_hook
  void register_comm_hook(CommHook hook) const { replica_->set_hook(std::move(hook)); }
};

}  // namespace hero::dist
