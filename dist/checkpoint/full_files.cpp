// Whole models in safetensors files, as Python reads and writes them, whatever the strategy.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/json/json.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/files.h>
#include <hero/dist/checkpoint/module_parts.h>
#include <hero/nn/training/append_file.h>
#include <hero/nn/training/checkpoint_folder.h>

namespace hero::dist {

namespace fs = std::filesystem;
using core::JSON;

namespace {

constexpr const char* kFullExtension = ".safetensors";
constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// What goes into one file: names, and the values that they stand for.
struct FilePlan {
  std::string name;
  std::vector<core::SafetensorsWriter::Entry> entries;
  std::vector<const ShardedValue*> values;
  int64_t bytes = 0;
};

// In the order of registration, tied values under each name as Module::state_dict() has them; a new
// file where the next value would be too much.
std::vector<FilePlan> plan_files(nn::Module& module, const std::vector<ShardedValue>& values,
                                 int64_t max_bytes) {
  std::unordered_map<std::string_view, const ShardedValue*> value_of;
  for (const ShardedValue& value : values) {
    for (const std::string& name : value.names) value_of.emplace(name, &value);
  }
  std::vector<FilePlan> files(1);
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind == nn::Slot::Kind::buffer_not_saved || !slot->tensor.defined()) continue;
    const ShardedValue& value = *value_of.at(name);
    const DType dtype = value.leaf.dtype();
    const int64_t bytes = value.range.whole.numel() * item_size(dtype);
    if (!files.back().values.empty() && files.back().bytes + bytes > max_bytes) {
      files.emplace_back();
    }
    files.back().entries.push_back({name, dtype, value.range.whole, 0, 0});
    files.back().values.push_back(&value);
    files.back().bytes += bytes;
  }
  std::array<char, 64> text{};
  for (size_t i = 0; i < files.size(); ++i) {
    std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu", i + 1, files.size());
    files[i].name = files.size() == 1 ? kOneFile : text.data() + std::string(kFullExtension);
  }
  return files;
}

// Elements of a value, to their places in the whole.
void put(const Array& part, const ShardRange& range, const Array& whole) {
  layout::Runs runs = range.runs();
  for (layout::Run run; runs.next(run);) {
    const Array from = part.slice(0, run.part, run.part + run.count);
    Tensor(whole.slice(0, run.whole, run.whole + run.count)).copy_(Tensor(from));
  }
}

// Rank 0 receives a piece at its place in the whole, or beside it where it lies there in runs.
void receive(const Communicator& world, const Piece& piece, const Array& whole,
             const CallOptions& named) {
  const auto& [rank, range] = piece;
  if (range.boxes.empty()) {
    world.recv(whole.slice(0, range.first, range.first + range.count), rank, named);
    return;
  }
  const Array part = Array::empty({range.count}, whole.dtype());
  world.recv(part, rank, named);
  put(part, range, whole);
}

// The whole value, on rank 0; undefined elsewhere. The ranks send it their pieces.
Array collect(const Communicator& world, const ShardedValue& value) {
  const Array mine = value.leaf.array().to(kCpu).contiguous().reshape({value.range.count});
  const CallOptions named = {.unit = value.name()};
  const Piece& front = value.pieces.front();
  if (front.rank == 0 && front.range.is_whole()) {
    return rank_of(world) == 0 ? mine.reshape(value.range.whole) : Array();
  }
  Array whole;
  if (rank_of(world) == 0) whole = Array::empty({value.range.whole.numel()}, mine.dtype());
  for (const Piece& piece : value.pieces) {
    if (piece.rank == 0 && whole.defined()) put(mine, piece.range, whole);
    if (piece.rank == 0) continue;
    if (whole.defined()) {
      receive(world, piece, whole, named);
    } else if (rank_of(world) == piece.rank) {
      world.send(mine, 0, named);
    }
  }
  return whole.defined() ? whole.reshape(value.range.whole) : whole;
}

