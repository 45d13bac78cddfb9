#pragma once
// A save of several ranks that goes on while they train; for Checkpointer.
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/checkpoint/files.h>
#include <hero/dist/communicator.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/folder_lock.h>

namespace hero::dist {

/// Each rank's thread writes its files. Threads call no collective: a rank that is done leaves a
/// note in the folder, and when all have, rank 0's thread writes the manifest and renames the
/// folder. The ranks agree on the outcome in finish(), which rank 0's thread then need not look for
/// notes for. Where a program leaves by an exception nobody can say whether the others still
/// write: then the save is given up unless it is complete.
class BackgroundSave {
 public:
  struct Target {
    std::string root;    ///< of the checkpoints
    std::string folder;  ///< the unfinished one
    int64_t step = 0;
    int keep = 0;
    std::shared_ptr<nn::FolderLock> lock;  ///< rank 0's
  };

  /// Copies what every rank saves, and begins to write. A collective.
  BackgroundSave(const Communicator& world, const TrackedList& tracked, Target target);
  /// finish(), where nobody has called it, with what went wrong on rank 0's stderr.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Returns when the checkpoint is complete or has failed, on all ranks. A collective.
  void finish();
  /// What went wrong, an Error that all ranks share; once.
  std::exception_ptr take_failure();

 private:
  struct Shared;
  static void run(Shared& shared, const nn::BackgroundWork::Hurried& hurried);
  static std::vector<std::string> gather(Shared& shared,
                                         const nn::BackgroundWork::Hurried& hurried);
  void give_up();
  void wait_for_all();

  Communicator world_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<nn::BackgroundWork> work_;
  int exceptions_;  // in flight when it began
  bool finished_ = false;
  std::exception_ptr failure_;
};

}  // namespace hero::dist
