#pragma once
// Checkpoints of runs on several ranks: each rank saves its own parts, and any number of ranks, on
// any rung of the ladder, goes on from them.
//
//   dist::Checkpointer checkpoint("runs/gpt", world, {.keep = 2});
//   checkpoint.track("model", model);      // before or after fully_shard(), DDP, ZeRO
//   checkpoint.track("optimizer", adamw);
//   int64_t step = checkpoint.resume().value_or(0);
//   ... checkpoint.save(step);             // every rank calls it
//   dist::save_full("gpt.safetensors", world, model);  // for Python
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <hero/core/random.h>
#include <hero/dist/communicator.h>
#include <hero/dist/rank_states.h>
#include <hero/nn/module.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

class BackgroundSave;
struct Manifest;
struct Tracked;

/// nn::Checkpointer for several ranks. Its calls are collectives between two steps; what goes wrong
/// on one rank is one Error on all, which names the rank.
///
///   run/checkpoints/step-00000500/model-rank-00000-of-00004.safetensors  one for each module,
///                                 optimizer-rank-00000-of-00004.safetensors  optimizer and rank
///                                 loader.safetensors      another object: rank 0's
///                                 trainer_state.json      step, numbers, SHA-256 of every file
///                                 COMPLETE                checksum of trainer_state.json
///
/// Each rank writes the parts that it owns; what several ranks hold is written by the lowest of
/// them. No tensor travels. A part of a parameter is flat, and the file's metadata say where it
/// belongs; optimizer states go by the parameter's name, "state.fc1.weight.exp_avg". The folder is
/// written beside its place, the manifest when all ranks have flushed their files, and then it is
/// renamed: killed at any moment, a run finds the older checkpoint or the whole new one. Ranks
/// share the file system. An undefined `world` is one process alone.
///
/// save(step, {.async = true}) is as nn::Checkpointer's: each rank copies what it saves, and its
/// thread writes it; when all have, rank 0's renames the folder, whatever the ranks do meanwhile.
/// What goes wrong on one rank is the Error on all in the next call of save(), wait(), resume(),
/// load() or, where it is steps(), in the one after it. The destructor of a checkpointer with such
/// a save is a collective too, unless an exception is on its way: then a save that is not complete
/// is given up, and the next one removes what there is of it.
/// \snippet test_examples_ranks.cpp dist_Checkpointer
class Checkpointer {
 public:
  using StateDict = nn::Checkpointer::StateDict;

  /// Checkpoints of the run in the folder `run`, which need not exist yet.
  Checkpointer(const std::string& run, const Communicator& world,
               const nn::CheckpointerOptions& options = {});

  /// \name What belongs to the state
  /// Names are of letters, digits, '-', '_' and differ; objects must outlive the checkpointer.
  /// \{
  /// A module: parameters and saved buffers (rank 0's). An optimizer, MasterWeights too, of tracked
  /// modules' parameters. Any other object with state_dict() and load_state_dict(dict), which
  /// changes nothing when it throws: rank 0's state, for all.
  template <class T>
  requires requires(T& t, StateDict& dict) {
    dict = t.state_dict();
    t.load_state_dict(dict);
  }
  void track(const std::string& name, T& object) {
    if constexpr (std::is_base_of_v<nn::Module, T>) {
      track_module(name, object);
    } else if constexpr (requires { object.model_parameters(); }) {
      track_optimizer(name, object, [&object] { return object.model_parameters(); });
    } else if constexpr (std::is_base_of_v<optim::Optimizer, T>) {
      track_optimizer(name, object, [&object] { return object.parameters(); });
    } else {
      track(
          name, [&object] { return StateDict(object.state_dict()); },
          [&object](const StateDict& dict) { (void)object.load_state_dict(dict); });
    }
  }
  void track(const std::string& name, std::function<StateDict()> save,
             std::function<void(const StateDict&)> load);
  /// What each rank has of its own, as the errors of a communication hook: each rank gets its own
  /// back, and other numbers of ranks begin anew. Where an optimizer has such (dist::OneBitAdam),
  /// it is tracked with it.
  void track(const std::string& name, RankStates& own);
  /// A number of the program: rank 0's, for all.
  void track(const std::string& name, int64_t& number);
  void track(const std::string& name, double& number);
  /// A generator beside the default one. Each rank gets its own state back; ranks that were not
  /// there get rank 0's with their rank added to the seed, or all the one that all had.
  void track(const std::string& name, Generator& generator);
  /// \}

