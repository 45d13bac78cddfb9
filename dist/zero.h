#pragma once
// This header has ZeRO in its three stages and its options.
#include <hero/dist/data_parallel.h>
#include <hero/dist/offload.h>
#include <hero/dist/quantize.h>
#include <hero/dist/wrap_policy.h>

namespace hero::dist {

/// Options of ZeRO.
struct ZeROOptions {
  int stage = 1;                    ///< 1, 2 or 3
  int64_t bucket_bytes = 25 << 20;  ///< stages 1 and 2: bytes of parameters in a bucket
  /// Stage 3: which modules are units; empty: each with parameters. An Error in other stages.
  UnitPolicy unit = {};
  bool reshard_after_forward = true;    ///< stage 3: as in FSDPOptions
  int prefetch = 1;                     ///< stage 3: as in FSDPOptions
  bool broadcast_buffers = true;        ///< as in DDPOptions
  bool find_unused_parameters = false;  ///< stages 1 and 2: as in DDPOptions
  bool broadcast_parameters = true;     ///< rank 0 sends its initial parameters
  Order order = Order::tree;            ///< order in which the ranks' gradients are added up
  double divide_by = 0.0;               ///< divisor of their sum; 0: the number of ranks
  std::vector<std::string> ignored_modules = {};  ///< paths of modules that are not averaged
  Offload offload = {};                           ///< what is kept in host memory or a file
  Quantize quantize = {};                         ///< stage 3: as in FSDPOptions
};

/// The zero redundancy optimizer. It works with any optimizer whose step is elementwise, and with
/// LAMB. For a float32 model of n parameters, stage 1 divides AdamW's 8 n bytes of states by the
/// number of ranks, stage 2 also the 4 n bytes of gradients, and stage 3 also the 4 n bytes of
/// parameters. Stages 1 and 2 gather the changed parameters in the next forward pass; stage 3
/// gathers the parameters of each module while it is used. Stages 1 and 2 leave frozen parameters
/// alone; if one is unfrozen later, the next forward is an Error. Rajbhandari et al., arXiv
/// 1910.02054.
/// \snippet test_examples_ranks.cpp ZeRO
class ZeRO : public DataParallel {
 public:
  /// Puts the module on this strategy. A collective; the module must be the same on all ranks.
  ZeRO(nn::Module& module, const Communicator& comm, const ZeROOptions& options = {});
};

}  // namespace hero::dist
