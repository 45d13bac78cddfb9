#pragma once
// What ranks know of those that wait, and how rank 0 finds out that no rank can go on.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/backends/mpi/wire.h>

namespace hero::dist {

/// What ranks have waited in for a while: one rank, or all of a part of the tree. Lists of ranks
/// ascend.
struct WaitReport {
  /// Who waits until others come to a call.
  std::map<CallKey, std::vector<int>> here;
  /// Whose programs have ended well, by what they had begun until then.
  std::vector<std::pair<Told, std::vector<int>>> finished;
  /// Who can only go on when a message comes, by what its thread waits in.
  std::map<std::string, std::vector<int>> blocked;

  bool empty() const { return here.empty() && finished.empty() && blocked.empty(); }
  void add(const WaitReport& other);
  /// The number of ranks that are blocked or have finished.
  int standing() const;
  /// Those that have finished without that call.
  std::vector<int> finished_without(const CallKey& key) const;
  /// What the rank's thread waits in; "" where it is not known to wait.
  std::string text(int rank) const;
  friend bool operator==(const WaitReport&, const WaitReport&) = default;
};

void put_wait_report(Packet& packet, const WaitReport& report);
WaitReport take_wait_report(Packet& packet);
void put_ranks(Packet& packet, const std::vector<int>& ranks);
std::vector<int> take_ranks(Packet& packet);

/// The answer of ranks that were asked whether they still wait, at some moment after the question.
struct WaitAnswer {
  bool blocked = true;            ///< all of them, or ended
  uint64_t told = 0, heard = 0;   ///< messages that can let a rank go on
  std::map<int, std::string> in;  ///< what they wait in: those of the lowest ranks

  void add(const WaitAnswer& other);
};

void put_wait_answer(Packet& packet, const WaitAnswer& answer);
WaitAnswer take_wait_answer(Packet& packet);

/// A question to all ranks on its way up again, on each of them.
struct WaitQuestion {
  uint64_t number = 0;
  size_t missing = 0;  ///< answers of children
  WaitAnswer answer;
};

/// Rank 0's questions. See [note: when no process can go on].
class DeadlockSearch {
 public:
  /// True when it is time to ask all ranks whether they still wait, where `all_wait` is so as far
  /// as is known; number() is that of the question.
  bool asks(bool all_wait);
  uint64_t number() const { return number_; }
  /// The answer of all to the last question; true when with it a deadlock is certain.
  bool answer(const WaitAnswer& answer);
  static std::string text(const WaitAnswer& answer);

 private:
  using Clock = std::chrono::steady_clock;
  uint64_t number_ = 0;
  bool answered_ = true;
  bool again_ = false;  // at once
  Clock::time_point since_;
  std::optional<WaitAnswer> first_;
};

}  // namespace hero::dist
