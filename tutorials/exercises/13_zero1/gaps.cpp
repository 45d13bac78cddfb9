// 13. ZeRO-1: every rank steps its own part (chapter 14)
//
// The parameters of the network lie one behind the other in one array, the flat parameter, and the
// gradients in another one. Both are cut in one part a rank. Each rank keeps the optimizer's states
// of its own part only, takes the step for that part, and sends the result to the others.
//
// What is given, on a rank:
//   parameters_    an Array with all parameters, Psi numbers: the network computes with its
//                  memory
//   gradients_     an Array with all gradients, in the same order; backward adds to it
//   cut_.counts    how many numbers each rank owns
//   cut_.begin, cut_.end
//                  this rank owns the numbers begin, begin + 1, ... end - 1
//
// What you need of the library:
//   array.slice(0, begin, end)       these numbers of an array: a window on its memory, no copy
//                                    (0 is the dimension that is cut, here the only one)
//   hero::Tensor(array, true)        a parameter whose values are this array
//   hero::optim::SGD({p}, options)   an optimizer with one parameter p; it keeps states for p alone
//   p.set_grad(hero::Tensor(array))  the gradient that the optimizer's step() will use for p
//   world_.reduce_scatter(output, input, {.op = ReduceOp::mean, .counts = cut_.counts})
//                                    output becomes this rank's part of the mean of all ranks'
//                                    inputs
//   world_.all_gather(output, input, {.counts = cut_.counts})
//                                    output becomes all ranks' inputs, one behind the other
// The output of reduce_scatter may be this rank's own part of its input, and the input of
// all_gather its own part of the output.
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
    // WRITE 1: shard_ is this rank's part of the parameters, as one parameter, and optimizer_ an
    // SGD that has no other one. An optimizer is made by
    //   optimizer_ = std::make_unique<hero::optim::SGD>(std::vector<Tensor>{...}, options);
    to_write("1, the shard and its optimizer, in the constructor of ZeRO1.");
  }

  void zero_grad() override { Tensor(gradients_).zero_(); }

  void step() override {
    // WRITE 2: this rank's part of the mean gradient becomes the gradient of shard_. Then the step,
    // and then all ranks get all new parameters.
    to_write("2, the three parts of a step, in step().");
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
