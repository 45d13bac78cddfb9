#pragma once
// Checkpoints of runs on several ranks: each rank saves its own shards, and any number of ranks, on
// any strategy, can resume from them.
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

#include <hero/core/io/encoding.h>
#include <hero/core/random.h>
#include <hero/dist/communicator.h>
#include <hero/dist/rank_states.h>
#include <hero/nn/module.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/optimizer.h>

namespace hero::nn::data {
class DataLoader;
}

namespace hero::dist {

class BackgroundSave;
struct Manifest;
struct Tracked;

/// nn::Checkpointer for several ranks. Its calls are collectives, made between two steps. If
/// something goes wrong on one rank, all ranks throw an Error that names the rank.
///
///   run/checkpoints/step-00000500/model-rank-00000-of-00004.safetensors  one for each module,
///                                 optimizer-rank-00000-of-00004.safetensors  optimizer and rank
///                                 loader.safetensors      another object: rank 0's
///                                 trainer_state.json      step, numbers, SHA-256 of every file
///                                 COMPLETE                checksum of trainer_state.json
///
/// Each rank writes the shards that it owns; of several ranks with the same shard the lowest writes
/// it. No tensor is sent. A shard of a parameter is flat, and the metadata of the file say where it
/// belongs; optimizer states go by the name of the parameter, such as "state.fc1.weight.exp_avg".
/// Files are written into a temporary folder, the manifest (trainer_state.json) last, when all
/// ranks have flushed their files; then the folder is renamed. So after a run was killed, at any
/// moment, it finds either the old checkpoint or the whole new one. Ranks share the file system. An
/// undefined `world` stands for one process.
///
/// save(step, {.async = true}) works like that of nn::Checkpointer: each rank copies what it saves,
/// and a thread of the rank writes it; when all have, the thread of rank 0 renames the folder,
/// whatever the ranks do meanwhile. If something goes wrong on one rank, the next call of save(),
/// wait(), resume() or load() throws an Error on all ranks (if the next call is steps(), the call
/// after it does). The destructor of a checkpointer with such a save is a collective, too, unless
/// it runs because of an exception: then an incomplete save is abandoned, and the next save removes
/// its files.
/// \snippet test_examples_ranks.cpp dist_Checkpointer
class Checkpointer {
 public:
  using StateDict = nn::Checkpointer::StateDict;

  /// Makes a checkpointer for the run in the folder `run`, which need not exist yet; the same
  /// folder on every rank, which the first call of save(), resume() or load() checks.
  Checkpointer(const std::string& run, const Communicator& world,
               const nn::CheckpointerOptions& options = {});

  /// \name What belongs to the state
  /// Names consist of letters, digits, '-' and '_', and differ; objects must outlive the
  /// checkpointer.
  /// \{
  /// Tracks a module, with its parameters and its saved buffers (those of rank 0); or an optimizer,
  /// such as MasterWeights, for parameters of tracked modules; or any other object with
  /// state_dict() and a load_state_dict(dict) that changes nothing if it throws; rank 0 saves the
  /// state of such an object for all ranks.
  template <class T>
  requires requires(T& t, StateDict& dict) {
    dict = t.state_dict();
    t.load_state_dict(dict);
  }
  void track(const std::string& name, T& object) {
    if constexpr (std::is_base_of_v<nn::Module, T>) {
      track_module(name, object);
    } else if constexpr (std::is_base_of_v<optim::Optimizer, T>) {
      track_optimizer(name, object);
    } else {
      track(
          name, [&object] { return StateDict(object.state_dict()); },
          [&object](const StateDict& dict) { (void)object.load_state_dict(dict); });
    }
  }
  /// Tracks a loader. Rank 0 saves the position of its loader for all ranks. Each rank may have
  /// given its loader a seed of its own: the saved state must fit rank 0's seed, and the other
  /// ranks keep theirs.
  void track(const std::string& name, nn::data::DataLoader& loader);
  /// Tracks a state by two functions: rank 0's `save` returns the state that is saved for all
  /// ranks, and `load` restores it.
  void track(const std::string& name, std::function<StateDict()> save,
             std::function<void(const StateDict&)> load);
  /// Tracks state that differs from rank to rank, such as the errors of a communication hook: each
  /// rank gets its own state back; if the number of ranks has changed, it is reset. The rank states
  /// of an optimizer (dist::OneBitAdam) are tracked together with the optimizer.
  void track(const std::string& name, RankStates& own);
  /// Tracks a number of the program; rank 0 saves its number for all.
  void track(const std::string& name, int64_t& number);
  void track(const std::string& name, double& number);
  /// Tracks a generator beside the default one. Each rank gets its own state back. A rank that did
  /// not exist before gets the state of rank 0 with its rank added to the seed, or, if all ranks
  /// had the same state, this one.
  void track(const std::string& name, Generator& generator);
  /// Saves arrays of a tracked module or optimizer encoded by a codec, as
  /// nn::Checkpointer::encode() does. Each rank encodes its own shards, so the saved values depend
  /// on how the saving ranks shard the arrays, but not on the ranks that load them. RankStates are
  /// saved exactly.
  void encode(const std::string& name, const core::Encoding& encoding);
  /// \}

