#pragma once
// This header has DDP, which trains one whole module on every rank, and its options.
#include <hero/dist/comm_hook.h>
#include <hero/dist/data_parallel.h>

namespace hero::dist {

/// Options of DDP.
struct DDPOptions {
  int64_t bucket_bytes = 25 << 20;       ///< bytes of gradients that are reduced in one call
  int64_t first_bucket_bytes = 1 << 20;  ///< bytes of the first call, small so that it begins early
  /// True: rank 0 sends its buffers when a pass in training ends, so that evaluation is the same on
  /// all ranks. The buffers of ignored_modules are not sent.
  bool broadcast_buffers = true;
  /// True: trainable parameters may get no gradient; gradients are then averaged after backward,
  /// not during it.
  bool find_unused_parameters = false;
  bool broadcast_parameters = true;  ///< rank 0 sends its initial parameters
  Order order = Order::tree;         ///< order in which the ranks' gradients are added up
  double divide_by = 0.0;            ///< divisor of their sum; 0: the number of ranks
  std::vector<std::string> ignored_modules = {};  ///< paths of modules that are not averaged
};

/// Distributed data parallelism: every rank has the whole module, and gradients are averaged while
/// backward runs, bucket by bucket. Buckets follow the reverse order of registration and, after the
/// first backward, the order in which gradients became ready. If a trainable parameter gets no
/// gradient, an Error names it. Parameters that are frozen when it is made are left alone; if one
/// is unfrozen later, or a trainable one is added, the next forward is an Error. Li et al., arXiv
/// 2006.15704. \snippet test_examples_ranks.cpp DDP
class DDP : public DataParallel {
 public:
  /// Puts the module on this strategy. A collective; the module must be the same on all ranks.
  DDP(nn::Module& module, const Communicator& comm, const DDPOptions& options = {});

  /// From the next backward pass on, averages gradients by this hook instead of one all_reduce for
  /// each bucket; another call replaces the hook. A collective, between two steps: if a rank has
  /// another hook, an Error on every rank names it. Buckets then stay in the reverse order of
  /// registration, so that state which a hook carries from step to step belongs to the same bucket
  /// in every run. A single rank sends nothing, and its hook is not called. It is PyTorch's
  /// function of the same name.
  /// \snippet test_examples_ranks.cpp register_comm_hook
  void register_comm_hook(CommHook hook) const;
};

}  // namespace hero::dist
