#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/checkpoint_state.h>

namespace hero::nn {

using core::JSON;

// The state file, read.
struct Checkpointer::Saved {
  std::map<std::string, FileDigest> files;
  std::map<std::string, int64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, Generator::State> generators;
};

namespace {

double number_of(const JSON& value, const std::string& name) {
  if (value.is_number()) return value.number();
  const std::string& text = core::json_text(value, name);
  check(text == "NaN" || text == "Infinity" || text == "-Infinity", "not a number: ", text);
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return text == "Infinity" ? std::numeric_limits<double>::infinity()
                            : -std::numeric_limits<double>::infinity();
}

uint32_t checksum_of(const JSON& value, const std::string& name) {
  const std::string& text = core::json_text(value, "the crc32c of " + name);
  uint32_t crc = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, crc, 16);
  check(error == std::errc() && stop == end && text.size() == 8, "the crc32c of ", name, " is '",
        text, "', not eight hexadecimal digits");
  return crc;
}

// Names in `wanted` and not in `found`, and the other way round.
template <class Found>
void compare_names(const std::vector<std::string>& wanted, const Found& found, const char* what,
                   core::NameList& list) {
  for (const std::string& name : wanted) {
    if (found.count(name) == 0) list.add(std::string(what) + " " + name + " is missing");
  }
  for (const auto& entry : found) {
    if (std::find(wanted.begin(), wanted.end(), entry.first) == wanted.end()) {
      list.add(std::string(what) + " " + entry.first + " is not tracked");
    }
  }
}

template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

int64_t bytes_of(const Checkpointer::StateDict& dict) {
  int64_t bytes = 0;
  for (const core::NamedArray& entry : dict) bytes += entry.array.nbytes();
  return bytes;
}

}  // namespace

Checkpointer::Checkpointer(const std::string& run, const CheckpointerOptions& options)
    : run_(run, options.keep, options.patience_seconds) {}

void Checkpointer::check_name(const std::string& name) const {
  run_.check_not_moved();
  const auto taken = [&](const auto& entries) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.name == name; });
  };
  checkpoints::check_new_name(
      name, taken(objects_) || taken(integers_) || taken(numbers_) || taken(generators_));
}

void Checkpointer::track(const std::string& name, std::function<StateDict()> save,
                         std::function<void(const StateDict&)> load) {
  check_name(name);
  objects_.push_back({name, std::move(save), std::move(load)});
}

void Checkpointer::encode(const std::string& name, const core::Encoding& encoding) {
  encoding.check_codecs("checkpoint");
  const auto object = std::find_if(objects_.begin(), objects_.end(),
                                   [&](const Object& each) { return each.name == name; });
  check(object != objects_.end(), "checkpoint: encode: no object '", name,
        "' is tracked; track it before");
  object->encoding = encoding;
}

void Checkpointer::track(const std::string& name, int64_t& number) {
  check_name(name);
  integers_.push_back({name, &number});
}

void Checkpointer::track(const std::string& name, double& number) {
  check_name(name);
  numbers_.push_back({name, &number});
}

void Checkpointer::track(const std::string& name, Generator& generator) {
  check_name(name);
  generators_.push_back({name, &generator});
}

std::string Checkpointer::folder(int64_t step) const { return run_.folder(step); }

std::optional<int64_t> Checkpointer::resume(Resume which) {
  wait();
  // A run that does not exist yet is not made by asking; save() takes the lock there.
  if (is_folder(run_.root())) run_.hold_lock(FolderLock::Unwritable::no_lock);
  checkpoints::Newest chosen = checkpoints::newest(run_.root(), steps(), which,
                                                   [this](int64_t step) { return damage(step); });
  if (chosen.step) {
    load(*chosen.step);
    run_.pass_over(std::move(chosen.passed_over));
  }
  run_.adopt();
  return chosen.step;
}

// "" for a checkpoint whose files are as they were written.
std::string Checkpointer::damage(int64_t step) const {
  const std::string state = checkpoints::state_damage(folder(step));
  if (!state.empty()) return state;
  try {
    for (const auto& [name, digest] : read_state(step).files) {
      const std::string file =
          checkpoints::file_damage(checkpoints::object_file(folder(step), name), digest);
      if (!file.empty()) return file;
    }
  } catch (const Error& error) {
    return folder(step) + " cannot be read: " + error.what();
  }
  return "";
}

