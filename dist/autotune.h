#pragma once
// What a plan cannot know is tried out: bucket sizes, prefetching, micro-batches, by short runs on
// the ranks at hand.
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

/// One way to take a step. `make` builds everything anew, a model and what is around it, and
/// returns what takes a step; that is destroyed when the candidate's turn is over.
struct TuneCandidate {
  std::string name;
  std::function<std::function<void()>()> make;
  double planned = 0.0;  ///< seconds of a step that a plan foretells, shown beside; 0: none
};

struct AutotuneOptions {
  int steps = 3;  ///< timed in the first round, behind one that is not; twice as many in each
                  ///< further one
  std::function<double()> clock = {};  ///< seconds, for tests; empty: the steady clock
  int64_t memory = 0;                  ///< most bytes that a rank may hold; 0: as many as it likes
};

/// What became of a candidate.
struct TuneEntry {
  std::string name;
  double planned = 0.0;  ///< the candidate's
  double seconds = 0.0;  ///< a step's median in its last round, of the slowest rank
  int64_t memory = 0;    ///< most bytes that a rank held
  int steps = 0;         ///< timed in all rounds
  int rounds = 0;        ///< 0: it holds too much
};

/// All candidates, the best first: those that lived longest, of these the fastest.
struct Tuned {
  std::vector<TuneEntry> entries;
  /// Of the candidates, the number of the best; -1 where all hold too much.
  int best = -1;
  /// A line a candidate, with what was planned where something was.
  std::string table() const;
};

/// Runs all candidates by turns and drops the slower half after each round, until one is left:
/// successive halving (Jamieson and Talwalkar, arXiv 1502.07943). What holds more than `memory` in
/// its first step is dropped then. All ranks call it with the same candidates, and all get the same
/// answer; an Error of a candidate is the caller's, on all ranks as ever. Between candidates the
/// default generator is as it was before the first one.
Tuned autotune(const Communicator& world, const std::vector<TuneCandidate>& candidates,
               const AutotuneOptions& options = {});

}  // namespace hero::dist
