#pragma once
// PipelineRun: runs this rank's actions of one step of a pipeline.
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

/// The data that all runs of a pipeline share.
struct PipelineParts {
  nn::PipelineModel* model;
  Communicator pipe;
  std::vector<size_t> begins;  ///< the first layer of each stage, and the number of layers
  Device device;               ///< device on which messages are received

  int stage(int chunk) const { return chunk * pipe.size() + pipe.rank(); }
  size_t begin(int stage) const { return begins[static_cast<size_t>(stage)]; }
  int stages() const { return static_cast<int>(begins.size()) - 1; }
};

/// The micro-batches of a run; targets may be missing.
struct MicroBatches {
  std::vector<Tensor> x, target = {};
  std::vector<double> weights = {};  ///< weights of the micro-batches' losses; empty: all 1
  double scale = 1.0;                ///< factor of the loss
};

/// Runs the layers of all stages on x, one stage after the other. Returns the output on the rank of
/// the last stage, and an undefined tensor on the others. `run_stage(begin, end, x)` computes a
/// stage's layers on its rank.
Tensor run_stages(const PipelineParts& parts, const std::vector<StageOutput>& outputs,
                  const Tensor& x,
                  const std::function<Tensor(size_t, size_t, const Tensor&)>& run_stage);

class PipelineRun {
 public:
  /// The last stage computes losses if there are targets, otherwise the model's output. `outputs`
  /// are the stages' outputs for one micro-batch. `splits`: gradients of weights are actions of
  /// their own.
  PipelineRun(const PipelineParts& parts, const MicroBatches& batches,
              const std::vector<StageOutput>& outputs, bool splits);

  /// Runs all actions of this rank and waits until its messages are sent. `sync` is called before
  /// each action that computes gradients of parameters.
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
    Tensor output;  // the tensor whose bytes `array` has; undefined for a gradient
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
  std::map<Key, Received> arriving_;  // inputs from other stages, by the action that needs them
  std::map<Key, Flight> flights_;     // by their later backward
  std::map<Key, DeferredBackward> rests_;  // by their later action `weights`
  std::list<Sent> sent_;
  std::vector<Tensor> results_;
};

}  // namespace hero::dist
