#pragma once
// How the layers of a model are divided among the ranks of a pipeline, and what each rank keeps of
// the model for it.
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/communicator.h>
#include <hero/nn/pipeline_model.h>

namespace hero::dist {

/// The first layer of each stage, and the number of layers. `given` are the program's first layers,
/// or empty. Throws an Error if a stage would be empty or a layer left out.
std::vector<size_t> stage_begins(size_t layers, int stages, const std::vector<size_t>& given);

/// A parameter or buffer of the module and the ranks whose layers compute with it.
struct StageValue {
  std::string name;              ///< its first name, if it is tied
  std::vector<nn::Slot*> slots;  ///< all its slots; the first one has its initialiser
  Shape shape;                   ///< shape of the whole value
  std::vector<int> ranks;        ///< ranks whose layers use it, ascending

  const Tensor& leaf() const { return slots.front()->tensor; }
  bool is_on(int rank) const;
  /// Whether it is a parameter that several ranks hold, each of which computes a part of its
  /// gradient while it is trained.
  bool is_tied() const;
};

/// All values of the model's module, each once, in its order. Throws an Error that names a value
/// which belongs to no layer.
std::vector<StageValue> stage_values(nn::PipelineModel& model, const std::vector<size_t>& begins,
                                     int ranks);

/// The device on which this rank computes: that of its allocated values, or `planned` if all are on
/// meta; meta on simulated ranks.
Device device_of(const std::vector<StageValue>& values, const Communicator& pipe, Device planned);

/// Allocates this rank's values on `device` if they are on meta, and frees the values of other
/// ranks. Sets groups of the leaves that know that the other parameters are on the other ranks.
void keep_own_values(const std::vector<StageValue>& values, const Communicator& pipe,
                     Device device);

}  // namespace hero::dist
