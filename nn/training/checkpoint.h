#pragma once
// Checkpointer: everything a run needs to go on as if it had never stopped.
//
//   nn::Checkpointer checkpoint("runs/mlp", {.keep = 2});
//   checkpoint.track("model", model);
//   checkpoint.track("optimizer", adamw);
//   checkpoint.track("epoch", epoch);
//   int64_t step = checkpoint.resume(resume ? nn::Resume::newest : nn::Resume::no).value_or(0);
//   ... checkpoint.save(step);
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/random.h>
#include <hero/core/safetensors.h>
#include <hero/nn/training/folder_lock.h>

namespace hero::nn {

struct CheckpointerOptions {
  int keep = 2;  ///< complete checkpoints that stay when a new one is complete; 0: all
  /// How long to wait for another process that writes to the folder; one that was just killed may
  /// take a moment to end.
  double patience_seconds = 5.0;
};

struct SaveOptions {
  /// save() returns when the states are copied; a thread writes the files.
  bool async = false;
};

enum class Resume {
  no,            ///< a new run: an Error where the folder holds checkpoints
  newest,        ///< the newest complete checkpoint; an Error where a file of it is damaged
  newest_intact  ///< passes over those that are damaged or cannot be read, with a line on stderr
                 ///< for each; an Error where that leaves none
};

/// Saves and restores what it tracks, and always the state of this thread's default generator:
///
///   run/checkpoints/step-00000500/model.safetensors      one file for each tracked object
///                                 optimizer.safetensors
///                                 trainer_state.json     step, numbers, random state, checksums
///                                 COMPLETE               checksum of trainer_state.json
///
/// A checkpoint is written beside its place, flushed and renamed: killed at any moment, a run finds
/// the older one or the whole new one. The .safetensors files open in Python as they are.
///
/// With save(step, {.async = true}) training goes on while the files are written. The checkpoint is
/// of the moment of the call, and its files have the bytes that save(step) writes. It is complete,
/// and older ones are removed, when the thread has renamed it; wait() returns then. What goes wrong
/// on the thread is the Error of the next call of save(), wait(), resume() or load(), which then
/// does nothing else; the checkpoints before are as they were. A second save waits for the first.
/// Memory: the states once more while they are written, MemoryTag::other, in page-locked memory
/// where they lie on a device. The last copy of a checkpointer that is destroyed waits, and says on
/// stderr what went wrong; so does exit(). In a forked child nothing is under way.
///
/// One process writes to a folder at a time: resume() and save() take the lock of the folder
/// (run/LOCK) and the checkpointer holds it; in another process they are an Error that names this
/// one; a save that is under way holds it too. load() and steps() read beside a writer.
/// \snippet test_examples_networks.cpp Checkpointer
class Checkpointer {
 public:
  using StateDict = std::vector<core::NamedArray>;

  /// Checkpoints of the run in the folder `run`, which need not exist yet.
  explicit Checkpointer(const std::string& run, const CheckpointerOptions& options = {});

  /// \name What belongs to the state
  /// Names are of letters, digits, '-', '_' and differ; objects must outlive the checkpointer.
  /// \{
  /// A module, an optimizer, a schedule: whatever has state_dict() and load_state_dict(dict), which
  /// changes nothing when it throws.
  template <class T>
  requires requires(T& t, StateDict& dict) {
    dict = t.state_dict();
    t.load_state_dict(dict);
  }
  void track(const std::string& name, T& object) {
    track(
        name, [&object] { return StateDict(object.state_dict()); },
        [&object](const StateDict& dict) { (void)object.load_state_dict(dict); });
  }
  void track(const std::string& name, std::function<StateDict()> save,
             std::function<void(const StateDict&)> load);
  /// A number of the program: an epoch, the best loss so far.
  void track(const std::string& name, int64_t& number);
  void track(const std::string& name, double& number);
  /// A generator beside the default one.
  void track(const std::string& name, Generator& generator);
  /// \}

  /// Writes step >= 0, then removes the oldest beyond `keep`. An older checkpoint of the same step
  /// is replaced; those of later steps, which a run that went on from an earlier one has abandoned,
  /// are removed, or with keep = 0 renamed to "step-00000500.abandoned". Those that resume() passed
  /// over are not removed but renamed, to "step-00000500.damaged".
  void save(int64_t step, const SaveOptions& options = {});
  /// Returns when no save is under way. An Error says what went wrong with the last one.
  void wait();
  /// Loads as `which` says and returns the step; nothing where there is no complete checkpoint.
  /// One Error lists everything that does not fit, and then nothing has changed. Where there are
  /// checkpoints and none can be read it is an Error too: the run does not begin anew by itself.
  std::optional<int64_t> resume(Resume which = Resume::newest);
  /// Loads the checkpoint of that step.
  void load(int64_t step);

  /// Steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// The folder of a step's checkpoint.
  std::string folder(int64_t step) const;

 private:
  struct Object {
    std::string name;
    std::function<StateDict()> save;
    std::function<void(const StateDict&)> load;
  };
  template <class T>
  struct Value {
    std::string name;
    T* value;
  };
  struct Saved;
  struct Snapshot;
  struct Writing;

  void hold_lock(FolderLock::Unwritable unwritable);
  void check_name(const std::string& name) const;
  void take_numbers(int64_t step, Snapshot& taken) const;
  void begin_writing(int64_t step, const std::string& folder);
  std::string damage(int64_t step) const;
  Saved read_state(int64_t step) const;
  std::string misfit(const Saved& saved) const;
  void load_objects(const std::string& folder) const;

  std::string root_;
  CheckpointerOptions options_;
  std::vector<Object> objects_;
  std::vector<Value<int64_t>> integers_;
  std::vector<Value<double>> numbers_;
  std::vector<Value<Generator>> generators_;
  std::shared_ptr<FolderLock> lock_;
  std::shared_ptr<Writing> writing_;  ///< the save that is under way, or whose end nobody asked for
  std::vector<int64_t> passed_over_;  ///< steps that resume() could not read
  bool may_save_ = false;             ///< the checkpoints that are there are this run's
};

}  // namespace hero::nn
