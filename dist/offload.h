#pragma once
// What ZeRO and fully_shard() may keep in the host's memory, or in a file, in place of the
// device's.

namespace hero::core {
class SwapFile;
}

namespace hero::dist {

/// Where shards lie while nothing is computed with them. On a module that lies on the cpu, where
/// the two memories are one, `optimizer` and `parameters` change nothing. Simulated ranks refuse
/// all three.
struct Offload {
  /// The shards that the optimizer steps lie in page-locked memory of the host: so do their
  /// gradients and the optimizer's states, and the step is taken by the cpu. Stages 1 and 2 keep
  /// the whole parameters on the device beside them; stage 3 and fully_shard() have no others, so
  /// there it is the same as `parameters`.
  bool optimizer = false;
  /// Stage 3 and fully_shard(): parameters are on the device from their gathering to their freeing.
  bool parameters = false;
  /// The shards lie in this file, each unit's in a slot of its own, and come into memory to be
  /// gathered and to be stepped; their gradients lie in the host's memory. The optimizer's states
  /// do, too, unless it is an optim::Paged. The file must outlive the module, and each rank has its
  /// own or all have one.
  core::SwapFile* disk = nullptr;

  bool any() const { return optimizer || parameters || disk != nullptr; }
};

}  // namespace hero::dist
