#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <span>
#include <utility>

#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/safetensors_file.h>
#include <hero/core/ledger.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/files.h>
#include <hero/dist/checkpoint/module_parts.h>
#include <hero/dist/checkpoint/optimizer_parts.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/checkpoint_state.h>

namespace hero::dist {
namespace {

using nn::checkpoints::kDefaultGenerator;
constexpr const char* kExtension = ".safetensors";
constexpr const char* kOwn = ".own";  // behind an object's name: what each rank has of it

std::string part_file(const std::string& name, int rank, int ranks) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "-rank-%05d-of-%05d", rank, ranks);
  return name + text.data() + kExtension;
}

// The tracked modules' values, and all of them together under the names that optimizers use: those
// of the modules, behind the module's own where there is more than one.
struct Values {
  std::vector<std::vector<ShardedValue>> of_module;  // in the order of the modules
  std::vector<ShardedValue> all;
};

// A collective.
Values values_of(const Communicator& world, const TrackedList& tracked, ValueUse use) {
  Values values;
  const auto modules = std::count_if(tracked.begin(), tracked.end(),
                                     [](const auto& t) { return t->module != nullptr; });
  for (const auto& t : tracked) {
    if (t->module == nullptr) continue;
    std::vector<ShardedValue> held = sharded_values(*t->module);
    divide_work(world, held, "checkpoint", use, t->exchanged);
    values.of_module.push_back(held);
    for (ShardedValue& value : held) {
      for (std::string& name : value.names) {
        if (modules > 1) name.insert(0, t->name + ".");
      }
      values.all.push_back(std::move(value));
    }
  }
  return values;
}

// What one object has in the files of all ranks.
struct Saves {
  std::vector<NamedPart> mine;
  std::map<int, FileIndex> of_rank = {};  // on rank 0, which writes the manifest
  std::string values = {};                // what must be the same on all ranks, a line a piece
};

// A number of an optimizer as ranks compare it: hosts may differ in the last bits of a curve.
std::string number_text(const Array& number) {
  char text[32];
  (void)std::snprintf(text, sizeof(text), " %.9g", number.to(kFloat64).item<double>());
  return text;
}

Saves saves_of(const Tracked& object, const std::vector<ShardedValue>* module,
               const std::vector<ShardedValue>& all, int me) {
  Saves saves;
  std::string last;
  double steps = 0;  // of the parameter that was stepped most often
  const PartFn add = [&](int rank, const NamedPart& part) {
    if (rank == me) saves.mine.push_back(part);
    if (me == 0) saves.of_rank[rank][part.name] = {part.array.dtype(), part.range};
    if (part.name == last) return;
    last = part.name;
    const bool option = module == nullptr && part.name.starts_with("group.");
    saves.values += object.name + ": " + part.name + " " + hero::name(part.array.dtype()) +
                    (option ? number_text(part.array) : "") + "\n";
    if (module != nullptr || !part.name.ends_with(".step") || part.array.numel() != 1) return;
    steps = std::max(steps, part.array.to(kFloat64).item<double>());
  };
  if (module != nullptr) {
    each_part(*module, add);
  } else {
    OptimizerParts(*object.optimizer, object.optimizer->model_parameters(), all).each_part(add);
    saves.values += object.name + ": " + std::to_string(static_cast<int64_t>(steps)) + " steps\n";
  }
  return saves;
}

using FileSink = std::function<void(RankFile&& file)>;

// Hands this rank's file of one object to `sink`, where it has something to write.
void hand_over(const Tracked& object, std::vector<NamedPart> parts, std::pair<int, int> rank,
               const FileSink& sink) {
  if (parts.empty() && rank.first > 0) return;
  const bool boxes = std::any_of(parts.begin(), parts.end(),
                                 [](const NamedPart& part) { return !part.range.boxes.empty(); });
  sink({part_file(object.name, rank.first, rank.second), object.name, boxes,
        content_of(std::move(parts)), object.encoding});
}

void write_file(const std::string& folder, const RankFile& file, int rank, Manifest& mine) {
  const std::string path = folder + "/" + file.name;
  FileHash written;
  Sha256 hash;
  core::save_safetensors(path, file.content.arrays, file.content.metadata, file.encoding,
                         {.in_new_folder = true, .observe = [&](std::span<const std::byte> bytes) {
                            written.bytes += bytes.size();
                            hash.update(bytes);
                          }});
  written.sha256 = hash.finish();
  if (file.boxes) mine.format = 2;
  mine.files[file.name] = {written, file.object, rank};
}

