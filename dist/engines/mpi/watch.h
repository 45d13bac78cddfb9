#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hero::dist {

/// Whether a rank can only go on when a message comes, and how many have gone and come.
struct Blocked {
  bool blocked = false;
  bool ended = false;  // blocked, as its program has ended
  uint64_t told = 0, heard = 0;
  std::string text;  // what it waits in
};

/// Rank 0's view of who waits. See [note: when no process can go on].
class MpiWatch {
 public:
  explicit MpiWatch(int size)
      : reported_(static_cast<size_t>(size)), answered_(static_cast<size_t>(size)) {}

  void report(int rank, const Blocked& state) { reported_[static_cast<size_t>(rank)] = state; }
  /// What the rank waits in as far as is known; "" when it does not wait.
  const std::string& text(int rank) const { return reported_[static_cast<size_t>(rank)].text; }
  /// True when it is time to ask all whether they still wait; number() is that of the question.
  bool asks();
  uint64_t number() const { return number_; }
  /// A rank's answer; true when with it a deadlock is certain.
  bool answer(int rank, uint64_t number, const Blocked& state);
  std::string deadlock_text() const;

 private:
  bool all_blocked(const std::vector<Blocked>& states) const;

  std::vector<Blocked> reported_, answered_;
  uint64_t number_ = 0;
  int answers_ = 0;
  std::chrono::steady_clock::time_point asked_;
};

}  // namespace hero::dist
