// The half of nn::Checkpointer that saves.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include <hero/autograd/sharding/replaced_values.h>
#include <hero/core/error.h>
#include <hero/core/io/crc32c.h>
#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/core/io/safetensors_file.h>
#include <hero/core/json/json.h>
#include <hero/core/ledger.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/checkpoint_state.h>

namespace hero::nn {

using core::JSON;

// What save() writes, of the moment of the call.
struct Checkpointer::Snapshot {
  struct Copy {
    std::string name;
    StateDict dict;
    core::Encoding encoding;
  };
  std::vector<Copy> copies;     // of objects, where a thread writes them
  JSON files = JSON::object();  // of those that are written
  JSON state;                   // all else
};

// A save on a thread.
struct Checkpointer::Writing {
  int64_t step;
  std::unique_ptr<BackgroundWork> work;

  void finish() const {
    if (work) (void)work->wait();
  }
  // What went wrong, once; "" where nothing did.
  std::string end() {
    if (!work) return "";
    const std::string error = work->wait();
    work.reset();
    if (error.empty()) return "";
    return "checkpoint: saving step " + std::to_string(step) + " in the background: " + error;
  }
  Writing(int64_t of, std::unique_ptr<BackgroundWork> begun) : step(of), work(std::move(begun)) {}
  ~Writing() {
    const std::string error = end();
    if (!error.empty()) std::fprintf(stderr, "%s\n", printable(error).c_str());
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

namespace {

// JSON has no such numbers.
JSON number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
}

JSON generator_json(const Generator::State& state) {
  return {{"seed", state.seed}, {"offset", state.offset}};
}

// Writes an object's file and notes it.
void write_object(const std::string& folder, const std::string& name,
                  const Checkpointer::StateDict& dict, const core::Encoding& encoding,
                  JSON& files) {
  const std::string file = checkpoints::object_file(folder, name);
  FileDigest digest;
  core::save_safetensors(file, dict, {}, encoding,
                         {.in_new_folder = true, .observe = [&](std::span<const std::byte> bytes) {
                            digest.bytes += bytes.size();
                            digest.crc32c = core::crc32c(bytes, digest.crc32c);
                          }});
  files[name] = {{"bytes", digest.bytes}, {"crc32c", checkpoints::hex(digest.crc32c)}};
}

void commit(const std::string& root, int64_t step, const JSON& files, JSON state) {
  state["files"] = files;
  checkpoints::rename_into_place(root, step, core::json_dump(state, "checkpoint", 2) + "\n");
}

// What `body` begins in the folder is gone where it throws.
template <class Body>
void or_nothing(const std::string& folder, const Body& body) {
  try {
    body();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    throw;
  }
}

}  // namespace

// Adds the numbers and random states.
void Checkpointer::take_numbers(int64_t step, Snapshot& taken) const {
  JSON integers = JSON::object(), numbers = JSON::object(), generators = JSON::object();
  for (const auto& [name, value] : integers_) integers[name] = *value;
  for (const auto& [name, value] : numbers_) numbers[name] = number_json(*value);
  for (const auto& [name, value] : generators_) generators[name] = generator_json(value->state());
  generators[checkpoints::kDefaultGenerator] = generator_json(default_generator().state());
  taken.state = {{"format", checkpoints::kFormat},
                 {"step", step},
                 {"integers", integers},
                 {"numbers", numbers},
                 {"generators", generators}};
}

void Checkpointer::save(int64_t step, const SaveOptions& options) {
  check(step >= 0, "checkpoint: a step is 0 or more: ", step);
  wait();
  run_.hold_lock(FolderLock::Unwritable::error);
  const std::string folder = run_.begin(step);
  run_.adopt();  // there is none of another run, and nobody else has the lock
  run_.pass_over({});
  or_nothing(folder, [&] {
    if (options.async) {
      begin_writing(step, folder);
    } else {
      const SavingCheckpoint checkpoint;
      Snapshot taken;
      for (const Object& object : objects_) {
        write_object(folder, object.name, object.save(), object.encoding, taken.files);
      }
      take_numbers(step, taken);
      commit(run_.root(), step, taken.files, taken.state);
    }
  });
  if (!options.async) checkpoints::prune(run_.root(), step, run_.keep());
}

void Checkpointer::begin_writing(int64_t step, const std::string& folder) {
  const auto taken = std::make_shared<Snapshot>();
  const SavingCheckpoint checkpoint;
  for (const Object& object : objects_) {
    const MemoryScope tagged(MemoryTag::other);
    StateDict dict = object.save();
    take_copies(dict);
    taken->copies.push_back({object.name, std::move(dict), object.encoding});
  }
  take_numbers(step, *taken);
  auto work = [taken, step, folder, root = run_.root(), keep = run_.keep(),
               lock = run_.lock()](const BackgroundWork::Hurried&) {
    or_nothing(folder, [&] {
      for (auto& [name, dict, encoding] : taken->copies) {
        write_object(folder, name, dict, encoding, taken->files);
        dict.clear();
      }
      commit(root, step, taken->files, taken->state);
    });
    checkpoints::prune(root, step, keep);
  };
  writing_ = std::make_shared<Writing>(
      step, std::make_unique<BackgroundWork>("checkpoint", std::move(work)));
}

void Checkpointer::wait() {
  run_.check_not_moved();
  const std::shared_ptr<Writing> ended = std::exchange(writing_, nullptr);
  if (!ended) return;
  const std::string error = ended->end();
  check(error.empty(), error);
}

std::vector<int64_t> Checkpointer::steps() const {
  run_.check_not_moved();
  // What is being renamed could be taken for what a killed process left.
  if (writing_) writing_->finish();
  return checkpoints::complete_steps(run_.root());
}

}  // namespace hero::nn
