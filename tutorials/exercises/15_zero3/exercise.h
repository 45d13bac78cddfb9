#pragma once
// Exercise 15: what an answer is given, and the class that it defines.
#include <memory>
#include <vector>

#include "exercises/support/answer.h"
#include "support/lessons/data_parallel.h"

namespace exercise {

/// One layer of a network under ZeRO-3: its parameters are whole only while it computes.
class Layer {
 public:
  virtual ~Layer() = default;
  /// This rank's part of the layer's parameters, as one parameter: what the optimizer steps.
  virtual hero::Tensor shard() const = 0;
  /// Makes the layer's parameters whole, from the shards of all ranks; does nothing if they are.
  virtual void gather() = 0;
  /// Takes the memory of the whole parameters away; does nothing if that was done.
  virtual void free() = 0;
};

/// The answer: puts a layer under its class, hooks included.
std::unique_ptr<Layer> zero3(hero::nn::Module& layer, const hero::dist::Communicator& world);

/// The gradients of these parameters, one behind the other in one new array.
hero::Array pack(const std::vector<hero::Tensor>& parameters);
/// A new array for a gradient of `numel` numbers.
hero::Array new_gradient(int64_t numel);
/// Takes the memory of a flat parameter away, or gives it memory again, whose values are not those
/// of before. The parameters are windows on it and stay what they are.
void take_memory(const hero::Array& flat);
void give_memory(const hero::Array& flat);
/// Whether it has memory.
bool has_memory(const hero::Array& flat);
/// Fills a flat parameter with the shards of all ranks, which are cut by `cut`.
void gather_into(const hero::Array& flat, const hero::Tensor& shard, const tutorial::Cut& cut,
                 const hero::dist::Communicator& world);

}  // namespace exercise
