#pragma once
// This header has ZeRO in its three stages and its options.
#include <hero/dist/data_parallel.h>
#include <hero/dist/offload.h>
#include <hero/dist/policy.h>

namespace hero::dist {

struct ZeROOptions {
  int stage = 1;                      ///< 1, 2 or 3
  int64_t bucket_bytes = 25 << 20;    ///< stages 1 and 2: parameters gathered and reduced together
  UnitPolicy unit = {};               ///< stage 3: which modules; empty: each with parameters
  bool reshard_after_forward = true;  ///< stage 3: as fully_shard()'s
  bool prefetch = true;               ///< stage 3: as fully_shard()'s
  bool broadcast_buffers = true;      ///< rank 0's, before each forward in training
  bool find_unused_parameters = false;  ///< stages 1 and 2: as DDP's
  bool broadcast_parameters = true;     ///< rank 0's first values, to all
  Order order = Order::tree;            ///< in which the ranks' gradients are added up
  double divide_by = 0.0;  ///< what their sum is divided by, 1 keeps it; 0: the number of ranks
  std::vector<std::string> ignored_modules = {};  ///< paths; their parameters are left alone
  Offload offload = {};  ///< what the optimizer steps, in the host's memory; parameters: stage 3
};

/// The zero redundancy optimizer, for any optimizer whose steps are elementwise, and LAMB. Of a
/// float32 model of n parameters, AdamW's 8 n bytes of states are divided by the number of ranks in
/// stage 1, 4 n of gradients too in stage 2, 4 n of parameters too in stage 3. Stages 1 and 2
/// gather changed parameters in the next forward; stage 3 gathers each module's around its use.
/// Stages 1 and 2 leave frozen parameters alone; a frozen one that is thawed later is not averaged.
/// Rajbhandari et al., arXiv 1910.02054.
/// \snippet test_examples_ranks.cpp ZeRO
class ZeRO : public DataParallel {
 public:
  ZeRO(nn::Module& module, const Communicator& comm, const ZeROOptions& options = {});
};

}  // namespace hero::dist
