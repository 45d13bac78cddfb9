#pragma once
// FlightRecorder: the last calls of a rank, and which of them are not complete. It is the first
// thing to look at when ranks wait for each other.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hero/dist/backends/call.h>

namespace hero::dist {

/// A call of a rank. Times are seconds since the epoch (1970) by the host's clock; 0: not yet. For
/// a call whose handle the program has dropped, `awaited` stays 0, and so does `done`, except over
/// NCCL.
struct FlightCall {
  uint64_t number = 0;  ///< number of the call among all calls of the rank, from 1
  Collective op = Collective::barrier;
  std::string axis;        ///< axis of its communicator, such as "world" or "data"
  std::string unit;        ///< name of the data, as in errors and in Traffic
  DType dtype = kFloat32;  ///< dtype of the arrays
  int64_t size = 0;        ///< elements of the whole array
  int64_t bytes = 0;       ///< bytes that the rank sends, as in Traffic
  int root = -1;           ///< the root of a call that has one; the other rank of a message
  double asked = 0.0;      ///< time at which the program made the call
  double awaited = 0.0;    ///< time at which it began to wait for the call
  double begun = 0.0;      ///< over NCCL: time at which the GPU came to it, to about 20 ms
  double done = 0.0;  ///< time at which it knew that the call was complete; over NCCL like begun
};

/// The last calls of one rank. Each communicator of the rank adds its own. Any thread may read it.
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 100;  ///< number of calls that are kept

  /// Begins with no call.
  explicit FlightRecorder(int rank) : rank_(rank) {}
  /// Records a call, with its time `asked` only, and returns its number.
  uint64_t ask(FlightCall call);
  /// Records that the program begins to wait for the call of that number.
  void await(uint64_t number);
  /// Records that the GPU has come to the call of that number.
  void begin(uint64_t number);
  /// Records that the program knows that the call is complete, or that the GPU is done with it.
  void complete(uint64_t number);

  /// The rank's number in the world.
  int rank() const { return rank_; }
  /// The calls that are kept, oldest first.
  std::vector<FlightCall> calls() const;
  /// The calls as a table, with times in seconds before now.
  std::string table() const;

 private:
  template <class Change>
  void change(uint64_t number, const Change& change);

  const int rank_;
  mutable std::mutex mutex_;
  uint64_t asked_ = 0;
  std::vector<FlightCall> ring_;  // call n is at index (n - 1) % kCalls
};

/// Writes the last calls of all ranks of this process into a folder, which is made if it does not
/// exist: a table such as rank-00003.txt for each rank, and one trace of all these ranks for
/// Perfetto (ui.perfetto.dev), named after the first of them, such as rank-00003.json. If the
/// environment names a folder in HERO_FLIGHT_RECORDER, the records are also written there when a
/// rank fails, including time-outs, and whenever the process gets the signal SIGUSR1, unless the
/// program has a handler of its own for it.
void write_flight_records(const std::string& folder);

/// While it lives, write_flight_records() includes this recorder.
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

/// Writes the records if HERO_FLIGHT_RECORDER names a folder, and prints a line on stderr that says
/// where, or why that failed. Only the first call in a process has an effect.
void write_flight_records_of_failure() noexcept;

}  // namespace hero::dist
