#pragma once
// Reports of waiting ranks, and how rank 0 detects a deadlock.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/backends/mpi/wire.h>

namespace hero::dist {

/// The calls in which ranks have waited for a while, for one rank or for a whole subtree. Lists of
/// ranks ascend.
struct WaitReport {
  /// Ranks that wait for other ranks to arrive at a call.
  std::map<CallKey, std::vector<int>> here;
  /// Ranks whose programs have ended without an error, by the calls that they had begun.
  std::vector<std::pair<Told, std::vector<int>>> finished;
  /// Ranks that can continue only when a message arrives, by the call in which they wait.
  std::map<std::string, std::vector<int>> blocked;

  bool empty() const { return here.empty() && finished.empty() && blocked.empty(); }
  void add(const WaitReport& other);
  /// The number of ranks that are blocked or have finished.
  int standing() const;
  /// The ranks that have finished without making that call.
  std::vector<int> finished_without(const CallKey& key) const;
  /// The call in which the rank waits; "" if it is not known to wait.
  std::string text(int rank) const;
  friend bool operator==(const WaitReport&, const WaitReport&) = default;
};

void put_wait_report(Packet& packet, const WaitReport& report);
WaitReport take_wait_report(Packet& packet);
void put_ranks(Packet& packet, const std::vector<int>& ranks);
std::vector<int> take_ranks(Packet& packet);

/// The answer of ranks to the question whether they still wait.
struct WaitAnswer {
  bool blocked = true;            ///< true: all of them wait or have ended
  uint64_t told = 0, heard = 0;   ///< messages sent and received that can let a rank continue
  std::map<int, std::string> in;  ///< the calls in which the lowest of these ranks wait

  void add(const WaitAnswer& other);
};

void put_wait_answer(Packet& packet, const WaitAnswer& answer);
WaitAnswer take_wait_answer(Packet& packet);

/// A question to all ranks, while a rank collects the answers of its children in the tree.
struct WaitQuestion {
  uint64_t number = 0;
  size_t missing = 0;  ///< number of children that have not answered
  WaitAnswer answer;
};

/// The questions of rank 0. See [note: when no process can go on].
class DeadlockSearch {
 public:
  /// Returns true when it is time to ask all ranks whether they still wait; number() is then the
  /// number of the question. `all_wait`: all ranks have reported that they wait.
  bool asks(bool all_wait);
  uint64_t number() const { return number_; }
  /// Takes the combined answer to the last question. Returns true if it proves a deadlock.
  bool answer(const WaitAnswer& answer);
  static std::string text(const WaitAnswer& answer);

 private:
  using Clock = std::chrono::steady_clock;
  uint64_t number_ = 0;
  bool answered_ = true;
  bool again_ = false;  // the next question follows at once
  Clock::time_point since_;
  std::optional<WaitAnswer> first_;
};

}  // namespace hero::dist
