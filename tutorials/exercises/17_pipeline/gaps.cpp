// 17. A pipeline: GPipe, then 1F1B (chapter 13)
//
// Each rank has some layers of the model, its stage. A micro-batch goes forward from the first rank
// to the last; then its gradient comes back. You write what a rank does for one micro-batch,
// forward and backward, and then the order in which it does so for all of them.
//
// What is given, on a rank (more in tutorials/exercises/17_pipeline/exercise.h):
//   stage_.is_first(), stage_.is_last()   whether there is no rank before it, or after it
//   stage_.rows(i)                        on the first rank: what goes into micro-batch i
//   stage_.receive_input(i)               on the others: waits for what the rank before has sent
//   stage_.compute(x)                     what this rank's layers make of it
//   stage_.send_output(i, y)              on all but the last: y begins to travel
//   stage_.loss(y, i)                     on the last: the mean loss of micro-batch i
//   stage_.receive_gradient(i)            on the others: waits for the gradient of y
//   stage_.send_gradient(i, gradient)     on all but the first: the gradient of x begins to travel
//   x.requires_grad_()                    from now on backward makes a gradient for x: x.grad()
//   value.backward()                      backward from one number
//   y.backward(gradient)                  backward from a tensor whose gradient is known
#include <algorithm>

#include "exercises/17_pipeline/exercise.h"

using hero::Tensor;

namespace exercise {

class Schedules : public Pipeline {
 public:
  explicit Schedules(Stage& stage) : stage_(stage) {}

  void gpipe(int micro_batches) override {
    // WRITE 1: all forwards, then all backwards, both from micro-batch 0 on.
    to_write("1, gpipe().");
  }

 private:
  void forward(int i) {
    // WRITE 2: where does x come from, and where does y go? Backward will need both of them.
    to_write("2, forward().");
  }

  void backward(int i, int micro_batches) {
    // WRITE 3: backward begins with the loss on the last rank, and with a gradient on the others.
    // The batch's loss is the mean over all micro-batches. What is not needed any more goes.
    to_write("3, backward().");
  }

 public:
  void one_f_one_b(int micro_batches) override {
    // WRITE 4: a rank begins with as many forwards as there are ranks behind it. Then it does one
    // forward and one backward in turn, as long as there are forwards, and at last the backwards
    // that are left.
    to_write("4, one_f_one_b().");
  }

 private:
  Stage& stage_;
  std::map<int, Tensor> inputs_, outputs_;  // of the micro-batches that are under way
};

std::unique_ptr<Pipeline> pipeline(Stage& stage) { return std::make_unique<Schedules>(stage); }

}  // namespace exercise
