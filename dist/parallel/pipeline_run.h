#pragma once
// PipelineRun: one pass of a batch through this rank's stages, as a plan of actions says.
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include <hero/autograd/graph/deferred.h>
#include <hero/dist/communicator.h>
#include <hero/dist/parallel/gradient_sync.h>
#include <hero/dist/parallel/messages.h>
#include <hero/dist/parallel/stage_outputs.h>

namespace hero::dist {

/// What all runs of a pipeline have in common.
struct PipelineParts {
  nn::Chain* chain;
  Communicator pipe;
  std::vector<size_t> begins;  ///< the first layer of each stage and, behind them, their number
  Device device;               ///< where messages arrive

  int stage(int chunk) const { return chunk * pipe.size() + pipe.rank(); }
  size_t begin(int stage) const { return begins[static_cast<size_t>(stage)]; }
  int stages() const { return static_cast<int>(begins.size()) - 1; }
};

/// What goes through: micro-batches, of which targets may be missing.
struct MicroBatches {
  std::vector<Tensor> x, target = {};
  std::vector<double> weights = {};  ///< of the micro-batches' losses; empty: all 1
  double scale = 1.0;                ///< of the loss
};

/// What the layers of all stages, one after the other, make of x: on the rank of the last stage,
/// undefined on the others. `run_stage(begin, end, x)` computes a stage's layers on its rank.
Tensor run_stages(const PipelineParts& parts, const std::vector<StageOutput>& outputs,
                  const Tensor& x,
                  const std::function<Tensor(size_t, size_t, const Tensor&)>& run_stage);

class PipelineRun {
 public:
  /// The last stage computes losses with targets, else the chain's output; `outputs` are those of
  /// a micro-batch. `splits`: gradients of weights are actions of their own.
  PipelineRun(const PipelineParts& parts, const MicroBatches& batches,
              const std::vector<StageOutput>& outputs, bool splits);

  /// Goes through all actions of this rank and returns when its messages are sent. `sync` is told
  /// before each action that makes gradients of parameters.
  void run(const MessagePlan& plan, const std::vector<std::vector<Message>>& receives,
           GradientSync& sync);
  /// On the last rank: the loss or the output of each micro-batch, without history.
  const std::vector<Tensor>& results() const { return results_; }

 private:
  // A micro-batch between its forward and backward through a chunk.
  struct Flight {
    Tensor input, output;
  };
  struct Sent {
    Work work;
    Array array;
    Tensor output;  // of which `array` has the bytes; undefined for a gradient
  };
  struct Received {
    Work work;
    Array array;
  };
  using Key = std::tuple<Action::Kind, int, int>;
  static Key key(const Action& a) { return {a.kind, a.chunk, a.micro}; }

  void post(const Message& message);
  void forward(const MessagePlan& plan, const Action& action);
  void backward(const MessagePlan& plan, const Action& action);
  Tensor gradient_of_input(const Action& action, const Flight& flight, const Tensor& gradient);
  void weights(const Action& action);
  void tell(GradientSync& sync, const Action& action, bool last) const;
  Array take(const Action& action);
  Tensor run_stage(int stage, const Tensor& x, int micro);
  Tensor share_of_loss(const Tensor& loss, int micro) const;
  void check_border(int stage, const Tensor& y) const;
  void hand_on(const MessagePlan& plan, const Action& action, const Array& array,
               const Tensor& output);
  void release_sent();

  const PipelineParts& parts_;
  const MicroBatches& batches_;
  const std::vector<StageOutput>& outputs_;
  int rank_;
  bool splits_;
  std::map<Key, Received> arriving_;       // what other stages made, by what waits for it
  std::map<Key, Flight> flights_;          // by the backward to come
  std::map<Key, DeferredBackward> rests_;  // by the gradients of weights to come
  std::list<Sent> sent_;
  std::vector<Tensor> results_;
};

}  // namespace hero::dist
