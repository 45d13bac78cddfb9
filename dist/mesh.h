#pragma once
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// One dimension of a mesh.
struct Axis {
  std::string name;
  int size = 1;
};

/// Ranks laid out as a grid with named axes, row-major: of {{"replicate", 2}, {"shard", 4}} rank 5
/// has the coordinates (1, 1). mesh["shard"] is the group of the ranks that differ from this one in
/// that coordinate only, in its order; Traffic counts it under the axis's name.
/// \snippet test_examples_ranks.cpp Mesh
class Mesh {
 public:
  /// All ranks of `world` must make the same mesh; the sizes' product must be its size.
  Mesh(const Communicator& world, std::vector<Axis> axes);

  /// The group along an axis; an Error that lists the axes if there is none of that name.
  const Communicator& operator[](const std::string& name) const;
  /// The mesh of some axes, in the order in which they are named: its world() are the ranks that
  /// differ from this one in these coordinates alone, row-major. Of {{"pipe", 2}, {"replicate", 2},
  /// {"shard", 4}} sub({"replicate", "shard"}) are the eight ranks of a stage, and its groups along
  /// the axes are those of this mesh. All ranks of this mesh must call it. An Error for an axis
  /// that is not there or is named twice.
  Mesh sub(const std::vector<std::string>& names) const;
  /// This rank's place along an axis, which is its rank in that group.
  int coordinate(const std::string& name) const;
  const std::vector<Axis>& axes() const { return axes_; }
  const Communicator& world() const { return world_; }

 private:
  Mesh() = default;
  size_t index_of(const std::string& name) const;

  Communicator world_;
  std::vector<Axis> axes_;
  std::vector<Communicator> groups_;
};

}  // namespace hero::dist
