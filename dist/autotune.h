#pragma once
// Tries out what a plan cannot know, such as bucket sizes, prefetching and micro-batches, in short
// runs on the ranks at hand.
//
//   std::vector<dist::TuneCandidate> candidates;
//   for (const int64_t bucket : {1 << 20, 4 << 20, 16 << 20}) {
//     candidates.push_back({std::to_string(bucket), [=] { return make_step(bucket); }});
//   }
//   const dist::Tuned tuned = dist::autotune(world, candidates);
//   if (world.rank() == 0) std::puts(tuned.table().c_str());
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// One way to make a step. `make` builds everything from the beginning, the model and what is
/// around it, and returns a function that makes a step; the function is destroyed when the
/// candidate's turn is over.
struct TuneCandidate {
  std::string name;  ///< name of the candidate in the table
  /// Builds everything and returns a function that makes a step.
  std::function<std::function<void()>()> make;
  double planned = 0.0;  ///< seconds per step that a plan predicted, shown in the table; 0: none
};

/// Options of autotune().
struct AutotuneOptions {
  /// Steps that are timed in the first round, after one that is not; each further round times twice
  /// as many.
  int steps = 3;
  std::function<double()> clock = {};  ///< a clock in seconds, for tests; empty: the steady clock
  int64_t memory = 0;                  ///< bytes that a rank may have in memory; 0: no limit
};

/// The result of a candidate.
struct TuneEntry {
  std::string name;      ///< the candidate's name
  double planned = 0.0;  ///< seconds per step that a plan predicted; 0: none
  double seconds = 0.0;  ///< median of a step in its last round, on the slowest rank
  int64_t memory = 0;    ///< peak memory of a rank, in bytes
  int steps = 0;         ///< steps that were timed, in all rounds
  int rounds = 0;        ///< rounds that it took part in; 0: it needs too much memory
};

/// The results of all candidates, the best first: candidates that were dropped in a later round
/// come before those of an earlier one, and within a round the fastest comes first.
struct Tuned {
  std::vector<TuneEntry> entries;  ///< the results, the best first
  /// The index of the best candidate; -1 if all need too much memory.
  int best = -1;
  /// A table with a line for each candidate, and the planned times if there are any.
  std::string table() const;
};

/// Runs all candidates in turn and drops the slower half after each round, until one is left:
/// successive halving (Jamieson and Talwalkar, arXiv 1502.07943). A candidate that needs more than
/// `memory` is dropped after its first step. All ranks call it with the same candidates, and all
/// get the same answer; an Error that a candidate throws reaches the caller, on all ranks. Before
/// each candidate, the default generator is set to its initial state.
Tuned autotune(const Communicator& world, const std::vector<TuneCandidate>& candidates,
               const AutotuneOptions& options = {});

}  // namespace hero::dist
