#pragma once
// How the layers of a chain are divided among the ranks of a pipeline, and what each rank keeps of
// the model for it.
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/communicator.h>
#include <hero/nn/chain.h>

namespace hero::dist {

/// The first layer of each stage and, behind them, the number of layers. `given` is what the
/// program asked for, or empty. An Error where stages would be empty or layers left out.
std::vector<size_t> stage_begins(size_t layers, int stages, const std::vector<size_t>& given);

/// A parameter or buffer of the module and the ranks whose layers compute with it.
struct StageValue {
  std::string name;              ///< the first one, where it is tied
  std::vector<nn::Slot*> slots;  ///< every place; the first one has its recipe
  Shape shape;                   ///< of the whole, with which layers compute on all ranks together
  std::vector<int> ranks;        ///< ascending

  const Tensor& leaf() const { return slots.front()->tensor; }
  bool is_on(int rank) const;
  /// A parameter that several ranks hold, each of which has a part of its gradient.
  bool is_tied() const;
};

/// All values of the chain's module, each once, in its order. An Error names one that belongs to no
/// layer.
std::vector<StageValue> stage_values(nn::Chain& chain, const std::vector<size_t>& begins,
                                     int ranks);

/// Where this rank computes: where its values have bytes, or else `planned`; on simulated ranks
/// meta.
Device device_of(const std::vector<StageValue>& values, const Communicator& pipe, Device planned);

/// Gives this rank's values bytes on `device` where they are on meta and takes the others' away.
/// Each leaf's owners know from now on that other parameters lie with the other ranks.
void keep_own_values(const std::vector<StageValue>& values, const Communicator& pipe,
                     Device device);

}  // namespace hero::dist