Checkpointer::Saved Checkpointer::read_state(int64_t step) const {
  const std::string path = folder(step) + "/" + checkpoints::kStateFile;
  Saved saved;
  try {
    const JSON state = core::parse_json(read_file_text(path), "checkpoint", path);
    const JSON& format = state["format"];
    check(format == checkpoints::kFormat, "the format is ", core::shown(format));
    const auto of_step = core::json_integer<int64_t>(state["step"], "the step");
    check(of_step == step, "it is of step ", of_step);
    for (const auto& [name, file] : core::json_object(state, "files")) {
      checkpoints::check_name(name);  // it becomes a path
      saved.files[name] = {core::json_integer<uint64_t>(file["bytes"], "the size of " + name),
                           checksum_of(file["crc32c"], name)};
    }
    for (const auto& [name, value] : core::json_object(state, "integers")) {
      saved.integers[name] = core::json_integer<int64_t>(value, name);
    }
    for (const auto& [name, value] : core::json_object(state, "numbers")) {
      saved.numbers[name] = number_of(value, name);
    }
    for (const auto& [name, value] : core::json_object(state, "generators")) {
      saved.generators[name] = {
          core::json_integer<uint64_t>(value["seed"], "the seed of " + name),
          core::json_integer<uint64_t>(value["offset"], "the offset of " + name)};
    }
  } catch (const Error& error) {
    fail("checkpoint: cannot read ", path, ": ", error.what());
  }
  return saved;
}

std::string Checkpointer::misfit(const Saved& saved) const {
  core::NameList list("; ");
  compare_names(names_of(objects_), saved.files, "file", list);
  compare_names(names_of(integers_), saved.integers, "integer", list);
  compare_names(names_of(numbers_), saved.numbers, "number", list);
  std::vector<std::string> generators = names_of(generators_);
  generators.emplace_back(checkpoints::kDefaultGenerator);
  compare_names(generators, saved.generators, "generator", list);
  return list.text();
}

void Checkpointer::load(int64_t step) {
  wait();
  run_.check_intact(step, steps(), [this](int64_t of) { return damage(of); });
  const Saved saved = read_state(step);
  const std::string unlike = misfit(saved);
  check(unlike.empty(), "checkpoint: ", folder(step), " does not fit this program: ", unlike);
  load_objects(folder(step));
  for (const auto& [name, value] : integers_) *value = saved.integers.at(name);
  for (const auto& [name, value] : numbers_) *value = saved.numbers.at(name);
  for (const auto& [name, value] : generators_) value->set_state(saved.generators.at(name));
  default_generator().set_state(saved.generators.at(checkpoints::kDefaultGenerator));
  run_.adopt();
}

// Each object takes its state or stays as it is; when one does not, those before it get back what
// they had. The largest comes last: nothing can fail after it, so no copy of it is needed.
void Checkpointer::load_objects(const std::string& folder) const {
  std::vector<std::pair<int64_t, const Object*>> order;
  for (const Object& object : objects_) order.emplace_back(bytes_of(object.save()), &object);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<const Object*, StateDict>> before;
  constexpr size_t kLongest = 1000;  // of what an object says, which lists names itself
  core::NameList unlike("; ", kLongest);
  for (const auto& [bytes, object] : order) {
    StateDict copy;
    if (object != order.back().second || !unlike.empty())
      copy = checkpoints::copy_of(object->save());
    try {
      object->load(core::load_safetensors(checkpoints::object_file(folder, object->name)).arrays);
      before.emplace_back(object, std::move(copy));
    } catch (const std::exception& error) {
      unlike.add(object->name + ": " + error.what());
    }
  }
  if (unlike.empty()) return;
  for (const auto& [object, dict] : before) object->load(dict);
  fail("checkpoint: ", folder, " does not fit this program: ", unlike.text());
}

}  // namespace hero::nn
