// Grades answers to exercise 15.
#include <algorithm>
#include <cmath>
#include <list>

#include "exercises/15_zero3/exercise.h"
#include "exercises/support/ranks.h"
#include "exercises/support/under_way.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Layer, exercise::Network, exercise::require, exercise::Run;
using hero::MemoryTag, hero::Tensor;
using hero::dist::Communicator;

namespace {

enum Note : size_t {
  kParameters,
  kGradients,
  kOptimizer,
  kWhole,
  kMostWhole,
  kLeft,
  kMostHeld,
  kHeld
};

// The numbers of each shard.
std::vector<std::vector<float>> numbers_of(const std::vector<Tensor>& shards) {
  std::vector<std::vector<float>> numbers;
  for (const Tensor& shard : shards) numbers.push_back(shard.to_vector<float>());
  return numbers;
}

// What backward leaves in shards that had the numbers `before`: looks for a reduce_scatter that was
// given the wrong arrays.
void look_at(const std::vector<Tensor>& shards, const std::vector<std::vector<float>>& before) {
  const std::string given =
      "reduce_scatter(output, input, ...) takes the whole gradients, pack(parameters_), and writes "
      "to new_gradient(shard_.numel()), which set_grad() is given.";
  const auto none = [](float value) { return std::isnan(value); };
  for (size_t i = 0; i < shards.size(); ++i) {
    require(shards[i].to_vector<float>() == before[i],
            "Backward has changed the values of a shard, which the optimizer alone may do: shard_ "
            "is not where the gradient goes. ",
            given);
    if (!shards[i].grad().defined()) continue;
    const std::vector<float> gradient = shards[i].grad().to_vector<float>();
    require(gradient != before[i],
            "The gradient of a shard has the values of its parameters: these were sent, and not "
            "their gradients. ",
            given);
    require(
        gradient.empty() || !std::all_of(gradient.begin(), gradient.end(), none),
        "The gradient of a shard is the array of new_gradient(), to which nothing was written. ",
        given);
  }
}

std::vector<Run> train(int ranks) {
  return exercise::run_ranks(ranks, [](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1);
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<Tensor> shards;
    for (hero::nn::Module* module : net.children()) {
      layers.push_back(exercise::zero3(*module, world));
      require(layers.back() != nullptr, "zero3() returns no object.");
      shards.push_back(layers.back()->shard());
      require(shards.back().defined(), "shard() is undefined.");
    }
    const auto note_values = [&] {
      for (const auto& layer : layers) layer->gather();
      run.values.push_back(values_of(net));
      for (const auto& layer : layers) layer->free();
    };
    note_values();
    hero::optim::SGD sgd(shards, exercise::kSGD);
    hero::Ledger& ledger = hero::current_ledger();
    for (int step = 0; step < exercise::kSteps; ++step) {
      world.traffic().reset();
      ledger.reset_peak();
      sgd.zero_grad();
      const auto before = numbers_of(shards);
      const exercise::UnderWay under_way;
      const Tensor loss = loss_of(net, step, world.rank());
      const int64_t whole = ledger.live(MemoryTag::communication);
      loss.backward();
      const int64_t gradients = ledger.live(MemoryTag::gradient);
      const int64_t left = ledger.live(MemoryTag::communication);
      const int64_t most_held = exercise::most_held_bytes();
      under_way.require_complete("backward");
      look_at(shards, before);
      sgd.step();
      run.sent = world.traffic().bytes();
      run.notes = {ledger.live(MemoryTag::parameter),
                   gradients,
                   ledger.live(MemoryTag::optimizer),
                   whole,
                   ledger.peak(MemoryTag::communication),
                   left,
                   most_held};
      note_values();
    }
    run.notes.push_back(exercise::held_bytes());
  });
}

// Numbers of each layer.
std::vector<int64_t> sizes() {
  std::vector<int64_t> list;
  const Network net = exercise::make_network(1);
  for (hero::nn::Module* layer : net.children()) list.push_back(layer->parameter_count());
  return list;
}

