#pragma once
// A model whose linear layers are cut into boxes over a group, as tensor parallelism does.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dist/checkpoints.h"

#include <hero/dist/checkpoint/ranges.h>
#include <hero/dist/data_parallel/communicator_group.h>

namespace hero::test {

/// A place with one box for each of the groups that dimension `dim` of an array falls into: of
/// every group this rank's even share.
inline Partition boxes_of(const Shape& whole, int dim, const std::vector<int64_t>& groups,
                          const dist::Communicator& comm, std::shared_ptr<RankGroup> group) {
  Partition place = {whole, {}, 0, std::move(group)};
  int64_t begin = 0;
  for (const int64_t size : groups) {
    const dist::Chunk share = dist::ChunkCounts::balanced(size, comm.size()).chunk(comm.rank());
    Box box = {Shape::filled(whole.size(), 0), whole};
    box.offset[dim] = begin + share.begin;
    box.extent[dim] = share.count;
    place.boxes.push_back(box);
    begin += size;
  }
  return place;
}

/// The elements of an array that a place of `count` elements has, one behind the other.
inline Array slice_of(const Array& whole, const Partition& place, int64_t count) {
  const Array flat = whole.contiguous().reshape({whole.numel()});
  const Array part = Array::empty({count}, whole.dtype());
  layout::Runs runs(place.whole, place.boxes, place.first, count);
  for (layout::Run run; runs.next(run);) {
    core::backend(kCpu).run(core::call::Copy{flat.slice(0, run.whole, run.whole + run.count),
                                             part.slice(0, run.part, run.part + run.count)});
  }
  return part;
}

/// What a leaf holds of such an array, in its shape.
inline Array slice_of(const Array& whole, const Tensor& leaf) {
  const Partition* part = partition(leaf);
  return part ? slice_of(whole, *part, leaf.numel()).reshape(leaf.shape()) : whole.clone();
}

/// The leaf goes on with its boxes; on meta, if it lies there.
inline void cut(const Tensor& leaf, const Partition& place, int dim) {
  Shape shape = place.boxes.front().extent;
  shape[dim] = 0;
  for (const Box& box : place.boxes) shape[dim] += box.extent[dim];
  const bool meta = leaf.device() == kMeta;
  const Array part = meta ? Array::empty(shape, leaf.dtype(), kMeta)
                          : slice_of(leaf.array(), place, shape.numel()).reshape(shape);
  set_part(leaf, part, std::make_shared<const Partition>(place));
}

/// Cuts a SmallMLP: rows of fc1 with its bias, columns of fc2, of fc3 two groups of rows as of
/// fused projections; the other biases stay whole.
inline void cut_mlp(nn::Module& model, const dist::Communicator& comm) {
  const auto group = std::make_shared<dist::CommunicatorGroup>(comm);
  const auto cut_named = [&](const char* name, int dim, const std::vector<int64_t>& groups) {
    const Tensor leaf = model.get_parameter(name);
    cut(leaf, boxes_of(leaf.shape(), dim, groups, comm, group), dim);
  };
  cut_named("fc1.weight", 0, {13});
  cut_named("fc1.bias", 0, {13});
  cut_named("fc2.weight", 1, {13});
  cut_named("fc3.weight", 0, {3, 2});
}

/// Where a model lies: over `tensor` ranks in boxes, and what these hold over `shard` ranks by
/// fully_shard().
struct Grid {
  const char* name;
  int shard = 1, tensor = 1;

  int ranks() const { return shard * tensor; }
};
inline constexpr Grid kGrids[] = {
    {"single"}, {"TP2", 1, 2}, {"TP4", 1, 4}, {"FSDP3", 3, 1}, {"TP2 x FSDP2", 2, 2}};

/// Calls body with every rank's SmallMLP and AdamW. Gradients are given: slices of the whole's.
struct GridRunner {
  const dist::Communicator& world;  ///< undefined in a single process
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer = nullptr;

  GridRunner(const dist::Communicator& w, const Grid& grid)
      : world(w), model(make_subject(Subject::mlp)) {
    if (world.defined()) {
      const dist::Mesh mesh(world, {{"shard", grid.shard}, {"tensor", grid.tensor}});
      if (grid.tensor > 1) cut_mlp(*model, mesh["tensor"]);
      if (grid.shard > 1) {
        dist::fully_shard(*model, mesh["shard"], {.unit = dist::each<nn::Linear>()});
      }
    }
    restart();
  }
  void restart() { optimizer = make_method(Method::adamw, model->parameters()); }
  void give_gradients(int step) const {
    uint64_t seed = static_cast<uint64_t>(step) * 100;
    for (const Tensor& p : model->parameters()) {
      p.set_grad(Tensor(slice_of(noise(whole_shape(p), kFloat32, ++seed), p)));
    }
  }
  void step(int number) {
    give_gradients(number);
    optimizer->step();
    optimizer->zero_grad();
  }
  void spoil() const {
    const NoGrad no_grad;
    for (const Tensor& p : model->parameters()) p.fill_(0.125);
  }
  dist::Checkpointer checkpointer(const std::string& run) {
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", *optimizer);
    return checkpoint;
  }
};

inline void on_grid(const Grid& grid, const std::function<void(GridRunner&)>& body) {
  if (grid.ranks() == 1) {
    const dist::Communicator alone;
    GridRunner runner(alone, grid);
    return body(runner);
  }
  dist::run_ranks(grid.ranks(), [&](dist::Communicator& world) {
    GridRunner runner(world, grid);
    body(runner);
  });
}

}  // namespace hero::test
