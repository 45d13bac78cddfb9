#pragma once
// Which values a module has, which part of each this rank holds, and which rank saves which piece;
// for checkpoints.
#include <string>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/dist/checkpoint/ranges.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// A piece of a value and the rank that saves it.
struct Piece {
  int rank = 0;
  ShardRange range;
};

/// A parameter or a saved buffer of a module, under all its names if it is tied.
struct ShardedValue {
  std::vector<std::string> names;
  Tensor leaf;
  ShardRange range;
  std::vector<Piece> pieces = {};  ///< pieces of all ranks, which together are the whole value
  /// True: the pieces were exchanged between ranks, some of which may have none.
  bool exchanged = false;

  const std::string& name() const { return names.front(); }
};

/// The pieces of a module's values that ranks have sent each other. They are sent again only when
/// they change, since the pieces of thousands of ranks take many megabytes.
struct ExchangedPieces {
  std::string mine = {};  ///< text of the values and of this rank's pieces of them
  std::vector<std::vector<Piece>> pieces = {};  ///< pieces of all ranks, in the order of the values
};

/// A module's values, each once, in the order of registration. Must be called between two steps.
std::vector<ShardedValue> sharded_values(nn::Module& module);

/// Throws an Error that begins with `op` if a value must not be saved or loaded at present: its
/// slot holds another tensor, or summon_full_parameters() shows it whole, so that writes to it have
/// not reached the shards.
void check_use(const char* op, const std::vector<ShardedValue>& values, ValueUse use);

/// Calls check_use(), then fills in the pieces; of several ranks that hold the same piece the
/// lowest saves it. Each rank computes the shards of all ranks, and the ranks compare a hash of
/// them. For values that a program cut into boxes, or that only some ranks shard, the ranks send
/// each other their ranges, unless these are on every rank the same as in `exchanged`, which comes
/// from an earlier call with the same communicator or is empty. Throws an Error on all ranks that
/// names ranks with other values, and ranges that overlap or leave a hole. A collective.
void divide_work(const Communicator& world, std::vector<ShardedValue>& values, const char* op,
                 ValueUse use, ExchangedPieces& exchanged);

}  // namespace hero::dist