// Hands over all files of this rank and fills in the rest; what must be the same on all ranks, a
// line a piece: names and dtypes of all that they save, and options and steps of optimizers.
std::string take_files(const Communicator& world, const TrackedList& tracked, const Values& values,
                       Snapshot& snapshot, const FileSink& sink) {
  const std::pair<int, int> rank = {rank_of(world), size_of(world)};
  snapshot.rank = rank.first;
  const SavingCheckpoint checkpoint;
  std::string saved;
  size_t modules = 0;
  for (const auto& t : tracked) {
    if (t->module != nullptr || t->optimizer != nullptr) {
      const auto* module = t->module != nullptr ? &values.of_module[modules++] : nullptr;
      Saves saves = saves_of(*t, module, values.all, rank.first);
      hand_over(*t, std::move(saves.mine), rank, sink);
      snapshot.indices[t->name] = std::move(saves.of_rank);
      saved += saves.values;
    } else if (t->save && rank.first == 0) {
      sink({t->name + kExtension, t->name, false, {t->save()}});
    }
    if (t->own != nullptr) {
      const std::string object = t->name + kOwn;
      sink(
          {part_file(object, rank.first, rank.second), object, false, {t->own->rank_state_dict()}});
    }
    if (t->generator != nullptr) snapshot.mine.generators[t->name] = {t->generator->state()};
    snapshot.all.tracked[t->name] = t->kind();
    if (t->integer != nullptr) snapshot.all.integers[t->name] = *t->integer;
    if (t->number != nullptr) snapshot.all.numbers[t->name] = *t->number;
  }
  snapshot.mine.generators[kDefaultGenerator] = {default_generator().state()};
  snapshot.all.ranks = rank.second;
  return saved;
}

// [note: what ranks tell of a save] Rank 0 writes in the manifest which parts lie in which file. It
// computes that for all ranks, so that they send hashes alone: of their files, and one of what they
// have of each value, which must be the same on all.
constexpr size_t kHashSize = 64;

std::string hash_of(const std::string& saved) { return sha256(std::as_bytes(std::span(saved))); }

// Takes off the hash of what each rank saves, with which the ranks' texts begin. Where they differ,
// an Error says in what.
void take_hashes(const Communicator& world, const std::string& saved,
                 std::vector<std::string>& texts) {
  bool same = true;
  const std::string hash = texts.front().substr(0, kHashSize);
  for (std::string& text : texts) {
    same = same && text.starts_with(hash);
    text.erase(0, kHashSize);
  }
  if (same) return;
  same_lines(world, "checkpoint: ranks' optimizers differ", saved,
             "make the same optimizers, and the same steps with them, on every rank");
}

// Another one for each save, so that nothing of an earlier one is taken for it.
std::string new_token() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(::getpid()) + "-" + std::to_string(now.count());
}

}  // namespace

const char* Tracked::kind() const {
  if (module != nullptr) return "module";
  if (optimizer != nullptr) return "optimizer";
  if (integer != nullptr) return "integer";
  if (number != nullptr) return "number";
  if (own != nullptr) return "rank states";
  return generator != nullptr ? "generator" : "object";
}

std::string modules_of(const TrackedList& tracked) {
  std::string all;
  for (const auto& t : tracked) {
    if (t->module == nullptr) continue;
    std::string text;
    for (const ShardedValue& value : sharded_values(*t->module)) {
      text += value.name() + " " + to_string(value.range.whole) + " " +
              hero::name(value.leaf.dtype()) + "\n";
    }
    const std::string hash = sha256(std::as_bytes(std::span(text)));
    all += t->name + " of hash " + hash.substr(0, 16) + "\n";
  }
  return all;
}

Manifest save_files(const std::string& folder, const Communicator& world,
                    const TrackedList& tracked) {
  const Values values = values_of(world, tracked, ValueUse::checkpoint);
  Snapshot snapshot;
  std::string saved;
  std::vector<std::string> texts = each_rank(world, [&] {
    saved = take_files(world, tracked, values, snapshot, [&](const RankFile& file) {
      write_file(folder, file, rank_of(world), snapshot.mine);
    });
    return hash_of(saved) + to_text(snapshot.mine);
  });
  take_hashes(world, saved, texts);
  return manifest_of(snapshot, texts);
}

Snapshot take_snapshot(const Communicator& world, const TrackedList& tracked) {
  const Values values = values_of(world, tracked, ValueUse::checkpoint);
  Snapshot snapshot;
  std::string saved;
  std::vector<std::string> texts = each_rank(world, [&] {
    const MemoryScope tagged(MemoryTag::other);
    saved = take_files(world, tracked, values, snapshot, [&](RankFile&& file) {
      nn::take_copies(file.content.arrays);
      snapshot.files.push_back(std::move(file));
    });
    return rank_of(world) == 0 ? hash_of(saved) + new_token() : hash_of(saved);
  });
  take_hashes(world, saved, texts);
  snapshot.token = texts.front();
  return snapshot;
}

