// 14. ZeRO-2: a gradient goes as soon as it is complete (chapter 15)
//
// As in ZeRO-1 every rank steps its own part of the flat parameter. But no rank keeps all
// gradients: when the gradient of one parameter is complete, it is reduced at once, each rank keeps
// the numbers that fall into its own part, and the memory of the whole gradient is free again while
// backward goes on.
//
// What is given, on a rank:
//   flat_          an Array with all parameters, one behind the other
//   cut_.counts    how many numbers of it each rank owns
//   cut_.begin, cut_.end
//                  this rank owns the numbers begin, begin + 1, ... end - 1
//   shard_         these numbers as one parameter, which optimizer_ steps
//   my_gradient_   an Array for this rank's part of the mean gradient
//
// What you need of the library:
//   array.slice(0, begin, end)       these numbers of an array: a window on its memory, no copy
//   p.grad().array()                 the gradient of p, for any shape of p
//   world_.reduce_scatter(output, input, {.op = ReduceOp::mean, .counts = counts})
//                                    output becomes this rank's part of the mean of all ranks'
//                                    inputs, where counts says how many numbers each rank gets:
//                                    0 is allowed
//   world_.all_gather(output, input, {.counts = cut_.counts})
//                                    output becomes all ranks' inputs, one behind the other
//   p.set_grad(hero::Tensor(array))  the gradient that the optimizer's step() will use for p
//   p.set_grad({})                   p has no gradient any more, and its memory is free
#include <algorithm>

#include "exercises/14_zero2/exercise.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;

namespace exercise {

// Rank 0 owns the first counts[0] numbers, rank 1 the next counts[1], and so on. Of the numbers
// first, first + 1, ... first + count - 1, how many does each rank own?
std::vector<int64_t> owned(const std::vector<int64_t>& counts, int64_t first, int64_t count) {
  // WRITE 1: for each rank, the numbers that its part and these have in common.
  to_write("1, owned().");
}

class ZeRO2 : public Optimizer {
 public:
  ZeRO2(hero::nn::Module& net, const Communicator& world, const hero::optim::SGDOptions& options)
      : world_(world),
        flat_(tutorial::flat_parameter_of(net)),
        cut_(world, flat_.numel()),
        shard_(flat_.slice(0, cut_.begin, cut_.end), true),
        my_gradient_(new_gradient(cut_.end - cut_.begin)),
        optimizer_({shard_}, options) {
    int64_t first = 0;  // the place of p's first number in flat_
    for (const Tensor& p : net.parameters()) {
      p.register_leaf_hook([this, first](const Tensor& q) { gradient_is_complete(q, first); });
      first += p.numel();
    }
  }

  Array gradient() const override { return my_gradient_; }

  void step() override {
    // WRITE 3: the step of this rank's part, and all ranks get all new parameters.
    to_write("3, step().");
  }

 private:
  // Called in backward when the gradient of p is complete. The numbers of p are those at first,
  // first + 1, ... first + p.numel() - 1 of flat_.
  void gradient_is_complete(const Tensor& p, int64_t first) {
    // WRITE 2: this rank's numbers of the mean gradient of p come to their place in my_gradient_,
    // which begins with number cut_.begin of flat_. Then the gradient of p goes.
    to_write("2, gradient_is_complete().");
  }

  const Communicator& world_;
  Array flat_;
  tutorial::Cut cut_;
  Tensor shard_;
  Array my_gradient_;
  hero::optim::SGD optimizer_;
};

std::unique_ptr<Optimizer> zero2(hero::nn::Module& net, const Communicator& world,
                                 const hero::optim::SGDOptions& options) {
  return std::make_unique<ZeRO2>(net, world, options);
}

}  // namespace exercise
