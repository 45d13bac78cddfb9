#pragma once
// Chapter 22: runs beside each other, by what they sent and how long they took.
#include <string>
#include <vector>

#include "support/options/ranks.h"
#include "support/pictures/plot.h"

namespace tutorial {

/// One run of several ranks, as rank 0 saw it.
struct RunCourse {
  std::string name;
  Values losses = {};    ///< the ranks' mean in each step
  Values bytes = {};     ///< sent by the end of each step
  Values seconds = {};   ///< gone by then
  int64_t last = 0;      ///< bytes of the last step
  int64_t formula = 0;   ///< as they should be
  bool as_said = false;  ///< they are, on every rank
  bool same = false;     ///< all ranks ended with the same bits
  /// \name Losses on samples that are the same each time, and the steps after which, from 0
  /// \{
  Values drawn = {};
  std::vector<size_t> drawn_after = {};
  /// \}
};

/// The means over the ranks of what each of them has. Leaves the ledger of the traffic as it was.
Values mean_losses(const Communicator& world, const std::vector<double>& mine);

/// A table of them; with a link of so many bytes per second their times, too.
void show_runs(const Communicator& world, const std::vector<RunCourse>& courses, double link);

/// The drawn losses by what was sent, into folder/name; with --link by time, too, into
/// folder/name_link.
void draw_runs(const std::vector<RunCourse>& courses, const RankOptions& options,
               const std::string& name);

/// What error feedback does: four numbers are sent in one bit each, the same in every step, with it
/// and without it. Draws for two of them what has arrived by then beside what should have, into
/// folder/22_feedback.
void draw_feedback(const std::string& folder);

}  // namespace tutorial
