// Grades answers to exercise 14.
#include <algorithm>

#include "exercises/14_zero2/exercise.h"
#include "exercises/support/ranks.h"
#include "exercises/support/under_way.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Named, exercise::Network, exercise::number, exercise::require;
using exercise::Run;
using hero::Array, hero::MemoryTag;
using hero::dist::ChunkCounts, hero::dist::Communicator;

namespace {

using Counts = std::vector<int64_t>;

std::string text(const Counts& counts) {
  std::string list;
  for (const int64_t count : counts) list += (list.empty() ? "" : ", ") + std::to_string(count);
  return "{" + list + "}";
}

// Of the numbers first ... first + count - 1, those of each rank, one by one.
Counts owned(const Counts& counts, int64_t first, int64_t count) {
  Counts list;
  int64_t begin = 0;
  for (const int64_t part : counts) {
    int64_t common = 0;
    for (int64_t i = first; i < first + count; ++i) common += i >= begin && i < begin + part;
    list.push_back(common);
    begin += part;
  }
  return list;
}

std::string parts() {
  struct Case {
    Counts counts;
    int64_t first, count;
  };
  const std::vector<Case> cases = {{{10}, 2, 5},         {{5, 5, 4}, 6, 3},   {{5, 5, 4}, 3, 6},
                                   {{5, 5, 4}, 0, 14},   {{5, 5, 4}, 5, 5},   {{5, 5, 4}, 12, 2},
                                   {{4, 4, 4, 4}, 3, 9}, {{3, 3, 2, 2}, 0, 1}};
  for (const Case& c : cases) {
    const Counts got = exercise::owned(c.counts, c.first, c.count),
                 right = owned(c.counts, c.first, c.count);
    if (got == right) continue;
    std::string why;
    int64_t sum = 0;
    for (const int64_t part : got) sum += part;
    if (got.size() != c.counts.size()) {
      why = " There is one count for each rank.";
    } else if (std::any_of(got.begin(), got.end(), [](int64_t part) { return part < 0; })) {
      why = " A rank that owns none of them has 0, not less.";
    } else if (got == ChunkCounts::balanced(c.count, static_cast<int>(got.size())).to_vector()) {
      why =
          " These are even parts of this one parameter. But it is the flat parameter that is cut, "
          "and a rank owns what falls into its part of that.";
    } else if (sum > c.count) {
      why = " That is more than there are: a part may end behind them, or begin before them.";
    }
    throw exercise::Wrong("Where the ranks own " + text(c.counts) + " numbers, those of " +
                          std::to_string(c.count) + " that begin with number " +
                          std::to_string(c.first) + " are " + text(right) +
                          ", and owned() returns " + text(got) + "." + why);
  }
  return std::to_string(cases.size()) + " cases of owned().";
}

enum Note : size_t {
  kGradients,
  kMostGradients,
  kOptimizer,
  kEarly,
  kCalls,
  kHeld,
  kMostHeld,
  kMostInBackward
};

// The gradients of a rank's part after the first backward of an answer.
std::vector<Run> train(int ranks, std::vector<Array>* gradients = nullptr) {
  if (gradients) gradients->resize(static_cast<size_t>(ranks));
  return exercise::run_ranks(ranks, [=](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1);
    const auto optimizer = exercise::zero2(net, world, exercise::kSGD);
    require(optimizer != nullptr, "zero2() returns no object.");
    run.values.push_back(values_of(net));
    hero::Ledger& ledger = hero::current_ledger();
    int64_t early = 0;
    net.first.register_full_backward_pre_hook([&](auto&...) { early = world.traffic().calls(); });
    for (int step = 0; step < exercise::kSteps; ++step) {
      world.traffic().reset();
      ledger.reset_peak();
      const exercise::UnderWay under_way;
      loss_of(net, step, world.rank()).backward();
      const int64_t left = ledger.live(MemoryTag::gradient);
      const int64_t most = ledger.peak(MemoryTag::gradient);
      const int64_t most_in_backward = exercise::most_held_bytes();
      if (gradients && step == 0)
        (*gradients)[static_cast<size_t>(world.rank())] = optimizer->gradient().clone();
      ledger.reset_peak();
      optimizer->step();
      under_way.require_complete("step()");
      run.notes = {left,
                   most,
                   ledger.live(MemoryTag::optimizer),
                   early,
                   world.traffic().calls(),
                   exercise::held_bytes(),
                   exercise::most_held_bytes(),
                   most_in_backward};
      run.values.push_back(values_of(net));
      run.sent = world.traffic().bytes();
    }
  });
}

