#include <algorithm>
#include <filesystem>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/background.h>
#include <hero/dist/checkpoint/files.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/training/append_file.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/folder_lock.h>

namespace hero::dist {

namespace checkpoints = nn::checkpoints;

namespace {

std::string join(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += std::to_string(number) + " ";
  return text;
}

std::vector<int64_t> split(const std::string& text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find(' ', at);
    numbers.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

// How the tracked objects differ from the saved ones; "" if they do not.
std::string misfit(const Manifest& saved, const TrackedList& tracked) {
  core::NameList list("; ");
  for (const auto& t : tracked) {
    const auto found = saved.tracked.find(t->name);
    if (found == saved.tracked.end() || found->second != t->kind()) {
      list.add(std::string(t->kind()) + " " + t->name + " is missing");
    }
  }
  for (const auto& [name, kind] : saved.tracked) {
    const bool known = std::any_of(tracked.begin(), tracked.end(),
                                   [&, n = name](const auto& t) { return t->name == n; });
    if (!known) list.add(kind + " " + name + " is not tracked");
  }
  return list.text();
}

// "model (module)", "adamw (optimizer, int8)": a line each, in order, as ranks go through them
// together.
std::string names_of(const TrackedList& tracked) {
  std::string lines;
  for (const auto& t : tracked) {
    const std::string codecs = t->encoding.text();
    lines += t->name + " (" + t->kind() + (codecs.empty() ? "" : ", " + codecs) + ")\n";
  }
  return lines;
}

// What `look` found wrong, or why it could not look.
template <class Look>
std::string said_of(const std::string& path, const Look& look) {
  try {
    return look();
  } catch (const std::exception& error) {
    return path + " cannot be read: " + error.what();
  }
}

}  // namespace

Checkpointer::Checkpointer(const std::string& run, const Communicator& world,
                           const nn::CheckpointerOptions& options)
    : run_(run, options.keep, options.patience_seconds), world_(world) {}

void Checkpointer::hold_lock(nn::FolderLock::Unwritable unwritable) {
  on_rank_0(world_, [&] {
    run_.hold_lock(unwritable);
    return std::string();
  });
}

Tracked& Checkpointer::add(const std::string& name) {
  run_.check_not_moved();
  const bool taken = std::any_of(tracked_.begin(), tracked_.end(),
                                 [&](const auto& other) { return other->name == name; });
  checkpoints::check_new_name(name, taken);
  tracked_.push_back(std::make_shared<Tracked>());
  tracked_.back()->name = name;
  return *tracked_.back();
}

void Checkpointer::track_module(const std::string& name, nn::Module& module) {
  add(name).module = &module;
}

void Checkpointer::track_optimizer(const std::string& name, optim::Optimizer& optimizer) {
  Tracked& tracked = add(name);
  tracked.optimizer = &optimizer;
  tracked.own = dynamic_cast<RankStates*>(&optimizer);
}

void Checkpointer::track(const std::string& name, std::function<StateDict()> save,
                         std::function<void(const StateDict&)> load) {
  Tracked& tracked = add(name);
  tracked.save = std::move(save);
  tracked.load = std::move(load);
}

void Checkpointer::track(const std::string& name, nn::data::DataLoader& loader) {
  const auto load = [&loader, first = rank_of(world_) == 0](const StateDict& saved) {
    StateDict state = saved;
    const StateDict own = loader.state_dict();
    const auto is_seed = [](const core::NamedArray& entry) { return entry.name == "seed"; };
    if (!first) {
      std::replace_if(state.begin(), state.end(), is_seed,
                      *std::find_if(own.begin(), own.end(), is_seed));
    }
    loader.load_state_dict(state);
  };
  track(
      name, [&loader] { return loader.state_dict(); }, load);
}

void Checkpointer::track(const std::string& name, RankStates& own) { add(name).own = &own; }

void Checkpointer::encode(const std::string& name, const core::Encoding& encoding) {
  run_.check_not_moved();
  encoding.check_codecs("checkpoint");
  const auto found = std::find_if(tracked_.begin(), tracked_.end(), [&](const auto& t) {
    return t->name == name && (t->module != nullptr || t->optimizer != nullptr);
  });
  check(found != tracked_.end(), "checkpoint: encode: no module or optimizer '", name,
        "' is tracked; track it before");
  (*found)->encoding = encoding;
}

void Checkpointer::track(const std::string& name, int64_t& number) { add(name).integer = &number; }

void Checkpointer::track(const std::string& name, double& number) { add(name).number = &number; }

void Checkpointer::track(const std::string& name, Generator& generator) {
  add(name).generator = &generator;
}

std::vector<int64_t> Checkpointer::steps() const {
  run_.check_not_moved();
  const PhaseScope loading(Phase::checkpoint);
  // What is being renamed could be taken for what a killed process left.
  if (background_) background_->finish();
  return split(on_rank_0(world_, [&] { return join(checkpoints::complete_steps(run_.root())); }));
}

std::string Checkpointer::folder(int64_t step) const { return run_.folder(step); }

// Ranks that would write what can never be loaded are refused before anything is written. The first
// call of save(), resume() and load() has a unit of its own, by which ranks find out that one of
// them has called another function.
void Checkpointer::check_same(int64_t step, const nn::SaveOptions& options) const {
  same_on_all(world_, "checkpoint: ranks are at different steps",
              std::to_string(step) + (options.async ? " in the background" : ""),
              "save a checkpoint");
  check_same_folder();
  constexpr auto kAdvice = "track the same on every rank, in the same order";
  same_lines(world_, "checkpoint: ranks track different things", names_of(tracked_), kAdvice);
  same_lines(world_, "checkpoint: ranks track different modules", modules_of(tracked_), kAdvice);
}

// Ranks whose programs name a run by the time, say, would look for each other's files elsewhere.
void Checkpointer::check_same_folder() const {
  same_on_all(world_, "checkpoint: ranks name different folders of a run",
              checkpoints::run_of(run_.root()));
}

void Checkpointer::save(int64_t step, const nn::SaveOptions& options) {
  run_.check_not_moved();
  const PhaseScope saving(Phase::checkpoint);
  wait();
  check_same(step, options);
  check(step >= 0, "checkpoint: a step is 0 or more: ", step);
  hold_lock(nn::FolderLock::Unwritable::error);
  const std::string folder = on_rank_0(world_, [&] { return run_.begin(step); });
  run_.adopt();  // there is none of another run, and nobody else has the lock
  run_.pass_over({});
  try {
    if (options.async) {
      background_ = std::make_shared<BackgroundSave>(
          world_, tracked_,
          BackgroundSave::Target{run_.root(), folder, step, run_.keep(), run_.lock()});
    } else {
      write(step, folder);
    }
  } catch (...) {
    std::error_code ignored;
    if (rank_of(world_) == 0) std::filesystem::remove_all(folder, ignored);
    throw;
  }
}

void Checkpointer::write(int64_t step, const std::string& folder) {
  Manifest manifest = save_files(folder, world_, tracked_);
  manifest.step = step;
  on_rank_0(world_, [&] {
    checkpoints::rename_into_place(run_.root(), step, to_text(manifest));
    checkpoints::prune(run_.root(), step, run_.keep());
    return std::string();
  });
  if (rank_of(world_) == 0) tell_saved(step);
}

void Checkpointer::wait() {
  run_.check_not_moved();
  const std::shared_ptr<BackgroundSave> ended = std::exchange(background_, nullptr);
  if (!ended) return;
  const PhaseScope saving(Phase::checkpoint);
  ended->finish();
  if (const std::exception_ptr failure = ended->take_failure()) std::rethrow_exception(failure);
}

Manifest Checkpointer::read_manifest(int64_t step) const {
  const std::string path = folder(step) + "/" + checkpoints::kStateFile;
  Manifest manifest = parse_manifest(on_rank_0(world_, [&] { return nn::read_text(path); }), path);
  check(manifest.step == step, "checkpoint: ", path, " is of step ", manifest.step);
  return manifest;
}

std::string Checkpointer::damage(int64_t step) const {
  const std::string state = on_rank_0(world_, [&] {
    return said_of(folder(step), [&] {
      const std::string wrong = checkpoints::state_damage(folder(step));
      const std::string path = folder(step) + "/" + checkpoints::kStateFile;
      if (!wrong.empty()) return wrong;
      const int64_t of_step = parse_manifest(nn::read_text(path), path).step;
      check(of_step == step, "checkpoint: ", path, " is of step ", of_step);
      return wrong;
    });
  });
  if (!state.empty()) return state;
  return files_damage(folder(step), world_, read_manifest(step));
}

std::optional<int64_t> Checkpointer::resume(nn::Resume which) {
  run_.check_not_moved();
  const PhaseScope loading(Phase::checkpoint);
  wait();
  same_on_all(world_, "checkpoint: ranks resume differently (0 no, 1 newest, 2 newest_intact)",
              std::to_string(static_cast<int>(which)), "resume from a checkpoint");
  check_same_folder();
  const std::vector<int64_t> found = steps();
  // A run that does not exist yet is not made by asking; save() takes the lock there.
  if (which != nn::Resume::no && !found.empty()) hold_lock(nn::FolderLock::Unwritable::no_lock);
  checkpoints::Newest chosen = checkpoints::newest(
      run_.root(), found, which, [this](int64_t step) { return damage(step); },
      rank_of(world_) == 0);
  if (chosen.step) {
    load_intact(*chosen.step);
    run_.pass_over(std::move(chosen.passed_over));
    if (rank_of(world_) == 0) tell_resumed(*chosen.step);
  }
  run_.adopt();
  return chosen.step;
}

void Checkpointer::load(int64_t step) {
  run_.check_not_moved();
  const PhaseScope loading(Phase::checkpoint);
  wait();
  same_on_all(world_, "checkpoint: ranks load different steps", std::to_string(step),
              "load a checkpoint");
  check_same_folder();
  run_.check_intact(step, steps(), [this](int64_t of) { return damage(of); });
  load_intact(step);
}

void Checkpointer::load_intact(int64_t step) {
  const Manifest manifest = read_manifest(step);
  agree(world_, [&] {
    const std::string unlike = misfit(manifest, tracked_);
    check(unlike.empty(), "checkpoint: ", folder(step), " does not fit this program: ", unlike);
  });
  try {
    load_files(folder(step), world_, manifest, tracked_);
  } catch (const Error& error) {
    fail("checkpoint: ", folder(step), " does not fit this program: ", error.what());
  }
  run_.adopt();
}

}  // namespace hero::dist