// The same, which says why a layer finds no memory, and what reduce_scatter should be given.
std::vector<Run> train_or_say(int ranks) {
  try {
    return train(ranks);
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    const auto says = [&](const std::string& what) { return text.find(what) != std::string::npos; };
    if (says("reduce_scatter: the output has")) {
      throw exercise::Wrong("It throws an error: " + text +
                            ". The output is this rank's part of the mean gradient, as long as its "
                            "shard: new_gradient(shard_.numel()).");
    }
    if (says("reduce_scatter: the input has")) {
      throw exercise::Wrong("It throws an error: " + text +
                            ". The input is the gradients of all parameters of the layer, one "
                            "behind the other: pack(parameters_).");
    }
    if (!says("its storage is released")) throw;
    for (const int64_t size : sizes()) {  // no parameter has as many numbers as a layer
      if (!says("array [" + std::to_string(size) + "]")) continue;
      throw exercise::Wrong("It throws an error: " + text +
                            ". That is flat_, the parameters of a layer, which has no memory "
                            "then. Gradients have other arrays: reduce_scatter takes "
                            "pack(parameters_), and writes to "
                            "new_gradient(shard_.numel()).");
    }
    throw exercise::Wrong(
        "It throws an error: " + text +
        ". A layer computes, and its parameters have no memory: they are gathered "
        "before forward and again before backward.");
  }
}

std::string bits(int ranks) {
  const std::vector<Run> runs = train_or_say(ranks);
  try {
    exercise::compare(runs, exercise::train_alone(ranks));
  } catch (const exercise::Wrong& wrong) {
    if (runs[0].notes[kLeft] == 0) throw;
    throw exercise::Wrong(
        std::string(wrong.what()) +
        " A layer is still whole after backward, so the next gather() does "
        "nothing, and new shards never reach it: free() after its last gradient.");
  }
  return "after 3 steps all parameters are bitwise those of one process.";
}

// gather() and free() by themselves, on two ranks: what each does, and that the second call in a
// row does nothing.
std::string calls() {
  exercise::run_ranks(2, [](const Communicator& world, Run&) {
    Network net = exercise::make_network(1);
    const auto layer = exercise::zero3(net.second, world);
    require(layer != nullptr, "zero3() returns no object.");
    const hero::Ledger& ledger = hero::current_ledger();
    const int64_t size = 4 * net.second.parameter_count();
    const std::string rank = "Rank " + std::to_string(world.rank());
    layer->gather();
    require(ledger.live(MemoryTag::communication) == size, rank, " holds ",
            grouped(ledger.live(MemoryTag::communication)),
            " bytes of a whole layer after gather(), and the layer has ", grouped(size),
            ": give_memory(flat_).");
    require(world.traffic().calls() == 1, rank, " makes ", world.traffic().calls(),
            " calls in gather(), and one all_gather is needed: every rank has to call "
            "gather_into(), since each has a part that the others need.");
    layer->gather();
    require(world.traffic().calls() == 1, rank,
            " gathers again when gather() is called for a layer that is whole. Its values are "
            "there: ask has_memory(flat_) first.");
    layer->free();
    layer->free();
    require(ledger.live(MemoryTag::communication) == 0, rank, " holds ",
            grouped(ledger.live(MemoryTag::communication)),
            " bytes of a whole layer after free(): take_memory(flat_).");
  });
  return "gather() and free() act on every rank, and only once.";
}

constexpr int kRanks = 4;

