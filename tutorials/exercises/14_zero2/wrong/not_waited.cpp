// says: calls have not been waited for, and what they give is not there
#include <algorithm>

#include "exercises/14_zero2/exercise.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;

namespace exercise {

// Rank 0 owns the first counts[0] numbers, rank 1 the next counts[1], and so on. Of the numbers
// first, first + 1, ... first + count - 1, how many does each rank own?
std::vector<int64_t> owned(const std::vector<int64_t>& counts, int64_t first, int64_t count) {
  std::vector<int64_t> common;
  int64_t begin = 0;
  for (const int64_t part : counts) {
    const int64_t from = std::max(begin, first), to = std::min(begin + part, first + count);
    common.push_back(std::max<int64_t>(0, to - from));
    begin += part;
  }
  return common;
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
    shard_.set_grad(Tensor(my_gradient_));
    optimizer_.step();
    world_.all_gather(flat_, shard_.array(), {.counts = cut_.counts});
  }

 private:
  // Called in backward when the gradient of p is complete. The numbers of p are those at first,
  // first + 1, ... first + p.numel() - 1 of flat_.
  void gradient_is_complete(const Tensor& p, int64_t first) {
    const std::vector<int64_t> counts = owned(cut_.counts, first, p.numel());
    const int64_t at = std::clamp(first, cut_.begin, cut_.end) - cut_.begin;
    const Array mine = my_gradient_.slice(0, at, at + counts[world_.rank()]);
    world_.reduce_scatter(mine, p.grad().array(),
                          {.op = ReduceOp::mean, .async = true, .counts = counts});
    p.set_grad({});
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
