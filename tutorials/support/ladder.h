#pragma once
// Chapters 11 to 17: one small training run in many forms, and what each form costs.
#include <cstdint>
#include <string>
#include <vector>

#include "memory.h"
#include "ranks.h"

#include <hero/optim/optim.h>

namespace tutorial {

inline constexpr int kSteps = 5;
inline constexpr int64_t kRows = 16;  ///< images of a rank in a step
inline constexpr hero::optim::AdamOptions kAdam = {.lr = 1e-3};

/// The loss on the images that `rank` sees in a step: the same ones whoever asks.
hero::Tensor loss_of(hero::nn::Module& net, int step, int rank);

/// The network of chapter 9 with its first values.
Network make_network();

/// One process that takes the batches of all ranks, one after the other, and averages: what all
/// others are compared with. Says what is trained, and returns the parameters' bits.
uint64_t train_alone(const Communicator& world);

/// A number that differs where a bit differs.
uint64_t bits_of(const std::vector<hero::Tensor>& tensors);

/// \name All parameters, or zeros for all gradients, one behind the other in new memory, of which
/// each tensor of the module becomes a window.
/// \{
hero::Array parameters_in_a_row(const hero::nn::Module& net);
hero::Array gradients_in_a_row(const hero::nn::Module& net);
/// \}

/// A row cut in one part a rank.
struct Cut {
  Cut(const Communicator& world, int64_t numel);
  hero::Array mine(const hero::Array& row) const;

  std::vector<int64_t> counts;  ///< elements of each rank
  int64_t begin, end;           ///< of this rank's part
};

/// Elements of the row of a library's unit that has `numel`: it ends at a multiple of 8 elements a
/// rank, so that all ranks' parts are equal.
int64_t unit_row(const Communicator& world, int64_t numel);

/// \name Bytes that this rank sends when `numel` float32 numbers are cut in even parts
/// \{
int64_t reduce_scatter_bytes(const Communicator& world, int64_t numel);
int64_t all_gather_bytes(const Communicator& world, int64_t numel);
/// \}

/// Bytes of a rank by what they are for.
struct Bytes {
  int64_t parameters, gradients, optimizer, communication = 0;
};

/// What a run's last step held in the device's memory and sent, on rank 0, beside the formulas.
class Report {
 public:
  Report(const Communicator& world, std::string title);
  /// At the beginning of every step: forgets the one before.
  void step();
  /// Notes what the memory holds at this moment.
  void note(const std::string& moment);
  /// Notes the most that was held at once since the step began.
  void note_peak();
  /// The last step has ended: what follows is not counted.
  void stop();
  /// Prints the table. `bits`: of the parameters; `alone`: as they should be.
  void print(const Bytes& formula, int64_t sent_formula, uint64_t bits, uint64_t alone);

 private:
  const Communicator& world_;
  std::string title_;
  std::string lines_;
  int64_t sent_ = -1;  ///< when stop() was called
};

/// Puts a module on a rung of the ladder: the one line in which programs differ.
using Rung = std::function<hero::dist::DataParallel(hero::nn::Module& net, const Communicator&)>;

/// How a run ended: the parameters' bits, and the units in which the library moved them.
struct Trained {
  uint64_t bits;
  std::vector<hero::dist::UnitInfo> units;
};

/// The run with the library's help.
Trained train(const Rung& rung, const Communicator& world, Report& report);

}  // namespace tutorial
