#include <utility>

#include <hero/core/error.h>
#include <hero/dist/mesh.h>

namespace hero::dist {

Mesh::Mesh(const Communicator& world, std::vector<Axis> axes)
    : world_(world), axes_(std::move(axes)) {
  int64_t product = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    check(axes_[i].size > 0, "mesh: the size of '", axes_[i].name,
          "' is not positive: ", axes_[i].size);
    for (size_t j = 0; j < i; ++j) {
      check(axes_[i].name != axes_[j].name, "mesh: two axes are named '", axes_[i].name, "'");
    }
    product *= axes_[i].size;
  }
  check(!axes_.empty() && product == world.size(), "mesh: the axes make ", product, " ranks, '",
        world.axis(), "' has ", world.size());
  int stride = world.size();
  for (const Axis& axis : axes_) {
    stride /= axis.size;
    const int first = world.rank() - (world.rank() / stride) % axis.size * stride;
    std::vector<int> members;
    for (int i = 0; i < axis.size; ++i) members.push_back(first + i * stride);
    groups_.push_back(world.group(members, axis.name));
  }
}

size_t Mesh::index_of(const std::string& name) const {
  std::string known;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return i;
    known += (i > 0 ? ", '" : "'") + axes_[i].name + "'";
  }
  fail("mesh: no axis '", name, "'; there are ", known);
}

const Communicator& Mesh::operator[](const std::string& name) const {
  return groups_[index_of(name)];
}

int Mesh::coordinate(const std::string& name) const { return groups_[index_of(name)].rank(); }

}  // namespace hero::dist
