#pragma once
// Chapters 11 to 17: one small training run in many forms, and what each form costs.
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/options/ranks.h"

#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace tutorial {

inline constexpr int kSteps = 5;
inline constexpr int64_t kRows = 16;  ///< images of a rank in a step
inline constexpr hero::optim::AdamOptions kAdam = {.lr = 1e-3};

// [snippet: network]
/// Ten equal layers, each of which adds to its input, and a head for ten classes. An image has
/// 16 x 16 pixels.
struct DeepNetwork : hero::nn::Module {
  DeepNetwork() {
    for (int i = 1; i <= 10; ++i) {
      layers.push_back(&add<hero::nn::Linear>("fc" + std::to_string(i), 256, 256));
    }
    head = &add<hero::nn::Linear>("head", 256, 10);
  }
  hero::Tensor forward(const hero::Tensor& x) override {
    hero::Tensor h = x;
    for (hero::nn::Linear* layer : layers) h = h + relu((*layer)(h));
    return (*head)(h);
  }
  std::vector<hero::nn::Linear*> layers;
  hero::nn::Linear* head;
};
// [end]

/// The loss on the images of `rank`, which are the same in every step and whoever asks.
hero::Tensor loss_of(hero::nn::Module& net, int rank);

/// The network with its first values.
DeepNetwork make_network();

/// One process that takes the batches of all ranks, one after the other, and averages: what all
/// others are compared with. Says what is trained, and returns the parameters' bits.
uint64_t train_alone(const Communicator& world);

/// A number that differs where a bit differs.
uint64_t bits_of(const std::vector<hero::Tensor>& tensors);

/// \name All parameters, or zeros for all gradients, one behind the other in new memory, of which
/// each tensor of the module becomes a window.
/// \{
hero::Array flat_parameter_of(const hero::nn::Module& net);
hero::Array flat_gradient_of(const hero::nn::Module& net);
/// \}

/// A flat parameter cut in one shard a rank.
struct Cut {
  Cut(const Communicator& world, int64_t numel);
  hero::Array mine(const hero::Array& flat) const;

  std::vector<int64_t> counts;  ///< elements of each rank
  int64_t begin, end;           ///< of this rank's part
};

/// \name Bytes that this rank sends when `numel` float32 numbers are cut in even parts
/// \{
int64_t reduce_scatter_bytes(const Communicator& world, int64_t numel);
int64_t all_gather_bytes(const Communicator& world, int64_t numel);
/// \}

/// Bytes of a rank by what they are for; `activations` are those of the batch, too.
struct Bytes {
  int64_t parameters, gradients, optimizer, communication = 0, activations = 0;
  /// Without activations.
  int64_t sum() const { return parameters + gradients + optimizer + communication; }
};

/// What a run's last step held in the device's memory and sent, on rank 0, beside the formulas; and
/// the loss of every step.
class Report {
 public:
  Report(const Communicator& world, std::string title);
  /// From now on a step begins where `net` begins forward, before all hooks that it has by now, and
  /// is noted again where forward has ended. Its end is told by end().
  void watch(hero::nn::Module& net);
  /// A step has ended, of which this rank's loss was `loss`.
  void end(const hero::Tensor& loss);
  /// Prints the table. `formula`: what rank 0 should hold after a step, without activations;
  /// `bits`: of the parameters; `alone`: as they should be.
  void print(const Bytes& formula, int64_t sent_formula, uint64_t bits, uint64_t alone);

  const std::string& title() const { return title_; }
  /// What this rank held after the last step.
  const Bytes& held() const { return held_; }
  /// The most that it held at once in the last step, activations included.
  int64_t peak() const { return peak_; }
  /// Seconds of this rank's shortest step.
  double seconds() const { return seconds_; }
  /// Bytes that it sent in the last step.
  int64_t sent() const { return sent_; }

 private:
  void begin();
  void line(const std::string& moment, const Bytes& bytes, int64_t together);

  const Communicator& world_;
  std::string title_;
  std::string lines_;
  Bytes held_ = {};
  int64_t peak_ = 0, sent_ = 0;
  std::vector<double> losses_;  // of this rank
  std::chrono::steady_clock::time_point begin_;
  double seconds_ = std::numeric_limits<double>::infinity();
};

/// With --link: prints how long the shortest step of each run took on rank 0, beside the time that
/// its bytes alone take on a link of `link` bytes per second. Without, when that is 0, nothing.
void show_times(const Communicator& world, double link, const std::vector<const Report*>& runs);

/// "2.3464 1.7123": the mean over the ranks of the numbers that each of them has, with four
/// decimals. All ranks call it.
std::string means_of(const Communicator& world, const std::vector<double>& mine);

/// Puts a module under a strategy: the one line in which programs differ.
using Strategy =
    std::function<hero::dist::DataParallel(hero::nn::Module& net, const Communicator&)>;

/// How a run ended: the parameters' bits, and the units in which the library moved them.
struct Trained {
  uint64_t bits;
  std::vector<hero::dist::UnitInfo> units;
};

/// The run with the library's help.
Trained train(const Strategy& strategy, const Communicator& world, Report& report);

}  // namespace tutorial
