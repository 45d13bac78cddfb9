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
struct Held {
  std::vector<std::string> names;
  Tensor leaf;
  ShardRange range;
  std::vector<Piece> pieces = {};  ///< of all ranks: together the whole
  bool told = false;               ///< ranks told each other their pieces: some may have none of it

  const std::string& name() const { return names.front(); }
};

/// What ranks have told each other of a module's values, which they tell but once while they hold
/// the same: the places of thousands of ranks are many megabytes.
struct ToldPlaces {
  std::string mine = {};                        ///< the values, and what this rank held of them
  std::vector<std::vector<Piece>> pieces = {};  ///< of all ranks, in the order of the values
};

/// A module's values, each once, in the order of registration. Must be called between two steps.
std::vector<Held> held_by(nn::Module& module);

/// Throws an Error, which `op` begins, if a value must not be saved or loaded so now: one in whose
/// place something else stands, or that is shown whole by summon_full_parameters(), where what was
/// written to it has not reached the shards.
void check_use(const char* op, const std::vector<Held>& values, ValueUse use);

/// Calls check_use(), then fills in the pieces; of the ranks that hold the same one the lowest
/// saves it. Every rank computes what all of them hold of shards, and they compare a hash; of
/// values that a program cut into boxes, or that some of the ranks shard, they tell each other
/// their ranges, unless on every rank they are as in `told`, which is of an earlier call with the
/// same communicator or empty. An Error on all ranks names who holds something else, and ranges
/// that overlap or leave a hole. A collective.
void divide_work(const Communicator& world, std::vector<Held>& values, const char* op, ValueUse use,
                 ToldPlaces& told);

}  // namespace hero::dist
