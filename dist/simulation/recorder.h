#pragma once
// Writes down what simulated ranks do.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hero/core/profile/transfers.h>
#include <hero/core/profile/work.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/launch.h>
#include <hero/dist/simulation/cluster.h>
#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// What the ranks of one world have in common: groups and labels by their numbers.
class Recorder {
 public:
  Recorder(int world_size, const Cluster& cluster, bool keeps_parts = false)
      : cluster_(cluster), keeps_parts_(keeps_parts) {
    recording_.world_size = world_size;
  }
  const Cluster& cluster() const { return cluster_; }
  bool keeps_parts() const { return keeps_parts_; }
  /// The number of a group, which the caller knows by `key`.
  int32_t group(const void* key, const std::string& axis, std::span<const int> ranks);
  int32_t label(const std::string& text);
  void add(RankTimeline timeline) { recording_.ranks.push_back(std::move(timeline)); }
  Recording finish() { return std::move(recording_); }

 private:
  const Cluster cluster_;
  const bool keeps_parts_;
  Recording recording_;
  std::map<const void*, int32_t> groups_;
  std::map<std::string, int32_t> labels_;
};

/// One rank's events, on its thread, while it runs: its work and its transfers (it is the thread's
/// meter of both), its calls.
class RankRecorder : public core::WorkMeter, public core::TransferMeter {
 public:
  RankRecorder(Recorder& recorder, int rank, Traffic& traffic);
  ~RankRecorder() override;
  RankRecorder(const RankRecorder&) = delete;
  RankRecorder& operator=(const RankRecorder&) = delete;

  /// That of this thread, or null.
  static RankRecorder* current();

  void charge(const core::Work& work) override;
  int64_t begin_transfer(Transfer transfer, int64_t bytes) override;
  void wait_transfer(int64_t transfer) override { wait(transfer); }
  void call_behind(int64_t transfer) override { behind_ = transfer; }
  void hold_in_file(int64_t bytes) override;
  void begin_step();
  void part(const std::string& name);
  /// A call that member `me` of the group begins; it counts as waited for when the rank says wait()
  /// to what is returned, for the first time.
  std::shared_ptr<Pending> begin(const Call& call, const void* group_key, const std::string& axis,
                                 std::span<const int> ranks, int me);
  void wait(int64_t number);
  /// The rank has ended: gives its timeline to the recorder.
  void end();

 private:
  void add(TimelineEvent event);
  void flush();
  void begin_part();
  void note_peaks();

  Recorder& recorder_;
  Traffic& traffic_;
  RankTimeline timeline_;
  TimelineEvent computing_;
  int64_t calls_ = 0, first_call_ = 0;  // and transfers
  int64_t behind_ = -1;                 // a transfer that calls wait for
  std::vector<bool> waited_;            // of the transfers of this step, by their numbers
  int64_t in_files_ = 0;
  core::WorkScope scope_;
  RankRecorder* previous_;
  core::TransferMeter* previous_transfers_;
};

/// record_ranks() that also keeps what each part of a program held at most. The ledgers' own peaks
/// begin anew with each part.
Recording record_parts(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks);

}  // namespace hero::dist
