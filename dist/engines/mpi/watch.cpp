#include <algorithm>

#include <hero/dist/engines/mpi/watch.h>

namespace hero::dist {
namespace {

constexpr auto kBetweenQuestions = std::chrono::milliseconds(100);

}  // namespace

// [note: when no process can go on]
// A rank that has waited for a while without any bytes under way says so to rank 0, with the number
// of messages it has told and heard. When all have, rank 0 asks each of them again. All were
// blocked at the moment of asking if nobody has told or heard anything in between, and nothing can
// wake them if all that was told has also been heard.
bool MpiWatch::asks() {
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < kBetweenQuestions || !all_blocked(reported_)) return false;
  asked_ = now;
  answers_ = 0;
  ++number_;
  return true;
}

bool MpiWatch::answer(int rank, uint64_t number, const Blocked& state) {
  if (number != number_) return false;
  answered_[static_cast<size_t>(rank)] = state;
  if (++answers_ < static_cast<int>(answered_.size()) || !all_blocked(answered_)) return false;
  uint64_t told = 0, heard = 0;
  for (size_t i = 0; i < answered_.size(); ++i) {
    const Blocked &then = reported_[i], &now = answered_[i];
    if (then.told != now.told || then.heard != now.heard) return false;
    told += now.told;
    heard += now.heard;
  }
  return told == heard;
}

bool MpiWatch::all_blocked(const std::vector<Blocked>& states) const {
  const bool all = std::all_of(states.begin(), states.end(), [](auto& s) { return s.blocked; });
  return all && !std::all_of(states.begin(), states.end(), [](auto& s) { return s.ended; });
}

std::string MpiWatch::deadlock_text() const {
  constexpr int kShown = 8;
  std::string line = "deadlock: every rank waits";
  int shown = 0;
  for (size_t rank = 0; rank < answered_.size(); ++rank) {
    if (answered_[rank].ended) continue;
    line += shown == 0 ? ": " : "; ";
    if (shown == kShown) return line + "and further ranks";
    line += "rank " + std::to_string(rank) + " in " + answered_[rank].text;
    ++shown;
  }
  return line + "; every rank must make the same calls in the same order";
}

}  // namespace hero::dist
