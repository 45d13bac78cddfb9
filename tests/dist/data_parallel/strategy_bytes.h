#pragma once
// What strategies hold and send, for tests that compare it with formulas.
#include <algorithm>
#include <cstdint>

#include "dist/data_parallel/strategies.h"

namespace hero::test {

/// Bytes that a rank holds, by what they are for.
struct Bytes {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  bool operator==(const Bytes&) const = default;
};

inline Bytes live_bytes(DeviceType device) {
  const Ledger& ledger = current_ledger();
  return {ledger.live(MemoryTag::parameter, device), ledger.live(MemoryTag::gradient, device),
          ledger.live(MemoryTag::optimizer, device)};
}

inline dist::DataParallel apply_strategy(ShardingStrategy strategy, nn::Module& model,
                                         const dist::Communicator& world) {
  const dist::UnitPolicy linear = dist::each<nn::Linear>();
  switch (strategy) {
    case ShardingStrategy::ddp:
      return dist::DDP(model, world);
    case ShardingStrategy::zero1:
      return dist::ZeRO(model, world, {.stage = 1});
    case ShardingStrategy::zero2:
      return dist::ZeRO(model, world, {.stage = 2});
    case ShardingStrategy::zero3:
      return dist::ZeRO(model, world, {.stage = 3});
    case ShardingStrategy::fsdp_kept:
      return dist::fully_shard(model, world, {.unit = linear, .reshard_after_forward = false});
    case ShardingStrategy::hybrid: {
      const dist::Mesh mesh(world, {{"replicate", world.size() / 2}, {"shard", 2}});
      return dist::fully_shard(model, mesh, {.unit = linear});
    }
    default:
      return dist::fully_shard(model, world, {.unit = linear});
  }
}

/// What a strategy makes of a unit's elements: those of its row and of a rank's part, and those of
/// the part that are parameters', which alone have an optimizer's states.
struct RowOf {
  RowOf(ShardingStrategy strategy, int64_t numel, int ranks, int rank)
      : row(numel), own(numel), stepped(numel) {
    if (strategy == ShardingStrategy::ddp) return;
    const int64_t step = 8 * ranks;
    row = (numel + step - 1) / step * step;
    own = row / ranks;
    stepped = std::clamp<int64_t>(numel - rank * own, 0, own);
  }
  RowOf& operator+=(const RowOf& other) {
    row += other.row;
    own += other.own;
    stepped += other.stepped;
    return *this;
  }
  int64_t row, own, stepped;
};

}  // namespace hero::test
