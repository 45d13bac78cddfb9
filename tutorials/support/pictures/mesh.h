#pragma once
// Chapters 17 and 19: ranks on a mesh, as a picture.
#include <string>
#include <vector>

#include <hero/dist/mesh.h>

namespace tutorial {

/// What stands in the box of a rank, and its colour: ranks with the same part have the same one.
struct MeshCell {
  std::string text;
  int part = 0;
};

/// Draws a box for each rank of a mesh of two or three axes: the last axis runs to the right, the
/// one before it downwards, and the first of three makes blocks beside each other. `cells` has one
/// per rank of the mesh. The axes' names stand at their ends, with what each costs in `notes`.
void draw_mesh(const std::string& title, const std::vector<hero::dist::Axis>& axes,
               const std::vector<MeshCell>& cells, const std::vector<std::string>& notes,
               const std::string& folder, const std::string& name);

}  // namespace tutorial
