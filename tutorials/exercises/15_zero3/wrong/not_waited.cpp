// says: calls have not been waited for, and what they give is not there
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
    if (has_memory(flat_)) return;
    give_memory(flat_);
    gather_into(flat_, shard_, cut_, world_);
  }

  void free() override {
    if (has_memory(flat_)) take_memory(flat_);
  }

 private:
  void before_forward() { gather(); }
  void after_forward() { free(); }
  void before_backward() { gather(); }

  // Called in backward for each of the layer's parameters, when its gradient is complete.
  void gradient_is_complete() {
    if (++ready_ < parameters_.size()) return;
    free();
    const Array mine = new_gradient(shard_.numel());
    world_.reduce_scatter(mine, pack(parameters_),
                          {.op = ReduceOp::mean, .async = true, .counts = cut_.counts});
    shard_.set_grad(Tensor(mine));
    for (const Tensor& p : parameters_) p.set_grad({});
    ready_ = 0;
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
