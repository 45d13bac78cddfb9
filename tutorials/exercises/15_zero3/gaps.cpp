// 15. ZeRO-3: a layer is whole only while it computes (chapter 16)
//
// Every rank keeps its part of each layer, the shard. Before a layer computes, in forward and again
// in backward, its parameters are gathered from the shards of all ranks; afterwards their memory is
// given back. When the layer's gradients are complete, they become this rank's part of the mean
// gradient, and the whole gradients go.
//
// What is given, for one layer on a rank:
//   parameters_   the layer's parameters: windows on the flat parameter
//   flat_         the flat parameter, all numbers of the layer. Its memory comes and goes.
//   cut_          this rank owns the numbers cut_.begin ... cut_.end - 1; cut_.counts has how many
//                 numbers each rank owns
//   shard_        this rank's numbers, a parameter of its own, in memory that stays
//
// What you need (more in tutorials/exercises/15_zero3/exercise.h):
//   has_memory(flat_), give_memory(flat_), take_memory(flat_)
//   gather_into(flat_, shard_, cut_, world_)   fills flat_ with the shards of all ranks, and keeps
//                                              its version: for backward it is no write
//   pack(parameters_)                          the whole gradients, one behind the other, in a
//                                              new array
//   new_gradient(numel)                        a new array for so many numbers of a gradient
//   world_.reduce_scatter(output, input, {.op = ReduceOp::mean, .counts = cut_.counts})
//                                              output becomes this rank's part of the mean of the
//                                              inputs
//   shard_.set_grad(hero::Tensor(array))       the gradient that the optimizer will use
//   p.set_grad({})                             p has no gradient any more, and its memory is free
#include "exercises/15_zero3/exercise.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;

namespace exercise {

class ZeRO3 : public Layer {
 public:
  ZeRO3(hero::nn::Module& layer, const Communicator& world)
      : world_(world),
        parameters_(layer.parameters()),
        flat_(tutorial::flat_parameter_of(layer)),
        cut_(world, flat_.numel()) {
    flat_.storage().retag(hero::MemoryTag::communication);
    const hero::MemoryScope scope(hero::MemoryTag::parameter);
    shard_ = Tensor(flat_.slice(0, cut_.begin, cut_.end).clone(), true);
    take_memory(flat_);

    layer.register_forward_pre_hook([this](auto&...) { before_forward(); });
    layer.register_forward_hook([this](auto&...) { after_forward(); });
    layer.register_full_backward_pre_hook([this](auto&...) { before_backward(); });
    for (const Tensor& p : parameters_) {
      p.register_leaf_hook([this](const Tensor&) { gradient_is_complete(); });
    }
  }

  Tensor shard() const override { return shard_; }

  void gather() override {
    // WRITE 1: make the parameters whole, unless they are. Memory first, then the values.
    to_write("1, gather().");
  }

  void free() override {
    // WRITE 2: take the memory of the whole parameters away, unless that was done.
    to_write("2, free().");
  }

 private:
  // WRITE 3: what happens before the layer computes forward, after that, and before it computes
  // backward?
  void before_forward() { to_write("3, before_forward(), after_forward() and before_backward()."); }
  void after_forward() { to_write("3, before_forward(), after_forward() and before_backward()."); }
  void before_backward() {
    to_write("3, before_forward(), after_forward() and before_backward().");
  }

  // Called in backward for each of the layer's parameters, when its gradient is complete.
  void gradient_is_complete() {
    // WRITE 4: count in ready_. After the last gradient of the layer, backward needs its parameters
    // no more: free them. The shard gets its part of the mean gradient, and the whole gradients go.
    // Then ready_ begins anew, for the next step.
    to_write("4, gradient_is_complete().");
  }

  const Communicator& world_;
  std::vector<Tensor> parameters_;
  Array flat_;
  tutorial::Cut cut_;
  Tensor shard_;
  size_t ready_ = 0;  // how many gradients are complete in this backward
};

std::unique_ptr<Layer> zero3(hero::nn::Module& layer, const Communicator& world) {
  return std::make_unique<ZeRO3>(layer, world);
}

}  // namespace exercise