// Writes one file from what all ranks send. Rank 0 goes on receiving when it cannot write, or the
// others would wait for it.
void save_file(const std::string& path, const Communicator& world, const FilePlan& plan,
               const core::Metadata& metadata) {
  std::string wrong;
  const auto attempt = [&](const auto& act) {
    try {
      if (rank_of(world) == 0 && wrong.empty()) act();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  };
  std::optional<core::SafetensorsWriter> writer;
  attempt([&] { writer.emplace(path, plan.entries, metadata); });
  for (const size_t i : core::SafetensorsWriter::order_of(plan.entries)) {
    const Array whole = collect(world, *plan.values[i]);
    attempt([&] { writer->write(whole); });
  }
  attempt([&] { writer->commit(); });
  agree(world, [&] { check(wrong.empty(), wrong); });
}

std::string index_text(const std::vector<FilePlan>& files) {
  JSON index = {{"metadata", {{"total_size", 0}}}, {"weight_map", JSON::object()}};
  int64_t total = 0;
  for (const FilePlan& file : files) {
    total += file.bytes;
    for (const auto& entry : file.entries) index["weight_map"][entry.name] = file.name;
  }
  index["metadata"]["total_size"] = total;
  return core::json_dump(index, "save_full", 2) + "\n";
}

// Rank 0 makes the folder, and looks for files that would not belong to the new set.
void prepare_folder(const std::string& folder, bool indexed) {
  make_folders("save_full", folder);
  for (const char* file : {kOneFile, kIndexFile}) {
    if (!indexed && file == kOneFile) continue;  // replaced in one act
    check(!path_exists((fs::path(folder) / file).string()), "save_full: ", folder, " holds ", file,
          " already; remove it, or choose another folder");
  }
}

// The files of an indexed set.
std::vector<std::string> indexed_files(const std::string& path) {
  std::set<std::string> names;
  try {
    const JSON index = core::parse_json(nn::read_text(path), "load_full", path);
    for (const auto& [name, file] : core::json_object(index, "weight_map")) {
      names.insert(core::json_text(file, "the file of " + name));
    }
  } catch (const Error& error) {
    fail("load_full: ", path, " is no index of safetensors files: ", error.what());
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    const std::string file = (fs::path(path).parent_path() / name).string();
    check(name.find('/') == std::string::npos, "load_full: ", path, " names ", name,
          ", which leads out of the folder; the files of an index must lie beside it");
    check(path_exists(file), "load_full: ", path, " names ", file, ", which is missing");
    paths.push_back(file);
  }
  return paths;
}

std::vector<std::string> files_at(const std::string& path) {
  if (path.ends_with(".index.json")) return indexed_files(path);
  if (!is_folder(path)) return {path};
  const auto holds = [&](const char* file) {
    return path_exists((fs::path(path) / file).string());
  };
  if (holds(kOneFile)) return {path + "/" + kOneFile};
  check(holds(kIndexFile), "load_full: ", path, " holds neither ", kOneFile, " nor ", kIndexFile,
        ", and is no complete checkpoint");
  return indexed_files(path + "/" + kIndexFile);
}

// The manifest of a checkpointer's folder with the files of its only module; "" for anything else.
std::string manifest_at(const std::string& folder) {
  if (!path_exists((fs::path(folder) / nn::checkpoints::kCompleteFile).string())) return "";
  const std::string wrong = nn::checkpoints::state_damage(folder);
  check(wrong.empty(), "load_full: ", wrong);
  const std::string path = folder + "/" + nn::checkpoints::kStateFile;
  Manifest manifest = parse_manifest(nn::read_text(path), path);
  std::string module;
  for (const auto& [name, kind] : manifest.tracked) {
    if (kind != "module") continue;
    check(module.empty(), "load_full: ", folder, " has the modules ", module, " and ", name,
          "; load it with a Checkpointer");
    module = name;
  }
  std::erase_if(manifest.files, [&](const auto& file) { return file.second.object != module; });
  return to_text(manifest);
}

// Where the values are; a checkpoint's files are checked. A collective.
std::vector<std::string> find_files(const std::string& path, const Communicator& world) {
  const std::string text = on_rank_0(world, [&] { return manifest_at(path); });
  std::vector<std::string> paths;
  if (text.empty()) {
    agree(world, [&] { paths = files_at(path); });
    return paths;
  }
  const Manifest manifest = parse_manifest(text, path);
  const std::string damage = files_damage(path, world, manifest);
  check(damage.empty(), "load_full: ", damage);
  for (const auto& [name, file] : manifest.files) paths.push_back(path + "/" + name);
  return paths;
}

}  // namespace

void save_full(const std::string& path, const Communicator& world, nn::Module& module,
               const FullOptions& options) {
  const PhaseScope saving(Phase::checkpoint);
  check_not_simulated(world);
  same_on_all(world, "save_full: ranks ask for different files, of which rank 0 writes all",
              path + ", max_shard_bytes " + std::to_string(options.max_shard_bytes),
              "save a whole model");
  check(options.max_shard_bytes > 0,
        "save_full: max_shard_bytes must be positive: ", options.max_shard_bytes);
  const bool one = path.ends_with(kFullExtension);
  std::vector<ShardedValue> values = sharded_values(module);
  ExchangedPieces exchanged;
  divide_work(world, values, "save_full", ValueUse::save, exchanged);
  std::vector<FilePlan> files = plan_files(
      module, values, one ? std::numeric_limits<int64_t>::max() : options.max_shard_bytes);
  if (!one) {
    on_rank_0(world, [&] {
      prepare_folder(path, files.size() > 1);
      return std::string();
    });
  }
  for (const FilePlan& file : files) {
    save_file(one ? path : path + "/" + file.name, world, file, options.metadata);
  }
  if (files.size() == 1) return;
  on_rank_0(world, [&] {
    OutputFile index(path + "/" + kIndexFile);
    index.write(index_text(files));
    index.commit();
    return std::string();
  });
}

nn::LoadResult load_full(const std::string& path, const Communicator& world, nn::Module& module,
                         const nn::LoadOptions& options) {
  const PhaseScope loading(Phase::checkpoint);
  std::vector<PartFile> files;
  for (const std::string& found : find_files(path, world)) files.push_back({found});
  StagedModule staged;
  agree(world, [&] {
    const std::vector<ShardedValue> values = sharded_values(module);
    check_use("load_full", values, ValueUse::load);
    staged = stage_module(values, PartFiles(files), options);
  });
  staged.commit();
  return staged.result;
}

}  // namespace hero::dist