std::string memory() {
  const std::vector<Run> runs = train(kRanks);
  int64_t largest = 0, psi = 0;
  const int64_t alone = exercise::most_without_gradients(exercise::Gone::with_layer);
  for (const int64_t size : sizes()) largest = std::max(largest, 4 * size), psi += 4 * size;
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    int64_t own = 0;
    for (const int64_t size : sizes()) {
      own += 4 * hero::dist::ChunkCounts::balanced(size, kRanks).count(static_cast<int>(rank));
    }
    const std::vector<int64_t>& held = runs[rank].notes;
    require(held[kWhole] == 0, "Rank ", rank, " of 4 holds ", grouped(held[kWhole]),
            " bytes of parameters that are still whole after forward. A layer that has computed is "
            "freed: all layers at "
            "once is what ZeRO-3 avoids.");
    require(held[kGradients] == own, "Rank ", rank, " of 4 keeps ", grouped(held[kGradients]),
            " bytes of gradients after backward. By the formula Psi / N it is ", grouped(own), ".",
            held[kGradients] > own
                ? " The whole gradients of a layer go when its shard has its part: p.set_grad({})."
                : " The gradient of a shard is in an array that is not counted as one: "
                  "new_gradient(shard_.numel()) makes it, and reduce_scatter writes to it.");
    require(held[kMostWhole] <= largest, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostWhole]),
            " bytes of whole parameters and packed gradients at once, and one layer has ",
            grouped(largest), " bytes. Free a layer's parameters before its gradients are packed.");
    require(held[kParameters] == own && held[kOptimizer] == own, "Rank ", rank, " of 4 keeps ",
            grouped(held[kParameters]), " bytes of parameters and ", grouped(held[kOptimizer]),
            " of momentum. By the formula Psi / N it is ", grouped(own), " of each.");
    require(held[kHeld] <= 3 * own, "Rank ", rank, " of 4 holds ", grouped(held[kHeld]),
            " bytes between two steps. Its parts of parameters, gradients and momentum have ",
            grouped(3 * own),
            ". Something is kept beside them: a copy of a layer that was whole, or of its packed "
            "gradients.");
    const int64_t enough = alone - psi + 3 * own + largest;
    require(held[kMostHeld] <= enough, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostHeld]),
            " bytes in forward and backward. One process that keeps no gradients holds ",
            grouped(alone - psi),
            " beside its parameters; with the rank's parts of parameters, gradients and momentum, "
            "and with one whole layer, that are ",
            grouped(enough), ". Something is copied that need not be.");
  }
  return "rank 0 of 4 keeps " + grouped(runs[0].notes[kParameters]) +
         " bytes of parameters, as many of gradients and of momentum, by the formula Psi / N " +
         grouped(psi / kRanks) + "; and never more than one layer is whole, " +
         grouped(runs[0].notes[kMostWhole]) + " bytes.";
}

std::string traffic() {
  const std::vector<Run> runs = train(kRanks);
  int64_t psi = 0;
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    int64_t formula = 0;
    psi = 0;
    for (const int64_t size : sizes()) {
      const int64_t own =
          hero::dist::ChunkCounts::balanced(size, kRanks).count(static_cast<int>(rank));
      formula += 4 * (2 * (kRanks - 1) * own + size - own);
      psi += 4 * size;
    }
    require(runs[rank].sent == formula, "Rank ", rank, " sends ", grouped(runs[rank].sent),
            " bytes in a step. Two all_gathers and one reduce_scatter of every layer send ",
            grouped(formula), ".");
  }
  return "rank 0 of 4 sends " + grouped(runs[0].sent) +
         " bytes in a step, by the formula 3 Psi (N - 1) / N " +
         grouped(3 * psi * (kRanks - 1) / kRanks) + ".";
}

}  // namespace

int main() {
  const auto on = [](int ranks) { return [ranks] { return bits(ranks); }; };
  return exercise::grade("Exercise 15. ZeRO-3: a layer is whole only while it computes",
                         {{"calls", calls, exercise::kRanksHang},
                          {"1 rank", on(1), exercise::kRanksHang},
                          {"2 ranks", on(2), exercise::kRanksHang},
                          {"3 ranks", on(3), exercise::kRanksHang},
                          {"4 ranks", on(4), exercise::kRanksHang},
                          {"memory", memory, exercise::kRanksHang},
                          {"bytes", traffic, exercise::kRanksHang}});
}
