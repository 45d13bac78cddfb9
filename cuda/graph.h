#pragma once
// CUDA graphs of whole training steps: hundreds of kernels are given to the GPU as one thing.
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/array.h>

namespace hero::cuda {

struct GraphOptions {
  /// Calls that run as they are before one is captured; at least 1. They are steps like all others.
  int warmup = 2;
  /// The step's host code runs in every call and its graph is updated, so that numbers which change
  /// from step to step (learning rates, Adam's corrections) are always those of this step. Nothing
  /// like PyTorch's `capturable` makes Adam do without: step counts and rates are numbers of the
  /// host, where state dicts, schedules and option() read and set them.
  /// Without it the host code runs no more once captured: quicker, and an error where the last
  /// warm-up call and the captured one differ in such a number.
  bool recapture = false;
  Device device{DeviceType::cuda, 0};
};

/// A step that is captured once and replayed. Each call is one step, with the bits it would have
/// without a graph:
///
///     cuda::GraphedStep step([&](const std::vector<Array>& in) {
///       Tensor loss = cross_entropy(model(Tensor(in[0])), Tensor(in[1]));
///       loss.backward(); sgd.step(); sgd.zero_grad();
///       return std::vector<Array>{loss.array()};
///     });
///     for (...) losses = step({tokens, targets});
///
/// What the step does must be work of the device: a host read (item(), to(kCpu), printing), a copy
/// from memory that is not page-locked end the capture with an error that names the operation; the
/// stream stays usable. Random numbers of the calling thread's default generator are other ones in
/// every call, the same as without a graph. Arrays that the step reads or writes and did not make
/// (parameters, optimizer states) must live as long as it is replayed and are changed in place.
class GraphedStep {
 public:
  using Step = std::function<std::vector<Array>(const std::vector<Array>& inputs)>;

  /// Throws where the device is not available.
  explicit GraphedStep(Step step, const GraphOptions& options = {});
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;
  GraphedStep& operator=(const GraphedStep&) = delete;

  /// One step on these inputs, cpu or cuda, whose dtypes and shapes are those of the first call:
  /// they are copied to fixed arrays, which the step sees. Work is given in the order of the
  /// calling thread's current stream. What the step returned; without recapture the next call
  /// overwrites it.
  std::vector<Array> operator()(const std::vector<Array>& inputs);

  /// Whether a graph is there.
  bool captured() const;
  /// Kernels and copies of the graph.
  int64_t nodes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::cuda
