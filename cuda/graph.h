#pragma once
// CUDA graphs of whole training steps: one call launches hundreds of kernels.
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/array.h>

namespace hero::cuda {

/// Options of GraphedStep.
struct GraphOptions {
  /// Number of calls that run as usual before one is captured; at least 1. They are training steps,
  /// too.
  int warmup = 2;
  /// False: the host code of the step does not run any more once it is captured. Elementwise
  /// optimizers (SGD, Adam, AdamW and their kind) are still advanced: each replay counts a step,
  /// uses the learning rate and other options of that moment, and Adam's bias corrections of that
  /// step. Throws an Error if any other number of the host differs between the last warm-up call
  /// and the captured one, or if the step itself changes options of its optimizer: call a scheduler
  /// between the calls. True: the host code of the step runs in every call and updates the graph,
  /// so that all numbers of the host are those of this call; the host is then as slow as without a
  /// graph.
  bool recapture = false;
  Device device{DeviceType::cuda, 0};  ///< the device of the step
};

/// A step that is captured once and then replayed. Each call is one step, bitwise identical to the
/// step without a graph:
///
///     cuda::GraphedStep step([&](const std::vector<Array>& in) {
///       Tensor loss = cross_entropy(model(Tensor(in[0])), Tensor(in[1]));
///       loss.backward(); sgd.step(); sgd.zero_grad();
///       return std::vector<Array>{loss.array()};
///     });
///     for (...) losses = step({tokens, targets});
///
/// The step must consist of work for the device: reading a value on the host (item(), to(kCpu),
/// printing) or copying from memory that is not page-locked ends the capture with an Error that
/// names the operation; the stream stays usable. Random numbers of the calling thread's default
/// generator differ in every call, as they do without a graph. Arrays that the step reads or writes
/// and did not make, such as parameters and optimizer states, must live as long as it is replayed,
/// and are changed in place.
class GraphedStep {
 public:
  using Step = std::function<std::vector<Array>(const std::vector<Array>& inputs)>;

  /// Makes a step. Throws an Error if the device is not available.
  explicit GraphedStep(Step step, const GraphOptions& options = {});
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;
  GraphedStep& operator=(const GraphedStep&) = delete;

  /// Makes one step with these inputs, on cpu or cuda, whose dtypes and shapes are those of the
  /// first call: they are copied to fixed arrays, which are passed to the step. Work is queued in
  /// the calling thread's current stream. Returns the arrays that the step returned; without
  /// recapture the next call overwrites them.
  std::vector<Array> operator()(const std::vector<Array>& inputs);

  /// True if a call has been captured.
  bool captured() const;
  /// The number of kernels and copies in the graph.
  int64_t nodes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::cuda