  /// Writes the checkpoint of step >= 0, then removes the oldest ones until `keep` are left, and
  /// those of later steps, left from before the run resumed at an earlier step. With keep 0 nothing
  /// is removed; damaged checkpoints that resume() skipped are renamed. Throws an Error on all
  /// ranks, before anything is written, if they are at different steps or track different objects.
  void save(int64_t step, const nn::SaveOptions& options = {});
  /// Waits until no save is under way. Throws an Error on all ranks that says what went wrong with
  /// the last one, if anything did.
  void wait();
  /// Loads a checkpoint as `which` says and returns its step, or nothing if there is no complete
  /// checkpoint. If anything is damaged, missing or does not fit, throws one Error that lists all
  /// of it, and changes nothing. newest_intact skips checkpoints that are damaged or cannot be
  /// read, and throws an Error if none is left.
  std::optional<int64_t> resume(nn::Resume which = nn::Resume::newest);
  /// Loads the checkpoint of that step.
  void load(int64_t step);

  /// The steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// The folder of the checkpoint of a step.
  std::string folder(int64_t step) const;

 private:
  /// Rank 0 takes the lock of the run's folder, for all. A collective.
  void hold_lock(nn::FolderLock::Unwritable unwritable);

  void track_module(const std::string& name, nn::Module& module);
  void track_optimizer(const std::string& name, optim::Optimizer& optimizer);
  Tracked& add(const std::string& name);
  Manifest read_manifest(int64_t step) const;
  /// What is damaged in the checkpoint of a step; "" if all files are as they were written.
  std::string damage(int64_t step) const;
  void load_intact(int64_t step);
  void check_same(int64_t step, const nn::SaveOptions& options) const;
  void check_same_folder() const;
  void write(int64_t step, const std::string& folder);

  nn::RunFolder run_;
  Communicator world_;
  std::vector<std::shared_ptr<Tracked>> tracked_;
  /// A save whose outcome no call has reported yet.
  std::shared_ptr<BackgroundSave> background_ = nullptr;
};

/// Options of save_full().
struct FullOptions {
  /// Bytes of tensors in one file, as Hugging Face's tools divide them.
  int64_t max_shard_bytes = 5'000'000'000;
  core::Metadata metadata = {};  ///< free text for every file
};

/// Writes whole parameters and saved buffers under their own names, whatever the strategy is. It is
/// a collective, with the same path on every rank. A path that ends in ".safetensors" is one file;
/// any other path is a folder, which gets "model.safetensors" or, if that would be larger than
/// max_shard_bytes, "model-00001-of-00003.safetensors", ... and at last
/// "model.safetensors.index.json". Rank 0 gathers and writes one parameter at a time. Throws an
/// Error if the folder has another set of files.
void save_full(const std::string& path, const Communicator& world, nn::Module& module,
               const FullOptions& options = {});

/// Reads what save_full(), Module::save() or Python wrote: a .safetensors file, an index, or a
/// folder with either of them; or the files of the only module in a Checkpointer's folder. Each
/// rank reads only its own shards, and converts them to its dtype. In all else it is like
/// Module::load().
nn::LoadResult load_full(const std::string& path, const Communicator& world, nn::Module& module,
                         const nn::LoadOptions& options = {});

}  // namespace hero::dist