  /// Writes step >= 0, then removes the oldest beyond `keep`, and those of later steps, which a run
  /// that went on from an earlier one has abandoned; with keep 0 nothing is removed, and damaged
  /// ones that resume() passed over are renamed. An Error on all ranks, before anything is written,
  /// where they are at different steps or track different things.
  void save(int64_t step, const nn::SaveOptions& options = {});
  /// Returns when no save is under way. An Error on all ranks says what went wrong with the last
  /// one.
  void wait();
  /// Loads as `which` says and returns the step; nothing where there is no complete checkpoint.
  /// One Error lists what is damaged, missing or does not fit, and then nothing has changed.
  /// newest_intact passes over what is damaged or cannot be read, and is an Error where nothing
  /// is left.
  std::optional<int64_t> resume(nn::Resume which = nn::Resume::newest);
  /// Loads the checkpoint of that step.
  void load(int64_t step);

  /// Steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// The folder of a step's checkpoint.
  std::string folder(int64_t step) const;

 private:
  using Parameters = std::function<std::vector<Tensor>()>;

  /// Rank 0 takes the lock of the run's folder, for all. A collective.
  void hold_lock(nn::FolderLock::Unwritable unwritable);

  void track_module(const std::string& name, nn::Module& module);
  void track_optimizer(const std::string& name, optim::Optimizer& optimizer, Parameters parameters);
  Tracked& add(const std::string& name);
  Manifest read_manifest(int64_t step) const;
  /// "" for a checkpoint whose files are as they were written.
  std::string damage(int64_t step) const;
  void load_intact(int64_t step);
  void check_same(int64_t step, const nn::SaveOptions& options) const;
  void write(int64_t step, const std::string& folder);

  std::string root_;
  Communicator world_;
  std::shared_ptr<nn::FolderLock> lock_ = nullptr;
  nn::CheckpointerOptions options_;
  std::vector<std::shared_ptr<Tracked>> tracked_;
  std::shared_ptr<BackgroundSave> background_ = nullptr;  ///< whose outcome nobody asked for
  std::vector<int64_t> passed_over_ = {};  ///< damaged ones, set aside by the next save
  bool may_save_ = false;                  ///< the checkpoints that are there are this run's
};

struct FullOptions {
  int64_t max_shard_bytes = 5'000'000'000;  ///< of one file's tensors, as Hugging Face tools cut
  core::Metadata metadata = {};             ///< free text for every file
};

/// Writes whole parameters and saved buffers under their own names, whatever the rung; a
/// collective. A path that ends in ".safetensors" is one file; any other is a folder, which gets
/// "model.safetensors" or, where that would be larger than max_shard_bytes,
/// "model-00001-of-00003.safetensors", ... and "model.safetensors.index.json", written last. Rank 0
/// writes and collects one parameter at a time. A folder that holds another set is an Error.
void save_full(const std::string& path, const Communicator& world, nn::Module& module,
               const FullOptions& options = {});

/// Reads what save_full(), Module::save() or Python wrote: a .safetensors file, an index, a folder
/// that holds either; or the only module's files of a Checkpointer's folder. Each rank reads its
/// own parts only, converted to its dtype. As Module::load() in all else.
nn::LoadResult load_full(const std::string& path, const Communicator& world, nn::Module& module,
                         const nn::LoadOptions& options = {});

}  // namespace hero::dist
