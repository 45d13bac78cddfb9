#pragma once
// Chapters 14 to 16: what a rank holds under the strategies, and at the moments of a step.
#include <string>
#include <vector>

#include "support/lessons/data_parallel.h"
#include "support/pictures/plot.h"

namespace tutorial {

/// Gradients travel in messages of this size at least: a layer of the network each.
inline constexpr int64_t kBucketBytes = 1 << 18;

/// DDP where `stage` is 0, else ZeRO of that stage.
hero::dist::DataParallel apply_strategy(int stage, hero::nn::Module& net,
                                        const Communicator& world);

/// What the library should hold and send under a strategy, from the rows of its units: `held` of a
/// rank after backward, and `sent` in a step.
struct StrategyFormula {
  Bytes held;
  int64_t sent;
};
StrategyFormula formula_of(int stage, const Communicator& world,
                           const std::vector<hero::dist::UnitInfo>& units);

/// Trains under every strategy from 0 to `stage` and draws, as stacked bars, what rank 0 holds from
/// one step to the next and, up to the most that it held at once, what it held for a moment beside
/// that. Into folder/name.
void draw_strategies(int stage, const Communicator& world, const std::string& folder,
                     const std::string& name);

/// What a rank holds at the moments of a step.
class Moments {
 public:
  /// Notes what this rank holds from now on. A moment that has a name is written at the axis.
  void note(const std::string& name = {});
  /// Notes where each child of `net` begins forward and backward and where its forward has ended,
  /// after all hooks that it has by now. One in the middle is named.
  void watch(hero::nn::Module& net);
  /// Notes where each gradient is complete, after all hooks that its parameter has by now.
  void watch_gradients(hero::nn::Module& net);
  /// The areas of parameters, states, gradients and messages one above the other. Into folder/name.
  void draw(const std::string& title, const std::string& folder, const std::string& name) const;

 private:
  std::vector<Tick> ticks_;
  std::vector<Bytes> bytes_;
};

}  // namespace tutorial
