#pragma once
// Marks on leaves whose trained values are replaced for a while, for example by averages. Functions
// that save, load or step values check the marks, so that replaced values are not taken for the
// trained ones.
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// A use of the values of a leaf.
enum class ValueUse {
  save,        ///< they are written or returned as a state
  checkpoint,  ///< they are saved for a run that resumes from them
  load,        ///< others are put in their place
  step         ///< an optimizer steps them
};

/// Describes values that a leaf has in place of its own.
struct ReplacedValues {
  /// What the values are and what the user should do, for messages that begin with the leaf's name:
  /// "is an average now; ...".
  std::string what;
  /// True if they may be saved alone, as an average may; never in a checkpoint, which would lose
  /// the leaf's own.
  bool can_save = false;
  /// True if a step of them counts for the leaf's own values, too.
  bool can_step = false;
};

/// While it lives, these leaves are marked as having replaced values. A leaf whose parameter is cut
/// into shards later is still marked, and so is the whole parameter that is gathered from the
/// shards.
class ReplacedValuesScope {
 public:
  /// Marks the leaves.
  ReplacedValuesScope(const std::vector<Tensor>& leaves, ReplacedValues values);
  ~ReplacedValuesScope();
  ReplacedValuesScope(ReplacedValuesScope&&) noexcept = default;
  ReplacedValuesScope& operator=(ReplacedValuesScope&&) = delete;

 private:
  std::vector<HookHandle> marks_;
};

/// Throws an Error that begins with `op` and the leaf's name if the leaf has replaced values that
/// do not allow this use. Within a SavingCheckpoint, ValueUse::save counts as ValueUse::checkpoint.
void check_own_values(const char* op, const std::string& name, const Tensor& leaf, ValueUse use);

/// The same for several leaves, which are called "parameter 0", "parameter 1", ...
void check_own_values(const char* op, const std::vector<Tensor>& leaves, ValueUse use);

/// While it lives, states that this thread saves count as parts of a checkpoint.
class SavingCheckpoint {
 public:
  SavingCheckpoint();
  ~SavingCheckpoint();
  SavingCheckpoint(const SavingCheckpoint&) = delete;
  SavingCheckpoint& operator=(const SavingCheckpoint&) = delete;
};

}  // namespace hero
