#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/files.h>
#include <hero/dist/checkpoint/module_parts.h>
#include <hero/dist/checkpoint/optimizer_parts.h>

namespace hero::dist {
namespace {

constexpr const char* kDefaultGenerator = "default";
constexpr const char* kExtension = ".safetensors";

std::string part_file(const std::string& name, int rank, int ranks) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "-rank-%05d-of-%05d", rank, ranks);
  return name + text.data() + kExtension;
}

// The tracked modules' values, and all of them together under the names that optimizers use: those
// of the modules, behind the module's own where there is more than one.
struct Values {
  std::vector<std::vector<Held>> of_module;  // in the order of the modules
  std::vector<Held> all;
};

// A collective.
Values values_of(const Communicator& world, const TrackedList& tracked) {
  Values values;
  const auto modules = std::count_if(tracked.begin(), tracked.end(),
                                     [](const auto& t) { return t->module != nullptr; });
  for (const auto& t : tracked) {
    if (t->module == nullptr) continue;
    std::vector<Held> held = held_by(*t->module);
    divide_work(world, held);
    values.of_module.push_back(held);
    for (Held& value : held) {
      for (std::string& name : value.names) {
        if (modules > 1) name.insert(0, t->name + ".");
      }
      values.all.push_back(std::move(value));
    }
  }
  return values;
}

nn::StateDict copy_of(nn::StateDict dict) {
  for (core::NamedArray& entry : dict) entry.array = entry.array.clone();
  return dict;
}

// This rank's file of one object, where it has something to write.
void save_object(const std::string& folder, const Tracked& object, const std::vector<Held>* module,
                 const std::vector<Held>& all, std::pair<int, int> rank, Manifest& mine) {
  std::string file = part_file(object.name, rank.first, rank.second);
  std::optional<FileIndex> index;
  if (object.save) {
    if (rank.first > 0) return;
    file = object.name + kExtension;
    core::save_safetensors(folder + "/" + file, object.save());
  } else {
    const std::vector<NamedPart> parts =
        module != nullptr
            ? parts_of(*module, rank.first)
            : OptimizerParts(*object.optimizer, object.parameters(), all).parts(rank.first);
    if (parts.empty() && rank.first > 0) return;
    index = save_parts(folder + "/" + file, parts);
    const bool boxes = std::any_of(parts.begin(), parts.end(),
                                   [](const NamedPart& part) { return !part.range.boxes.empty(); });
    if (boxes) mine.format = 2;
  }
  mine.files[file] = {hash_file(folder + "/" + file), object.name, rank.first, std::move(index)};
}

}  // namespace

const char* Tracked::kind() const {
  if (module != nullptr) return "module";
  if (optimizer != nullptr) return "optimizer";
  if (integer != nullptr) return "integer";
  if (number != nullptr) return "number";
  return generator != nullptr ? "generator" : "object";
}

std::string modules_of(const TrackedList& tracked) {
  std::string all;
  for (const auto& t : tracked) {
    if (t->module == nullptr) continue;
    std::string text;
    for (const Held& value : held_by(*t->module)) {
      text += value.name() + " " + to_string(value.range.whole) + " " +
              hero::name(value.leaf.dtype()) + "\n";
    }
    const std::string hash = sha256(std::as_bytes(std::span(text)));
    all += (all.empty() ? "" : ", ") + t->name + " of hash " + hash.substr(0, 16);
  }
  return all;
}

Manifest save_files(const std::string& folder, const Communicator& world,
                    const TrackedList& tracked) {
  const Values values = values_of(world, tracked);
  const std::pair<int, int> rank = {rank_of(world), size_of(world)};
  const std::vector<std::string> texts = each_rank(world, [&] {
    Manifest mine;
    size_t modules = 0;
    for (const auto& t : tracked) {
      if (t->module != nullptr || t->optimizer != nullptr || t->save) {
        const auto* module = t->module != nullptr ? &values.of_module[modules++] : nullptr;
        save_object(folder, *t, module, values.all, rank, mine);
      }
      if (t->generator != nullptr) mine.generators[t->name] = {t->generator->state()};
    }
    mine.generators[kDefaultGenerator] = {default_generator().state()};
    return to_text(mine);
  });
  Manifest all;
  for (const std::string& text : texts) all.add(parse_manifest(text, "what a rank wrote"));
  all.ranks = rank.second;
  for (const auto& t : tracked) {
    all.tracked[t->name] = t->kind();
    if (t->integer != nullptr) all.integers[t->name] = *t->integer;
    if (t->number != nullptr) all.numbers[t->name] = *t->number;
  }
  return all;
}

std::string files_damage(const std::string& folder, const Communicator& world,
                         const Manifest& manifest) {
  const std::vector<std::string> found = each_rank(world, [&] {
    std::string lines;
    int i = 0;
    for (const auto& [name, file] : manifest.files) {
      if (i++ % size_of(world) != rank_of(world)) continue;
      const std::string damage = file_damage(folder, name, file);
      if (!damage.empty()) lines += (lines.empty() ? "" : "; ") + damage;
    }
    return lines;
  });
  std::string lines;
  for (const std::string& line : found) {
    if (!line.empty()) lines += (lines.empty() ? "" : "; ") + line;
  }
  return lines;
}

void load_files(const std::string& folder, const Communicator& world, const Manifest& manifest,
                const TrackedList& tracked) {
  const Values values = values_of(world, tracked);
  std::vector<StagedModule> modules;
  std::vector<std::pair<const Tracked*, nn::StateDict>> dicts;
  agree(world, [&] {
    for (const auto& t : tracked) {
      const std::vector<PartFile> files = manifest.files_of(t->name, folder);
      if (t->module != nullptr) {
        modules.push_back(stage_module(values.of_module[modules.size()], PartFiles(files), {}));
      } else if (t->optimizer != nullptr) {
        const OptimizerParts parts(*t->optimizer, t->parameters(), values.all);
        dicts.emplace_back(t.get(), parts.read(PartFiles(files)));
      } else if (t->load) {
        check(files.size() == 1, "checkpoint: ", t->name, " has ", files.size(), " files");
        dicts.emplace_back(t.get(), core::load_safetensors(files.front().path).arrays);
      }
    }
  });
  // What takes its state or stays as it is; when one on some rank does not, all go back.
  std::vector<std::pair<const Tracked*, nn::StateDict>> before;
  try {
    agree(world, [&] {
      for (auto& [t, dict] : dicts) {
        before.emplace_back(
            t, t->optimizer != nullptr ? t->optimizer->state_dict() : copy_of(t->save()));
        t->optimizer != nullptr ? t->optimizer->load_state_dict(dict) : t->load(dict);
        dict.clear();
      }
    });
  } catch (...) {
    for (const auto& [t, dict] : before) {
      t->optimizer != nullptr ? t->optimizer->load_state_dict(dict) : t->load(dict);
    }
    throw;
  }
  for (const StagedModule& module : modules) module.commit();
  const int rank = rank_of(world), ranks = size_of(world);
  for (const auto& t : tracked) {
    if (t->integer != nullptr) *t->integer = manifest.integers.at(t->name);
    if (t->number != nullptr) *t->number = manifest.numbers.at(t->name);
    if (t->generator == nullptr) continue;
    t->generator->set_state(state_of(manifest.generators.at(t->name), rank, ranks));
  }
  default_generator().set_state(state_of(manifest.generators.at(kDefaultGenerator), rank, ranks));
}

}  // namespace hero::dist
