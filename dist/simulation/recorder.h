#pragma once
// Records the events of simulated ranks.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hero/core/profile/kernel_cost.h>
#include <hero/core/profile/transfers.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/launch.h>
#include <hero/dist/simulation/cluster.h>
#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// The numbers of groups and labels, which all ranks of one world share.
class Recorder {
 public:
  Recorder(int world_size, const Cluster& cluster, bool keeps_parts = false)
      : cluster_(cluster), keeps_parts_(keeps_parts) {
    recording_.world_size = world_size;
    recording_.per_host = cluster.per_host;
  }
  const Cluster& cluster() const { return cluster_; }
  bool keeps_parts() const { return keeps_parts_; }
  /// The number of the group that the caller identifies by `key`.
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

/// Records the events of one rank while it runs on this thread: its kernels and transfers, as the
/// thread's CostMeter and TransferMeter, and its calls.
class RankRecorder : public core::CostMeter, public core::TransferMeter {
 public:
  RankRecorder(Recorder& recorder, int rank, Traffic& traffic);
  ~RankRecorder() override;
  RankRecorder(const RankRecorder&) = delete;
  RankRecorder& operator=(const RankRecorder&) = delete;

  /// The recorder of this thread, or null.
  static RankRecorder* current();

  void charge(const core::KernelCost& cost) override;
  int64_t begin_transfer(Transfer transfer, int64_t bytes) override;
  void wait_transfer(int64_t transfer) override { wait(transfer); }
  void call_behind(int64_t transfer) override { behind_ = transfer; }
  void hold_in_file(int64_t bytes) override;
  void begin_step();
  void part(const std::string& name);
  /// Records a call that member `me` of the group begins. The first wait() on the result records
  /// that the rank waits for the call.
  std::shared_ptr<Pending> begin(const Call& call, const void* group_key, const std::string& axis,
                                 std::span<const int> ranks, int me);
  void wait(int64_t number);
  /// Called when the rank has ended: gives its timeline to the Recorder.
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
  int64_t calls_ = 0, first_call_ = 0;  // numbers of calls and transfers
  int64_t behind_ = -1;                 // number of a transfer after which calls begin
  std::vector<bool> waited_;  // whether each transfer of this step was waited for, by number
  int64_t in_files_ = 0;
  core::CostScope scope_;
  RankRecorder* previous_;
  core::TransferMeter* previous_transfers_;
};

/// Does what record_ranks() does, and also records the peak of memory in each part of a program
/// (simulated_part()). The peaks of the ledgers restart with each part.
Recording record_parts(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks);

}  // namespace hero::dist