std::vector<float> flat(const std::vector<Named>& list) {
  std::vector<float> all;
  for (const Named& named : list) {
    const auto part = named.values.flatten().to_vector<float>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// "second.weight[3, 4]" of number i of the flat parameter.
std::string name_of(const std::vector<Named>& list, size_t i) {
  for (const Named& named : list) {
    const auto numel = static_cast<size_t>(named.values.numel());
    if (i < numel)
      return named.name + exercise::index_text(named.values.shape(), static_cast<int64_t>(i));
    i -= numel;
  }
  return "";
}

// Of a rank's part `got`, which begins with number `begin` of `mean`: the name of a parameter to
// whose place nothing was written, or "". A few numbers of a parameter may be zero anyway.
std::string unwritten(const std::vector<float>& got, const std::vector<Named>& mean, size_t begin) {
  constexpr size_t kMany = 100;
  size_t at = 0;
  for (const Named& named : mean) {
    const auto end = at + static_cast<size_t>(named.values.numel());
    size_t count = 0, zero = 0;
    for (size_t i = std::max(at, begin); i < std::min(end, begin + got.size()); ++i) {
      ++count;
      zero += got[i - begin] == 0.0F;
    }
    if (count >= kMany && zero == count) return named.name;
    at = end;
  }
  return "";
}

// Whether the numbers of a part are where they belong. What they are is seen in the step.
void check_places(const std::vector<Array>& gradients, const exercise::Alone& alone) {
  const std::vector<float> mean = flat(alone.means[0]);
  const auto cut =
      ChunkCounts::balanced(static_cast<int64_t>(mean.size()), static_cast<int>(gradients.size()));
  for (size_t rank = 0; rank < gradients.size(); ++rank) {
    const auto begin = static_cast<size_t>(cut.first(static_cast<int>(rank)));
    const std::vector<float> got = gradients[rank].to_vector<float>();
    size_t zero = 0, first = got.size();
    for (size_t i = 0; i < got.size(); ++i) {
      zero += got[i] == 0.0F;
      if (first == got.size() && got[i] != mean[begin + i]) first = i;
    }
    if (first == got.size()) continue;
    const std::string where =
        "On " + std::to_string(gradients.size()) + (gradients.size() == 1 ? " rank" : " ranks") +
        ", my_gradient_ of rank " + std::to_string(rank) + " has " +
        grouped(static_cast<int64_t>(zero)) + " zeros among " +
        grouped(static_cast<int64_t>(got.size())) +
        " numbers after the first backward. The first wrong one is number " +
        std::to_string(first) + ", of " + name_of(alone.means[0], begin + first) + ": it is " +
        number(got[first], hero::kFloat32) + " and should be " +
        number(mean[begin + first], hero::kFloat32) + ".";
    require(zero < got.size(), where, " Nothing was written to it.");
    const std::string name = unwritten(got, alone.means[0], begin);
    require(name.empty(), where, " Nothing was written to the place of ", name,
            ": that of a parameter in my_gradient_ is counted from cut_.begin, and is 0 where the "
            "parameter begins there or before.");
    const std::vector<float> values = flat(alone.values[0]);
    require(
        !std::equal(got.begin(), got.end(), values.begin() + static_cast<std::ptrdiff_t>(begin)),
        where, " That is the parameter itself: reduce_scatter takes p.grad().array().");
  }
}

// train(), which says of errors of the library what is to be given to it.
std::vector<Run> train_or_say(int ranks, std::vector<Array>& gradients) {
  try {
    return train(ranks, &gradients);
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    const std::vector<std::pair<std::string, std::string>> list = {
        {"reduce_scatter: the output has",
         "It is a window on my_gradient_ of counts[world_.rank()] numbers, for counts that owned() "
         "gives: slice(0, at, at + counts[world_.rank()]), where at is counted from cut_.begin."},
        {"reduce_scatter: the input has",
         "The counts are those of this parameter alone, which owned() gives."},
        {"ranks disagree",
         "A rank that owns none of a parameter's numbers makes the call, too: 0 is allowed."},
        {"a gradient before backward()",
         "A gradient that p.set_grad({}) has taken away is not there any more: it comes last."},
        {"was changed in place after it was saved",
         "Backward still needs the parameters, and shard_ is a window on them: my_gradient_ is "
         "where the gradient goes."}};
    for (const auto& [says, sentence] : list) {
      if (text.find(says) == std::string::npos) continue;
      throw exercise::Wrong("It throws an error: " + text + ". " + sentence);
    }
    throw;
  }
}

std::string bits(int ranks) {
  std::vector<Array> gradients;
  const std::vector<Run> runs = train_or_say(ranks, gradients);
  const exercise::Alone alone = exercise::train_alone(ranks);
  check_places(gradients, alone);
  const std::vector<float> after = flat(runs[0].values[1]);
  require(
      after != flat(alone.means[0]),
      "After the first step the parameters are their gradients: all_gather takes shard_.array().");
  exercise::compare(runs, alone);
  return "after 3 steps all parameters are bitwise those of one process.";
}

constexpr int kRanks = 4;

std::string traffic() {
  const std::vector<Run> runs = train(kRanks);
  const int64_t numel = exercise::make_network(1).parameter_count();
  const auto cut = ChunkCounts::balanced(numel, kRanks);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const int64_t own = cut.count(static_cast<int>(rank)),
                  formula = 4 * (numel - own + (kRanks - 1) * own);
    require(runs[rank].sent == formula, "Rank ", rank, " sends ", grouped(runs[rank].sent),
            " bytes in a step. Every gradient is reduced once and every parameter gathered once, "
            "which sends ",
            grouped(formula), ".",
            runs[rank].sent > formula
                ? " Something travels that need not: a reduce_scatter sends half of what an "
                  "all_reduce sends."
                : "");
  }
  return "rank 0 of 4 sends " + grouped(runs[0].sent) +
         " bytes in a step, by the formula 2 Psi (N - 1) / N " +
         grouped(4 * 2 * numel * (kRanks - 1) / kRanks) + ".";
}

std::string memory() {
  const std::vector<Run> runs = train(kRanks);
  const Network net = exercise::make_network(1);
  const int64_t psi = 4 * net.parameter_count();
  int64_t largest = 0;
  for (const hero::Tensor& p : net.parameters()) largest = std::max(largest, p.array().nbytes());
  const auto cut = ChunkCounts::balanced(psi / 4, kRanks);
  const int64_t alone = exercise::most_without_gradients(exercise::Gone::with_parameter);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const int64_t own = 4 * cut.count(static_cast<int>(rank));
    const std::vector<int64_t>& held = runs[rank].notes;
    require(held[kGradients] == own, "Rank ", rank, " of 4 keeps ", grouped(held[kGradients]),
            " bytes of gradients after backward. By the formula Psi / N it is ", grouped(own), ".",
            held[kGradients] >= psi
                ? " All gradients are still whole: reduce each in its hook, and free it there."
                : " A parameter whose gradient was reduced needs it no more: p.set_grad({}).");
    require(held[kMostGradients] <= own + largest, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostGradients]),
            " bytes of gradients in backward. Its part and the largest gradient of one parameter "
            "have ",
            grouped(own + largest),
            " bytes: free a gradient in the hook, before backward goes on.");
    require(held[kOptimizer] == own, "Rank ", rank, " of 4 keeps ", grouped(held[kOptimizer]),
            " bytes of momentum. By the formula Psi / N it is ", grouped(own), ".");
    const int64_t all = psi + 2 * own;
    require(held[kHeld] <= all, "Rank ", rank, " of 4 holds ", grouped(held[kHeld]),
            " bytes after a step. All parameters and its parts of the gradients and of the "
            "momentum have ",
            grouped(all),
            ". Something is kept beside them: a copy of gradients that were reduced, or of "
            "parameters that are in flat_.");
    require(held[kMostInBackward] <= alone + 2 * own, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostInBackward]),
            " bytes in backward. One process that keeps no gradient holds ", grouped(alone),
            ", and the rank's parts of gradients and momentum have ", grouped(2 * own),
            ". Gradients are copied before they are reduced: p.grad().array() itself is the input "
            "of reduce_scatter.");
    require(held[kMostHeld] <= all + own, "Rank ", rank, " of 4 holds up to ",
            grouped(held[kMostHeld]), " bytes in step(), and ", grouped(all),
            " after it. A second whole array is made and given back: all_gather writes into flat_ "
            "itself.");
  }
  return "rank 0 of 4 keeps " + grouped(runs[0].notes[kGradients]) +
         " bytes of gradients and as many of momentum, by the formula Psi / N " +
         grouped(psi / kRanks) + "; in backward it holds at most " +
         grouped(runs[0].notes[kMostGradients]) + ", its part and one whole gradient, " +
         grouped(4 * cut.count(0) + largest) + ".";
}

std::string early() {
  const std::vector<int64_t> notes = train(2)[0].notes;
  require(notes[kEarly] >= notes[kCalls] - 3, notes[kEarly], " of ", notes[kCalls],
          " calls are made before backward has reached the first layer: reduce a gradient in the "
          "hook.");
  return std::to_string(notes[kEarly]) + " of " + std::to_string(notes[kCalls]) +
         " calls are made before backward has reached the first layer.";
}

}  // namespace

int main() {
  const auto on = [](int ranks) { return [ranks] { return bits(ranks); }; };
  return exercise::grade("Exercise 14. ZeRO-2: a gradient goes as soon as it is complete",
                         {{"parts", parts},
                          {"1 rank", on(1), exercise::kRanksHang},
                          {"2 ranks", on(2), exercise::kRanksHang},
                          {"3 ranks", on(3), exercise::kRanksHang},
                          {"4 ranks", on(4), exercise::kRanksHang},
                          {"bytes", traffic, exercise::kRanksHang},
                          {"memory", memory, exercise::kRanksHang},
                          {"early", early, exercise::kRanksHang}});
}
