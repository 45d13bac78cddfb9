#include <algorithm>
#include <filesystem>

#include <hero/core/error.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/run_folder.h>

namespace hero::nn {

RunFolder::RunFolder(const std::string& run, int keep, double patience_seconds)
    : root_((std::filesystem::path(run) / "checkpoints").string()),
      keep_(keep),
      patience_seconds_(patience_seconds) {
  check(keep >= 0, "checkpoint: keep is 0 (all) or more: ", keep);
}

void RunFolder::check_not_moved() const {
  check(!root_.empty(), "checkpoint: it was moved from; use the one that it was moved into");
}

std::string RunFolder::folder(int64_t step) const {
  check_not_moved();
  return root_ + "/" + checkpoints::folder_name(step);
}

void RunFolder::hold_lock(FolderLock::Unwritable unwritable) {
  // Each time: a forked child takes its own, and somebody may have taken the run over.
  lock_ = FolderLock::take("checkpoint", checkpoints::run_of(root_), patience_seconds_, unwritable);
}

std::string RunFolder::begin(int64_t step) const {
  check(may_save_ || checkpoints::complete_steps(root_).empty(), "checkpoint: ", root_,
        " holds checkpoints of another run; resume() it, or choose another folder");
  for (const int64_t passed : passed_over_) checkpoints::set_aside(root_, passed, "damaged");
  checkpoints::remove_unfinished(root_);
  return checkpoints::begin(root_, step);
}

void RunFolder::check_intact(int64_t step, const std::vector<int64_t>& found,
                             const std::function<std::string(int64_t)>& damage) const {
  check(std::find(found.begin(), found.end(), step) != found.end(),
        "checkpoint: there is no complete checkpoint ", folder(step));
  const std::string wrong = damage(step);
  check(wrong.empty(), "checkpoint: ", wrong);
}

}  // namespace hero::nn
