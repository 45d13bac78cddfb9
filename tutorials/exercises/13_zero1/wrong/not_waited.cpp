// says: calls have not been waited for, and what they give is not there
#include "exercises/13_zero1/exercise.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;

namespace exercise {

class ZeRO1 : public Optimizer {
 public:
  ZeRO1(hero::nn::Module& net, const Communicator& world, const hero::optim::SGDOptions& options)
      : world_(world),
        parameters_(tutorial::flat_parameter_of(net)),
        gradients_(tutorial::flat_gradient_of(net)),
        cut_(world, parameters_.numel()) {
    shard_ = Tensor(parameters_.slice(0, cut_.begin, cut_.end), true);
    optimizer_ = std::make_unique<hero::optim::SGD>(std::vector<Tensor>{shard_}, options);
  }

  void zero_grad() override { Tensor(gradients_).zero_(); }

  void step() override {
    const Array mine = gradients_.slice(0, cut_.begin, cut_.end);
    world_.reduce_scatter(mine, gradients_, {.op = ReduceOp::mean, .counts = cut_.counts});
    shard_.set_grad(Tensor(mine));
    optimizer_->step();
    world_.all_gather(parameters_, shard_.array(), {.async = true, .counts = cut_.counts});
  }

 private:
  const Communicator& world_;
  Array parameters_, gradients_;
  tutorial::Cut cut_;
  Tensor shard_;
  std::unique_ptr<hero::optim::SGD> optimizer_;
};

std::unique_ptr<Optimizer> zero1(hero::nn::Module& net, const Communicator& world,
                                 const hero::optim::SGDOptions& options) {
  return std::make_unique<ZeRO1>(net, world, options);
}

}  // namespace exercise
