#pragma once
// What the last calls of a rank were, and which of them are not done: the first thing to look at
// where ranks wait for each other.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hero/dist/backends/call.h>

namespace hero::dist {

/// A call of a rank. Times are seconds since the epoch (1970), as the host's clock has them; 0: it
/// has not come to that. A call whose handle the program has dropped stays without the last two.
struct FlightCall {
  uint64_t number = 0;  ///< among all calls of the rank, beginning with 1
  Collective op = Collective::barrier;
  std::string axis;        ///< of its communicator: "world", "data"
  std::string unit;        ///< what is moved, as in errors and in Traffic
  DType dtype = kFloat32;  ///< of the arrays
  int64_t size = 0;        ///< elements of the whole
  int64_t bytes = 0;       ///< that the rank sends, as in Traffic
  int root = -1;           ///< of calls that have one; of messages the other rank
  double asked = 0.0;      ///< when the program called
  double awaited = 0.0;    ///< when it began to wait for the call
  double done = 0.0;       ///< when it knew that the call is complete
};

/// The last calls of one rank. Each communicator of the rank adds its own. Any thread may read it.
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 100;  ///< that are kept

  /// Begins with no call.
  explicit FlightRecorder(int rank) : rank_(rank) {}
  /// Notes a call, whose times but `asked` are still 0, and returns its number.
  uint64_t ask(FlightCall call);
  /// The program begins to wait for the call of that number.
  void await(uint64_t number);
  /// The program knows that the call is complete.
  void complete(uint64_t number);

  /// The rank's number in the world.
  int rank() const { return rank_; }
  /// The calls that are kept, oldest first.
  std::vector<FlightCall> calls() const;
  /// They as a table. Times count from this moment back.
  std::string table() const;

 private:
  template <class Change>
  void change(uint64_t number, const Change& change);

  const int rank_;
  mutable std::mutex mutex_;
  uint64_t asked_ = 0;
  std::vector<FlightCall> ring_;  // call n at (n - 1) % kCalls
};

/// Writes the last calls of all ranks of this process into a folder, which is made where there is
/// none: rank-00003.txt, a table, for each of them, and rank-00003.json of the first one with all
/// of them for Perfetto (ui.perfetto.dev). Where the environment names a folder in
/// HERO_FLIGHT_RECORDER, this happens by itself when a rank fails, after a time-out too, and
/// whenever the process gets the signal SIGUSR1, unless the program has a handler of its own.
void write_flight_records(const std::string& folder);

/// While it lives, the recorder is one of those of this process.
class FlightRecorderScope {
 public:
  /// Begins the scope.
  explicit FlightRecorderScope(std::shared_ptr<FlightRecorder> recorder);
  ~FlightRecorderScope();
  FlightRecorderScope(const FlightRecorderScope&) = delete;
  FlightRecorderScope& operator=(const FlightRecorderScope&) = delete;

 private:
  std::shared_ptr<FlightRecorder> recorder_;
};

/// Writes the records where the environment names a folder; one line on stderr says where, or why
/// that failed. Only the first call of a process does something.
void write_flight_records_of_failure() noexcept;

}  // namespace hero::dist
