// Grades answers to exercise 11.
#include <cmath>

#include "exercises/11_all_reduce/exercise.h"
#include "exercises/support/ranks.h"
#include "exercises/support/under_way.h"

using exercise::grouped, exercise::number, exercise::require, exercise::Run, exercise::UnderWay;
using hero::Array;
using hero::dist::Communicator;

namespace {

constexpr int64_t kNumel = 60;  // a multiple of 1 ... 5
using AllReduce = void (*)(const Array& x, const Communicator& world);

// The element of a rank's array: whole numbers, so that their sums are exact in every order.
float element(int rank, int64_t i) { return static_cast<float>((rank + 1) * 1000 + i); }

std::vector<std::vector<float>> reduced(AllReduce all_reduce, int ranks, std::vector<Run>& runs) {
  std::vector<std::vector<float>> arrays(static_cast<size_t>(ranks));
  runs = exercise::run_ranks(ranks, [&](const Communicator& world, Run& run) {
    std::vector<float> values;
    for (int64_t i = 0; i < kNumel; ++i) values.push_back(element(world.rank(), i));
    const Array x = Array::from(values, {kNumel});
    const UnderWay under_way;
    all_reduce(x, world);
    run.sent = world.traffic().bytes();
    run.notes = {world.traffic().calls(), under_way.count()};
    arrays[static_cast<size_t>(world.rank())] = x.to_vector<float>();
  });
  return arrays;
}

// What a wrong result looks like.
std::string mistake(const std::vector<std::vector<float>>& got, const std::vector<float>& right,
                    size_t rank) {
  const auto n = static_cast<int>(got.size());
  size_t complete = 0, whole = 0;
  for (size_t r = 0; r < got.size(); ++r) complete += got[r] == right ? 1 : 0;
  for (size_t i = 0; i < right.size(); ++i) whole += got[rank][i] == right[i] ? 1 : 0;
  if (n == 1) return " A rank that is alone has nothing to add: N - 1 rounds are none.";
  bool own = true, larger = false;  // it is what it was; some of it is more than the sum
  for (size_t i = 0; i < right.size(); ++i) {
    own = own && got[rank][i] == element(static_cast<int>(rank), static_cast<int64_t>(i));
    larger = larger || got[rank][i] > right[i];
  }
  if (complete == 1 && got[0] == right && own)
    return " Only rank 0 has the sum: it has to be sent to the others.";
  if (n > 1 && whole * static_cast<size_t>(n) == right.size() && larger) {
    return " One part of the array is the sum, and another is more than that: in the second loop "
           "a part that comes takes the place of the one that is there, and is not added to it.";
  }
  if (n > 1 && whole * static_cast<size_t>(n) == right.size()) {
    return " One part of the array is the sum on each rank: that is a reduce_scatter. The second "
           "loop brings the parts "
           "to all ranks.";
  }
  for (int other = 0; other < n; ++other) {
    bool same = true;
    for (size_t i = 0; i < right.size(); ++i)
      same = same && got[rank][i] == element(other, static_cast<int64_t>(i));
    if (same && other == static_cast<int>(rank))
      return " The array of rank " + std::to_string(rank) +
             " is what it was: nothing has come to it, or was added to it. add_to(x, y) changes "
             "its "
             "first argument.";
    if (same) {
      return " This is the array of rank " + std::to_string(other) +
             ": what was received has replaced what was there, and "
             "should be added to it.";
    }
  }
  for (int other = 0; other < n; ++other) {
    if (other != static_cast<int>(rank) && got[rank][0] == 2 * element(other, 0)) {
      return " It is twice the array of rank " + std::to_string(other) +
             ": what is received needs an array of its own, x.empty_like(). `received = x` is "
             "another name for x.";
    }
  }
  for (int other = 0; other < n; ++other) {
    if (got[rank][0] - right[0] == element(other, 0)) {
      return " It is too large by the array of rank " + std::to_string(other) +
             ", which was added twice.";
    }
    if (right[0] - got[rank][0] == element(other, 0)) {
      return " It is too small by the array of rank " + std::to_string(other) +
             ", which was not added.";
    }
  }
  return "";
}

// The sum on 1 to 5 ranks; `order` is what else to say of a wrong one.
void check_sums(AllReduce all_reduce, const std::string& order = "") {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    std::vector<float> right(kNumel);
    for (int64_t i = 0; i < kNumel; ++i) {
      for (int rank = 0; rank < ranks; ++rank) right[static_cast<size_t>(i)] += element(rank, i);
    }
    std::vector<Run> runs;
    const auto got = reduced(all_reduce, ranks, runs);
    for (size_t rank = 0; rank < got.size(); ++rank) {
      for (size_t i = 0; i < right.size(); ++i) {
        require(got[rank][i] == right[i], "On ", ranks, " ranks, x[", i, "] of rank ", rank, " is ",
                number(got[rank][i]), " and should be the sum, ", number(right[i]), ".",
                mistake(got, right, rank), ranks > 1 ? order : "");
      }
      const int64_t open = runs[rank].notes[1];
      require(open == 0, "On ", ranks, " ranks, rank ", rank, " returns while ", open,
              " of its messages are perhaps under way: nobody has waited for them. Whoever writes "
              "to x next would change what they bring. Keep the Work of each, and wait().");
    }
  }
}

