// Grades answers to exercise 13.
#include "exercises/13_zero1/exercise.h"
#include "exercises/support/ranks.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Network, exercise::require, exercise::Run;
using hero::MemoryTag;
using hero::dist::Communicator;

namespace {

enum Note : size_t { kParameters, kGradients, kOptimizer };

std::vector<Run> train(int ranks) {
  return exercise::run_ranks(ranks, [](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1);
    const auto optimizer = exercise::zero1(net, world, exercise::kSGD);
    require(optimizer != nullptr, "zero1() returns no object.");
    run.values.push_back(values_of(net));
    for (int step = 0; step < exercise::kSteps; ++step) {
      world.traffic().reset();
      optimizer->zero_grad();
      loss_of(net, step, world.rank()).backward();
      optimizer->step();
      run.values.push_back(values_of(net));
      run.sent = world.traffic().bytes();
    }
    for (const MemoryTag tag : {MemoryTag::parameter, MemoryTag::gradient, MemoryTag::optimizer}) {
      run.notes.push_back(hero::current_ledger().live(tag));
    }
  });
}

std::string bits(int ranks) {
  exercise::compare(train(ranks), exercise::train_alone(ranks));
  return "after 3 steps all parameters are bitwise those of one process.";
}

std::string traffic() {
  constexpr int kRanks = 4;
  const std::vector<Run> runs = train(kRanks);
  const int64_t numel = exercise::make_network(1).parameter_count();
  const auto cut = hero::dist::ChunkCounts::balanced(numel, kRanks);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const int64_t own = cut.count(static_cast<int>(rank)),
                  formula = 4 * (numel - own + (kRanks - 1) * own);
    require(runs[rank].sent == formula, "Rank ", rank, " sends ", grouped(runs[rank].sent),
            " bytes in a step. A reduce_scatter of the gradients and an all_gather of the "
            "parameters send ",
            grouped(formula), ".",
            2 * runs[rank].sent > 3 * formula - 8
                ? " Something travels that need not: each rank needs its own part of the "
                  "mean gradient only."
                : "");
  }
  return "rank 0 of 4 sends " + grouped(runs[0].sent) +
         " bytes in a step, by the formula 2 Psi (N - 1) / N " +
         grouped(4 * 2 * numel * (kRanks - 1) / kRanks) + ".";
}

std::string memory() {
  constexpr int kRanks = 4;
  const std::vector<Run> runs = train(kRanks);
  const int64_t numel = exercise::make_network(1).parameter_count();
  const auto cut = hero::dist::ChunkCounts::balanced(numel, kRanks);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const int64_t states = 4 * cut.count(static_cast<int>(rank));
    const std::vector<int64_t>& held = runs[rank].notes;
    require(held[kOptimizer] == states, "Rank ", rank, " of 4 keeps ", grouped(held[kOptimizer]),
            " bytes of momentum. By the formula Psi / N it is ", grouped(states), ".",
            held[kOptimizer] == 4 * numel
                ? " That is the momentum of all parameters: give the optimizer this "
                  "rank's part alone."
                : "");
    require(held[kParameters] <= 4 * numel && held[kGradients] <= 4 * numel, "Rank ", rank,
            " of 4 keeps ", grouped(held[kParameters]), " bytes of parameters and ",
            grouped(held[kGradients]), " of gradients, where ", grouped(4 * numel),
            " of each are needed: take windows, slice(), and no copies.");
  }
  return "rank 0 of 4 keeps " + grouped(runs[0].notes[kOptimizer]) +
         " bytes of momentum, by the formula Psi / N " + grouped(4 * numel / kRanks) + ".";
}

}  // namespace

int main() {
  const auto on = [](int ranks) { return [ranks] { return bits(ranks); }; };
  return exercise::grade("Exercise 13. ZeRO-1: every rank steps its own part",
                         {{"1 rank", on(1), exercise::kRanksHang},
                          {"2 ranks", on(2), exercise::kRanksHang},
                          {"3 ranks", on(3), exercise::kRanksHang},
                          {"4 ranks", on(4), exercise::kRanksHang},
                          {"bytes", traffic, exercise::kRanksHang},
                          {"memory", memory, exercise::kRanksHang}});
}
