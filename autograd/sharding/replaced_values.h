#pragma once
// Leaves that have other values than their own for a while, such as averages: what saves, loads or
// steps values asks here, so that these are not taken for what was trained.
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// What is about to be done with the values of a leaf.
enum class ValueUse {
  save,        ///< they are written or returned as a state
  checkpoint,  ///< they are saved for a run that resumes from them
  load,        ///< others are put in their place
  step         ///< an optimizer steps them
};

/// What is to be known of values that are in a leaf in place of its own.
struct ReplacedValues {
  /// What they are and what to do, for messages that begin with the leaf's name: "is an average
  /// now; ...".
  std::string what;
  /// True if they may be saved alone, as an average may; never in a checkpoint, which would lose
  /// the leaf's own.
  bool can_save = false;
  /// True if a step of them counts for the leaf's own values, too.
  bool can_step = false;
};

/// While it lives, these leaves have such values. A leaf whose parameter is cut into shards later
/// is still marked, and so is the whole parameter that is gathered from them.
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

/// Throws an Error, which `op` and the leaf's name begin, if the leaf has values in place of its
/// own that must not be used so. Within a SavingCheckpoint, saving is saving in a checkpoint.
void check_own_values(const char* op, const std::string& name, const Tensor& leaf, ValueUse use);

/// The same for several leaves, which are called "parameter 0", "parameter 1", ...
void check_own_values(const char* op, const std::vector<Tensor>& leaves, ValueUse use);

/// While it lives, states that this thread takes go into a checkpoint.
class SavingCheckpoint {
 public:
  SavingCheckpoint();
  ~SavingCheckpoint();
  SavingCheckpoint(const SavingCheckpoint&) = delete;
  SavingCheckpoint& operator=(const SavingCheckpoint&) = delete;
};

}  // namespace hero