std::string naive() {
  check_sums(exercise::naive_all_reduce);
  std::vector<Run> runs;
  reduced(exercise::naive_all_reduce, 4, runs);
  return "the sum on 1 to 5 ranks. Of 4, rank 0 sends " + grouped(runs[0].sent) +
         " bytes, and rank 1 sends " + grouped(runs[1].sent) + ".";
}

std::string ring() {
  check_sums(
      exercise::ring_all_reduce,
      " In round s of the first loop what comes is added to part me - s - 1. The second loop "
      "begins with part me + 1, which is whole then.");
  constexpr int kRanks = 4;
  std::vector<Run> runs;
  reduced(exercise::ring_all_reduce, kRanks, runs);
  constexpr int64_t kFormula = 2 * 4 * kNumel * (kRanks - 1) / kRanks;
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    require(runs[rank].sent == kFormula, "Rank ", rank, " of 4 sends ", grouped(runs[rank].sent),
            " bytes. By the formula 2 n (N - 1) / N it is ", grouped(kFormula),
            runs[rank].sent < 2 * kFormula
                ? ": two loops of N - 1 rounds, in each of which a rank sends one part."
                : ": a message is one part, not the whole array.");
  }
  return "the sum on 1 to 5 ranks. Every rank of 4 sends " + grouped(runs[0].sent) +
         " bytes, by the formula 2 n (N - 1) / N " + grouped(kFormula) + ".";
}

std::string tree() {
  try {
    check_sums(exercise::tree_all_reduce, " The sum goes back from the largest step to 1.");
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    require(text.find("is not a rank of") == std::string::npos, "It throws an error: ", text,
            ". A rank sends where me % (2 * step) is step. One that receives has me % (2 * step) "
            "== 0, and has a partner only if me + step < n.");
    throw;
  }
  for (const int ranks : {2, 3, 4, 5}) {
    std::vector<Run> runs;
    reduced(exercise::tree_all_reduce, ranks, runs);
    const auto depth = static_cast<int64_t>(std::ceil(std::log2(ranks)));
    for (size_t rank = 0; rank < runs.size(); ++rank) {
      require(runs[rank].notes[0] <= 2 * depth, "Rank ", rank, " of ", ranks, " sends or receives ",
              runs[rank].notes[0],
              " messages one after the other; in a tree it is at most 2 log2 N, here ", 2 * depth,
              ".");
    }
  }
  return "the sum on 1 to 5 ranks, and no rank sends or receives more than 2 log2 N messages.";
}

}  // namespace

int main() {
  return exercise::grade(
      "Exercise 11. all_reduce from send and recv",
      {{"naive", naive,
        "A rank waits for a message that nobody sends, or sends one that nobody receives. Rank 0 "
        "receives from each of the others, and not from itself, and then sends to each; the others "
        "do the opposite."},
       {"ring", ring,
        "Two ranks wait for each other. In a ring this happens where every rank waits until its "
        "message was received, before it receives the one of its neighbour: begin to send with "
        ".async = true, receive, then wait. It happens, too, where a rank sends to another one "
        "than that which receives from it."},
       {"tree", tree,
        "A rank waits for a message that nobody sends, or sends one that nobody receives. Of each "
        "pair one rank sends and the other one receives, in every step."}});
}
