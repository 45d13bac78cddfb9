#pragma once
// Checkpointer: saves everything a run needs to resume as if it had never stopped.
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

#include <hero/core/io/encoding.h>
#include <hero/core/random.h>
#include <hero/core/safetensors.h>
#include <hero/nn/training/run_folder.h>

namespace hero::nn {

/// Options of Checkpointer.
struct CheckpointerOptions {
  int keep = 2;  ///< complete checkpoints that are kept; 0: all
  /// Seconds to wait for another process that writes to the folder; a process that was just killed
  /// may take a moment to end.
  double patience_seconds = 5.0;
};

/// Options of Checkpointer::save().
struct SaveOptions {
  /// True: save() returns as soon as the states are copied, and a thread writes the files.
  bool async = false;
};

/// What a program does about the checkpoints in a run's folder.
enum class Resume {
  no,      ///< begin a new run; an Error if the folder has checkpoints
  newest,  ///< load the newest complete checkpoint; an Error if one of its files is damaged
  /// Load the newest that is intact, and say on stderr which ones are not; an Error if none is.
  newest_intact
};

/// Saves and restores the objects that it tracks, and always the state of this thread's default
/// generator:
///
///   run/checkpoints/step-00000500/model.safetensors      one file for each tracked object
///                                 optimizer.safetensors
///                                 trainer_state.json     step, numbers, random state, checksums
///                                 COMPLETE               checksum of trainer_state.json
///
/// A checkpoint is written into a temporary folder, flushed and renamed: so after a run was killed,
/// at any moment, it finds either the old checkpoint or the whole new one. Python can open the
/// .safetensors files as they are.
///
/// With save(step, {.async = true}), training continues while the files are written. The checkpoint
/// has the states from the moment of the call, and its files have the bytes that save(step) writes.
/// It is complete, and older ones are removed, when the thread has renamed it; wait() returns then.
/// If something goes wrong on the thread, the next call of save(), wait(), resume() or load()
/// throws the Error and does nothing else; earlier checkpoints are unharmed. A second save waits
/// for the first. While they are written, the states are in memory once more, charged to
/// MemoryTag::other, and in page-locked memory if they come from a device. The last copy of a
/// checkpointer waits in its destructor, and says on stderr what went wrong; so does exit(). In a
/// forked child no save is under way.
///
/// Only one process at a time writes to a folder: resume() and save() take the lock of the folder
/// (run/LOCK), which the checkpointer and a save under way hold; in another process they throw an
/// Error that names this one. load() and steps() can read while another process writes.
/// \snippet test_examples_networks.cpp Checkpointer
class Checkpointer {
 public:
  using StateDict = std::vector<core::NamedArray>;

  /// Makes a checkpointer for the run in the folder `run`, which need not exist yet.
  explicit Checkpointer(const std::string& run, const CheckpointerOptions& options = {});

  /// \name What belongs to the state
  /// Names consist of letters, digits, '-' and '_', and differ; objects must outlive the
  /// checkpointer.
  /// \{
  /// Tracks a module, an optimizer, a schedule, or anything else with state_dict() and a
  /// load_state_dict(dict) that changes nothing if it throws.
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
  /// Tracks a state by two functions; `load` must change nothing if it throws.
  void track(const std::string& name, std::function<StateDict()> save,
             std::function<void(const StateDict&)> load);
  /// Tracks a number of the program, such as the epoch or the best loss so far.
  void track(const std::string& name, int64_t& number);
  void track(const std::string& name, double& number);
  /// Tracks a generator beside the default one.
  void track(const std::string& name, Generator& generator);
  /// Saves arrays of a tracked object encoded by a codec: files are smaller, and a run that resumes
  /// from them gets the decoded values. The running program's own values stay exact.
  void encode(const std::string& name, const core::Encoding& encoding);
  /// \}

  /// Writes the checkpoint of step >= 0, then removes the oldest ones until `keep` are left. An
  /// older checkpoint of the same step is replaced. Checkpoints of later steps, left from before
  /// the run resumed at an earlier step, are removed, or with keep = 0 renamed to
  /// "step-00000500.abandoned". Those that resume() could not read are not removed but renamed to
  /// "step-00000500.damaged".
  void save(int64_t step, const SaveOptions& options = {});
  /// Waits until no save is under way. Throws an Error that says what went wrong with the last one,
  /// if anything did.
  void wait();
  /// Loads a checkpoint as `which` says and returns its step, or nothing if there is no complete
  /// checkpoint. Throws one Error that lists everything that does not fit, and then has changed
  /// nothing. It is also an Error if there are checkpoints and none can be read: a run does not
  /// restart from the beginning by itself.
  std::optional<int64_t> resume(Resume which = Resume::newest);
  /// Loads the checkpoint of that step.
  void load(int64_t step);

  /// The steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// The folder of the checkpoint of a step.
  std::string folder(int64_t step) const;

 private:
  struct Object {
    std::string name;
    std::function<StateDict()> save;
    std::function<void(const StateDict&)> load;
    core::Encoding encoding = {};
  };
  template <class T>
  struct Value {
    std::string name;
    T* value;
  };
  struct Saved;
  struct Snapshot;
  struct Writing;

  void check_name(const std::string& name) const;
  void take_numbers(int64_t step, Snapshot& taken) const;
  void begin_writing(int64_t step, const std::string& folder);
  std::string damage(int64_t step) const;
  Saved read_state(int64_t step) const;
  std::string misfit(const Saved& saved) const;
  void load_objects(const std::string& folder) const;

  RunFolder run_;
  std::vector<Object> objects_;
  std::vector<Value<int64_t>> integers_;
  std::vector<Value<double>> numbers_;
  std::vector<Value<Generator>> generators_;
  std::shared_ptr<Writing> writing_;  ///< the save that is under way, or was not waited for
};

}  // namespace hero::nn
