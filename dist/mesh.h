#pragma once
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// An axis of a mesh.
struct Axis {
  std::string name;  ///< its name, such as "shard"
  int size = 1;      ///< the number of ranks along it
};

/// Ranks arranged as a row-major grid with named axes: in {{"replicate", 2}, {"shard", 4}}, rank 5
/// has the coordinates (1, 1). mesh["shard"] is the group of the ranks that differ from this one
/// only in that coordinate, ordered by it; Traffic counts its calls under the name of the axis.
/// \snippet test_examples_ranks.cpp Mesh
class Mesh {
 public:
  /// Makes a mesh. The product of the sizes must be the size of the world. A collective of `world`:
  /// if ranks name other axes, sizes or another order, every rank gets an Error that lists them.
  Mesh(const Communicator& world, std::vector<Axis> axes);

  /// The group along an axis. Throws an Error that lists the axes if there is none of this name.
  const Communicator& operator[](const std::string& name) const;
  /// The mesh of some of the axes, in the order in which they are named: its world() has the ranks
  /// that differ from this one only in these coordinates, row-major. For {{"pipe", 2},
  /// {"replicate", 2}, {"shard", 4}}, sub({"replicate", "shard"}) has the eight ranks of a stage,
  /// and its groups along the axes are those of this mesh. All ranks of this mesh must call it.
  /// Throws an Error for an axis that does not exist or is named twice.
  Mesh sub(const std::vector<std::string>& names) const;
  /// This rank's coordinate along an axis, which is its rank in that group.
  int coordinate(const std::string& name) const;
  /// The axes.
  const std::vector<Axis>& axes() const { return axes_; }
  /// The group of all ranks of the mesh.
  const Communicator& world() const { return world_; }

 private:
  Mesh() = default;
  size_t index_of(const std::string& name) const;

  Communicator world_;
  std::vector<Axis> axes_;
  std::vector<Communicator> groups_;
};

}  // namespace hero::dist
