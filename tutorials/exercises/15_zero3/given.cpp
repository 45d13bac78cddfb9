#include <algorithm>
#include <cmath>

#include "exercises/15_zero3/exercise.h"

#include <hero/core/ledger.h>

namespace exercise {

using hero::Array, hero::Tensor;

Array pack(const std::vector<Tensor>& parameters) {
  const hero::NoGrad no_grad;
  std::vector<Tensor> pieces;
  hero::check(std::any_of(parameters.begin(), parameters.end(),
                          [](const Tensor& p) { return p.grad().defined(); }),
              "pack: none of the ", parameters.size(),
              " parameters has a gradient: pack them when the last one is complete, and before "
              "p.set_grad({}), which takes them away");
  for (const Tensor& p : parameters) {
    hero::check(
        p.grad().defined(), "pack: a parameter of shape ", p.shape(),
        " has no gradient yet: the count of complete gradients has to reach the number of the "
        "layer's parameters, and begins anew in every step");
    pieces.push_back(p.grad().flatten());
  }
  const hero::MemoryScope scope(hero::MemoryTag::communication);
  return cat(pieces).array();
}

Array new_gradient(int64_t numel) {
  const hero::MemoryScope scope(hero::MemoryTag::gradient);
  return Array::full({numel}, std::nan(""), hero::kFloat32);  // shows what is never written
}

void take_memory(const Array& flat) { flat.storage().release(); }
void give_memory(const Array& flat) { flat.storage().refill(); }
bool has_memory(const Array& flat) { return !flat.storage().released(); }

// Gathering writes to the flat parameter, but the values are those that forward saw: the version,
// by which backward notices writes, is set back.
void gather_into(const Array& flat, const Tensor& shard, const tutorial::Cut& cut,
                 const hero::dist::Communicator& world) {
  hero::check(has_memory(flat),
              "gather_into: the flat parameter has no memory for the shards: give_memory(flat_) "
              "comes first");
  const uint32_t version = flat.storage().version();
  world.all_gather(flat, shard.array(), {.counts = cut.counts});
  flat.storage().restore_version(version);
}

}  // namespace exercise
