#pragma once
// Which values a module has, which part of each this rank holds, and which rank saves which piece;
// for checkpoints.
#include <string>
#include <vector>

#include <hero/autograd/partition.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Elements first ... first + count - 1 of a row-major array of shape `whole`.
struct Place {
  Shape whole;
  int64_t first = 0;
  int64_t count = 0;

  bool is_whole() const { return count == whole.numel(); }
};

/// A piece of a value and the rank that saves it.
struct Piece {
  int rank = 0;
  int64_t first = 0;
  int64_t count = 0;
};

/// A parameter or a saved buffer of a module, under all its names if it is tied.
struct Held {
  std::vector<std::string> names;
  Tensor leaf;
  Place place;
  std::vector<Piece> pieces = {};  ///< of all ranks, in order: together the whole

  const std::string& name() const { return names.front(); }
};

/// A module's values, each once, in the order of registration. Must be called between two steps.
std::vector<Held> held_by(nn::Module& module);

/// Fills in the pieces: ranks tell each other their places, and of those that hold the same one the
/// lowest saves it. An Error where places overlap or leave a hole. A collective.
void divide_work(const Communicator& world, std::vector<Held>& values);

}  // namespace hero::dist
