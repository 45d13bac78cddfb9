#include <utility>

#include <hero/core/array/checked.h>
#include <hero/core/error.h>
#include <hero/dist/mesh.h>

namespace hero::dist {
namespace {

// "replicate 2, shard 4".
std::string text_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) {
    text += (text.empty() ? "" : ", ") + axis.name + " " + std::to_string(axis.size);
  }
  return text.empty() ? "none" : text;
}

void check_axes(const std::vector<Axis>& axes, const Communicator& world) {
  core::Checked product{"mesh", 1};
  for (size_t i = 0; i < axes.size(); ++i) {
    check(axes[i].size > 0, "mesh: the size of '", axes[i].name,
          "' is not positive: ", axes[i].size);
    for (size_t j = 0; j < i; ++j) {
      check(axes[i].name != axes[j].name, "mesh: two axes are named '", axes[i].name, "'");
    }
    product = product * axes[i].size;
  }
  check(!axes.empty() && product.value == world.size(), "mesh: the axes make ", product.value,
        " ranks, '", world.axis(), "' has ", world.size());
}

}  // namespace

// Ranks compare the axes as they agree on the first group, also a rank whose own make no mesh.
Mesh::Mesh(const Communicator& world, std::vector<Axis> axes)
    : world_(world), axes_(std::move(axes)) {
  world.declare("mesh of " + text_of(axes_));
  try {
    check_axes(axes_, world);
  } catch (const Error&) {
    static_cast<void>(world.group({}, "mesh"));
    throw;
  }
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
  check(!axes_.empty(), "mesh: it was moved from; use the one that it was moved into");
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

Mesh Mesh::sub(const std::vector<std::string>& names) const {
  check(!names.empty(), "mesh: a mesh of no axes");
  (void)index_of(names.front());  // of a mesh that was moved from there are none
  Mesh part;
  std::vector<int> strides;
  std::string axis;
  int first = world_.rank(), ranks = 1;
  for (const std::string& name : names) {
    const size_t index = index_of(name);
    for (const Axis& known : part.axes_) {
      check(known.name != name, "mesh: axis '", name, "' is named twice");
    }
    int stride = 1;
    for (size_t i = index + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
    first -= coordinate(name) * stride;
    ranks *= axes_[index].size;
    axis += (axis.empty() ? "" : "+") + name;
    strides.push_back(stride);
    part.axes_.push_back(axes_[index]);
    part.groups_.push_back(groups_[index]);
  }
  if (names.size() == 1) {
    part.world_ = part.groups_[0];
    return part;
  }
  std::vector<int> members;
  for (int i = 0; i < ranks; ++i) {
    int member = first, rest = i;
    for (size_t a = names.size(); a-- > 0; rest /= part.axes_[a].size) {
      member += rest % part.axes_[a].size * strides[a];
    }
    members.push_back(member);
  }
  world_.declare("mesh of " + text_of(part.axes_));
  part.world_ = world_.group(members, axis);
  return part;
}

int Mesh::coordinate(const std::string& name) const { return groups_[index_of(name)].rank(); }

}  // namespace hero::dist