std::string write_files(const std::string& folder, Snapshot& snapshot) {
  for (RankFile& file : snapshot.files) {
    write_file(folder, file, snapshot.rank, snapshot.mine);
    file.content.arrays.clear();
  }
  return to_text(snapshot.mine);
}

Manifest manifest_of(const Snapshot& snapshot, const std::vector<std::string>& texts) {
  Manifest all = snapshot.all;
  for (const std::string& text : texts) all.add(parse_manifest(text, "what a rank wrote"));
  for (auto& [name, file] : all.files) {
    const auto found = snapshot.indices.find(file.object);
    if (snapshot.rank != 0 || found == snapshot.indices.end()) continue;
    const auto index = found->second.find(file.rank);
    file.index = index != found->second.end() ? index->second : FileIndex();
  }
  return all;
}

std::string files_damage(const std::string& folder, const Communicator& world,
                         const Manifest& manifest) {
  const std::vector<std::string> found = each_rank(world, [&] {
    std::string lines;  // each with a zero behind it
    int i = 0;
    for (const auto& [name, file] : manifest.files) {
      if (i++ % size_of(world) != rank_of(world)) continue;
      const std::string damage = file_damage(folder, name, file);
      if (!damage.empty()) lines += damage + '\0';
    }
    return lines;
  });
  std::vector<std::string> all;
  for (const std::string& lines : found) {
    for (size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
      end = lines.find('\0', at);
      all.push_back(lines.substr(at, end - at));
    }
  }
  return first_of(all);
}

namespace {

// This rank's own state of an object; nothing where other ranks saved it.
std::optional<nn::StateDict> own_state(const std::string& folder, const Communicator& world,
                                       const Manifest& manifest, const Tracked& object) {
  const std::string name = object.name + kOwn;
  const auto file = std::find_if(manifest.files.begin(), manifest.files.end(), [&](const auto& f) {
    return f.second.object == name && f.second.rank == rank_of(world);
  });
  if (manifest.ranks == size_of(world) && file != manifest.files.end()) {
    return core::load_safetensors(folder + "/" + file->first).arrays;
  }
  if (rank_of(world) == 0) {
    const std::string line = "checkpoint: what each rank has of " + object.name +
                             " begins anew: it was saved by " +
                             std::to_string(file == manifest.files.end() ? 0 : manifest.ranks) +
                             " ranks, and these are " + std::to_string(size_of(world)) + "\n";
    std::fputs(line.c_str(), stderr);
  }
  return {};
}

void take_own(RankStates& own, const std::optional<nn::StateDict>& state) {
  state ? own.load_rank_state_dict(*state) : own.reset_rank_state();
}

}  // namespace

void load_files(const std::string& folder, const Communicator& world, const Manifest& manifest,
                const TrackedList& tracked) {
  const Values values = values_of(world, tracked, ValueUse::load);
  std::vector<StagedModule> modules;
  std::vector<std::pair<const Tracked*, nn::StateDict>> dicts;
  std::vector<std::pair<RankStates*, std::optional<nn::StateDict>>> owns, owns_before;
  agree(world, [&] {
    for (const auto& t : tracked) {
      if (t->own != nullptr) owns.emplace_back(t->own, own_state(folder, world, manifest, *t));
      const std::vector<PartFile> files = manifest.files_of(t->name, folder);
      if (t->module != nullptr) {
        modules.push_back(stage_module(values.of_module[modules.size()], PartFiles(files), {}));
      } else if (t->optimizer != nullptr) {
        const OptimizerParts parts(*t->optimizer, t->optimizer->model_parameters(), values.all);
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
        before.emplace_back(t, t->optimizer != nullptr ? t->optimizer->state_dict()
                                                       : nn::checkpoints::copy_of(t->save()));
        t->optimizer != nullptr ? t->optimizer->load_state_dict(dict) : t->load(dict);
        dict.clear();
      }
      for (auto& [own, state] : owns) {
        owns_before.emplace_back(own, own->rank_state_dict());
        take_own(*own, state);
      }
    });
  } catch (...) {
    for (const auto& [t, dict] : before) {
      t->optimizer != nullptr ? t->optimizer->load_state_dict(dict) : t->load(dict);
    }
    for (const auto& [own, state] : owns_before) take_own(*own, state);
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
