// Grades answers to exercise 13.
#include "exercises/13_zero1/exercise.h"
#include "exercises/support/ranks.h"
#include "exercises/support/under_way.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Network, exercise::require, exercise::Run;
using hero::MemoryTag;
using hero::dist::Communicator;

namespace {

enum Note : size_t { kOptimizer, kHeld, kMostHeld };

std::vector<Run> train(int ranks) {
  return exercise::run_ranks(ranks, [](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1);
    const auto optimizer = exercise::zero1(net, world, exercise::kSGD);
    require(optimizer != nullptr, "zero1() returns no object.");
    run.values.push_back(values_of(net));
    hero::Ledger& ledger = hero::current_ledger();
    for (int step = 0; step < exercise::kSteps; ++step) {
      world.traffic().reset();
      optimizer->zero_grad();
      loss_of(net, step, world.rank()).backward();
      ledger.reset_peak();
      const exercise::UnderWay under_way;
      try {
        optimizer->step();
      } catch (const hero::Error& error) {
        require(std::string(error.what()).find("undefined") == std::string::npos,
                "In step() a tensor has no value (", error.what(),
                "). Is it shard_? `Tensor shard_ = ..` in the constructor makes another variable, "
                "which hides the member; without its type, `shard_ = ..` sets the member.");
        throw;
      }
      under_way.require_complete("step()");
      run.notes = {ledger.live(MemoryTag::optimizer), exercise::held_bytes(),
                   exercise::most_held_bytes()};
      run.values.push_back(values_of(net));
      run.sent = world.traffic().bytes();
    }
  });
}

std::string bits(int ranks) {
  const std::vector<Run> runs = train(ranks);
  const exercise::Alone alone = exercise::train_alone(ranks);
  require(
      exercise::first_difference(runs[0].values[1], alone.means[0]).found,
      "After step 1 the parameters are the mean gradients. What all_gather gives to all ranks is "
      "this rank's new parameters, shard_.array().");
  exercise::compare(runs, alone);
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
    const int64_t all = 8 * numel + states;
    require(held[kHeld] <= all, "Rank ", rank, " of 4 holds ", grouped(held[kHeld]),
            " bytes after a step. All parameters, all gradients and its part of the momentum have ",
            grouped(all), ".",
            held[kHeld] >= all + 4 * numel
                ? " As much as all parameters lies beside them once more: shard_ is a window, "
                  "slice(), on parameters_ itself and not on a clone of it."
                : " A copy of this rank's part lies beside the whole: take windows, slice(), of "
                  "parameters_ and of gradients_, and no clone() or new array.");
    require(held[kMostHeld] <= all + states, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostHeld]), " bytes in step(), and ", grouped(all),
            " after it. Another whole array is made and given back: the output of all_gather is "
            "parameters_, and that of reduce_scatter one part.");
  }
  const std::vector<int64_t>& first = runs[0].notes;
  return "rank 0 of 4 keeps " + grouped(first[kOptimizer]) +
         " bytes of momentum, by the formula Psi / N " + grouped(4 * numel / kRanks) +
         "; with all parameters and gradients it holds " + grouped(first[kHeld]) +
         ", by the formula 2 Psi + Psi / N " + grouped(8 * numel + 4 * numel / kRanks) + ".";
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
