#pragma once
// RunFolder: the folder of a run's checkpoints as one Checkpointer uses it; internal to the
// Checkpointers of nn and dist.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hero/nn/training/folder_lock.h>

namespace hero::nn {

/// Where a run's checkpoints are, the lock of the run's folder, and whether the checkpoints that
/// the folder has belong to this run.
class RunFolder {
 public:
  /// `keep` and `patience_seconds` are those of CheckpointerOptions. Throws an Error if keep < 0.
  RunFolder(const std::string& run, int keep, double patience_seconds);

  /// Throws an Error if the checkpointer was moved from.
  void check_not_moved() const;
  const std::string& root() const { return root_; }  ///< the folder of all checkpoints
  int keep() const { return keep_; }
  /// The folder of the checkpoint of a step. Throws an Error if the checkpointer was moved from.
  std::string folder(int64_t step) const;

  /// Takes the lock of the run's folder, or another handle of it.
  void hold_lock(FolderLock::Unwritable unwritable);
  const std::shared_ptr<FolderLock>& lock() const { return lock_; }

  /// Sets aside the checkpoints of pass_over(), removes what killed processes left unfinished, and
  /// makes the folder in which the checkpoint of this step is written. Throws an Error if there are
  /// checkpoints and adopt() was not called. The lock is held.
  std::string begin(int64_t step) const;
  /// From now on the checkpoints in the folder belong to this run.
  void adopt() { may_save_ = true; }
  /// The steps of damaged checkpoints, which the next begin() sets aside.
  void pass_over(std::vector<int64_t> steps) { passed_over_ = std::move(steps); }

  /// Throws an Error unless the step is among those of the complete checkpoints, `found`, and
  /// `damage` of it is "".
  void check_intact(int64_t step, const std::vector<int64_t>& found,
                    const std::function<std::string(int64_t)>& damage) const;

 private:
  std::string root_;
  int keep_;
  double patience_seconds_;
  std::shared_ptr<FolderLock> lock_;
  std::vector<int64_t> passed_over_;
  bool may_save_ = false;
};

}  // namespace hero::nn
