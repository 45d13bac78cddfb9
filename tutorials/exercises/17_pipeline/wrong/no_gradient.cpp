// says: with what receive_gradient(i) returns
#include <algorithm>

#include "exercises/17_pipeline/exercise.h"

using hero::Tensor;

namespace exercise {

class Schedules : public Pipeline {
 public:
  explicit Schedules(Stage& stage) : stage_(stage) {}

  void gpipe(int micro_batches) override {
    for (int i = 0; i < micro_batches; ++i) forward(i);
    for (int i = 0; i < micro_batches; ++i) backward(i, micro_batches);
  }

 private:
  void forward(int i) {
    const Tensor x = stage_.is_first() ? stage_.rows(i) : stage_.receive_input(i);
    x.requires_grad_();
    const Tensor y = stage_.compute(x);
    if (!stage_.is_last()) stage_.send_output(i, y);
    inputs_[i] = x;
    outputs_[i] = y;
  }

  void backward(int i, int micro_batches) {
    if (stage_.is_last()) {
      (stage_.loss(outputs_[i], i) / micro_batches).backward();
    } else {
      outputs_[i].backward();
    }
    if (!stage_.is_first()) stage_.send_gradient(i, inputs_[i].grad());
    inputs_.erase(i);
    outputs_.erase(i);
  }

 public:
  void one_f_one_b(int micro_batches) override {
    const int ahead = std::min(micro_batches, stage_.ranks() - 1 - stage_.rank());
    for (int i = 0; i < ahead; ++i) forward(i);
    for (int i = 0; i < micro_batches; ++i) {
      if (ahead + i < micro_batches) forward(ahead + i);
      backward(i, micro_batches);
    }
  }

 private:
  Stage& stage_;
  std::map<int, Tensor> inputs_, outputs_;  // of the micro-batches that are under way
};

std::unique_ptr<Pipeline> pipeline(Stage& stage) { return std::make_unique<Schedules>(stage); }

}  // namespace exercise
