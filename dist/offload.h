#pragma once
// What ZeRO and fully_shard() can keep in host memory, or in a file, instead of device memory.
#include <memory>

namespace hero::core {
class SwapFile;
}

namespace hero::dist {

/// Where shards are kept while nothing is computed with them. For a module on the cpu, where the
/// two memories are the same, `optimizer` and `parameters` change nothing; nor do they on simulated
/// ranks, except in a simulation for a cluster of GPUs, where host memory is planned as well.
struct Offload {
  /// True: the shards that the optimizer steps are in page-locked host memory, with their gradients
  /// and the optimizer's states, and the cpu makes the step. Stages 1 and 2 keep the whole
  /// parameters on the device, too; stage 3 and fully_shard() have only the shards, so there it
  /// is the same as `parameters`.
  bool optimizer = false;
  /// True, for stage 3 and fully_shard(): parameters are on the device only while they are
  /// gathered.
  bool parameters = false;
  /// The shards are in this file, those of each unit in a slot of its own, and are read into memory
  /// when they are gathered or stepped. Their gradients are in host memory, and so are the
  /// optimizer's states, unless it is an optim::Paged. Space in the file stays in use until the
  /// module ends, even if the SwapFile object ends before; Module::to() needs the object, for new
  /// slots. Either every rank has a file or none does.
  core::SwapFile* disk = nullptr;
  /// The same, with shared ownership: the module keeps the file open while it lives.
  std::shared_ptr<core::SwapFile> own_disk = {};

  /// True if any of the three is set.
  bool any() const { return optimizer || parameters || disk != nullptr; }
};

}  // namespace hero::dist
