#pragma once
// BackgroundSave: a save of several ranks that runs while they train; for Checkpointer.
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/checkpoint/files.h>
#include <hero/dist/communicator.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/folder_lock.h>

namespace hero::dist {

/// Each rank's thread writes its files. The threads make no collectives: a rank that is done writes
/// a note file into the folder, and when all have, rank 0's thread writes the manifest and renames
/// the folder. In finish() the ranks agree on the outcome, so that rank 0's thread need not poll
/// for the notes any more. If an exception ends the program, it is unknown whether the other ranks
/// still write: then the save is abandoned unless it is complete.
class BackgroundSave {
 public:
  struct Target {
    std::string root;    ///< folder of all checkpoints
    std::string folder;  ///< the temporary folder of this save
    int64_t step = 0;
    int keep = 0;
    std::shared_ptr<nn::FolderLock> lock;  ///< rank 0's
  };

  /// Copies the state that each rank saves, and begins to write it. A collective.
  BackgroundSave(const Communicator& world, const TrackedList& tracked, Target target);
  /// Calls finish() if that was not done, and prints a failure on rank 0's stderr.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Waits until the checkpoint is complete or has failed on all ranks. A collective.
  void finish();
  /// Returns the failure, the same Error on all ranks, and clears it; null if there was none.
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
  int exceptions_;  // number of exceptions in flight when it began
  bool finished_ = false;
  std::exception_ptr failure_;
};

}  // namespace hero::dist
