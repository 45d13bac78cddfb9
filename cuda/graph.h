#pragma once
// CUDA graphs of whole training steps: hundreds of kernels are launched at once.
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/array.h>

namespace hero::cuda {

/// Options of GraphedStep.
struct GraphOptions {
  /// Number of calls that run as usual before one is captured; at least 1. They are steps like all
  /// others.
  int warmup = 2;
  /// False: the host code does not run any more once it is captured. Elementwise optimizers (SGD,
  /// Adam, AdamW and their kind) go on: each replay counts a step, takes learning rate and other
  /// options as they are now, and has Adam's corrections of that step. Another number of the host
  /// that differs between the last warm-up call and the captured one is an Error, and so is a call
  /// that changes options of its optimizer: a schedule steps between the calls.
  /// True: the host code of the step runs in every call and the graph is updated, so that all
  /// numbers are those of this step; the host is then as slow as without a graph.
  bool recapture = false;
  Device device{DeviceType::cuda, 0};  ///< the device of the step
};

/// A step that is captured once and then replayed. Each call is one step, with the bits that it has
/// without a graph:
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
  /// first call: they are copied to fixed arrays, which are passed to the step. Work is in the
  /// order of the calling thread's current stream. Returns what the step returned, which without
  /// recapture the next call overwrites.
  std::vector<Array> operator()(const std::vector<Array>& inputs);

  /// True if there is a graph.
  bool captured() const;
  /// The number of kernels and copies in the graph.
  int64_t nodes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::cuda
