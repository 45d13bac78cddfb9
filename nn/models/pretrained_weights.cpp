#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <unordered_map>

#include <hero/autograd/sharding/partition.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/models/pretrained_config.h>
#include <hero/nn/models/pretrained_weights.h>
#include <hero/nn/module/load_names.h>
#include <hero/nn/quantized.h>

namespace hero::nn {

using core::JSON;

namespace {

constexpr const char* kOnlyWeights = "model.safetensors";
constexpr const char* kWeightsIndex = "model.safetensors.index.json";
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 28;

// The files that an index names.
std::vector<std::string> files_of_index(const char* reader, const std::string& folder) {
  const std::string path = folder + "/" + kWeightsIndex;
  const JSON index = core::parse_json(read_file_text(path, kMostIndexBytes), reader, path);
  std::set<std::string> names;
  try {
    for (const auto& [name, file] : core::json_object(index, "weight_map")) {
      names.insert(core::json_text(file, "the file of " + name));
    }
  } catch (const Error& error) {
    fail(reader, ": ", path, " is no index of safetensors files: ", error.what());
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    check(name.find('/') == std::string::npos, reader, ": ", path, " names ", name,
          ", which leads out of the folder; the files of an index must lie beside it");
    check(path_exists(folder + "/" + name), reader, ": ", path, " names ", name,
          ", which is missing");
    paths.push_back(folder + "/" + name);
  }
  return paths;
}

Shape swapped(Shape shape) {
  std::swap(shape[0], shape[1]);
  return shape;
}

// A parameter, tied ones once, and what it is called in the files; tied ones also have other names
// there, which files need not have.
struct PretrainedSlot {
  Slot* slot;
  PretrainedName in_files;
  std::vector<PretrainedName> tied = {};
};

std::vector<PretrainedSlot> pretrained_slots(Module& module, const PretrainedNames& names) {
  std::vector<PretrainedSlot> list;
  std::unordered_map<const hero::detail::TensorImpl*, size_t> places;
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind != Slot::Kind::parameter) continue;
    const auto [place, fresh] = places.emplace(slot->tensor.impl(), list.size());
    if (fresh) {
      list.push_back({slot, names(name)});
    } else {
      list[place->second].tied.push_back(names(name));
    }
  }
  return list;
}

}  // namespace

FolderWeights::FolderWeights(const char* reader, const std::string& folder)
    : reader_(reader), folder_(folder) {
  if (path_exists(folder + "/" + kOnlyWeights)) {
    open(folder + "/" + kOnlyWeights);
    return;
  }
  check(path_exists(folder + "/" + kWeightsIndex), reader, ": ", folder, " holds neither ",
        kOnlyWeights, " nor ", kWeightsIndex,
        "; files of PyTorch's own format become these by save_pretrained() of transformers");
  for (const std::string& path : files_of_index(reader, folder)) open(path);
}

void FolderWeights::open(const std::string& path) {
  files_.push_back(std::make_unique<core::SafetensorsReader>(path));
  for (const auto& entry : files_.back()->entries()) {
    const bool is_new = located_.emplace(entry.name, Located{files_.back().get(), &entry}).second;
    check(is_new, reader_, ": ", folder_, " has ", entry.name, " in two files");
  }
  for (const auto& [name, dtype] : files_.back()->unreadable()) unreadable_.emplace(name, dtype);
}

std::vector<std::string> FolderWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : located_) names.push_back(name);
  for (const auto& [name, dtype] : unreadable_) names.push_back(name);
  return names;
}

const PretrainedWeights::Entry* FolderWeights::find(const std::string& name) const {
  const auto found = located_.find(name);
  return found == located_.end() ? nullptr : found->second.entry;
}

Array FolderWeights::load(const std::string& name, DType /*dtype*/) const {
  return located_.at(name).file->load(name);
}

void load_pretrained(Module& module, const PretrainedWeights& weights, const PretrainedNames& names,
                     const std::function<bool(const std::string& name)>& spare,
                     const PretrainedOptions& options) {
  check(!options.quantized, "from_pretrained: ", weights.path(),
        " has no quantised weights; GGUF files have, and nn::quantize_linear() makes them");
  const std::vector<PretrainedSlot> slots = pretrained_slots(module, names);
  core::NameList missing, superfluous, wrong;
  std::set<std::string> used;
  const auto look_at = [&](const Slot& slot, const PretrainedName& in_files) {
    const auto& [name, transposed] = in_files;
    used.insert(name);
    const Shape& own = slot.tensor.shape();
    const Shape expected = transposed ? swapped(own) : own;
    const auto* entry = weights.find(name);
    if (entry->shape != expected) {
      wrong.add(name + " " + to_string(entry->shape) + " instead of " + to_string(expected));
    } else if (!is_floating(entry->dtype)) {
      wrong.add(name + " is " + to_string(entry->dtype));
    }
  };
  for (const auto& [slot, in_files, tied] : slots) {
    const auto other_dtype = weights.unreadable().find(in_files.name);
    if (other_dtype != weights.unreadable().end()) {
      used.insert(in_files.name);
      wrong.add(in_files.name + " is " + other_dtype->second);
    } else if (weights.find(in_files.name) == nullptr) {
      missing.add(in_files.name);
    } else {
      look_at(*slot, in_files);
    }
    for (const PretrainedName& other : tied) {
      if (weights.find(other.name) != nullptr) look_at(*slot, other);
    }
  }
  for (const std::string& name : weights.names()) {
    if (!used.contains(name) && !spare(name)) superfluous.add(name);
  }
  check(missing.empty() && superfluous.empty() && wrong.empty(),
        "from_pretrained: ", weights.path(), " does not fit ", module.type_name(),
        missing.empty() ? "" : "; missing: " + missing.text(),
        superfluous.empty() ? "" : "; unexpected: " + superfluous.text(),
        wrong.empty() ? "" : "; wrong: " + wrong.text());
  const NoGrad no_grad;
  const MemoryScope tag(MemoryTag::parameter);
  for (const auto& [slot, in_files, tied] : slots) {
    const auto values_of = [&](const PretrainedName& from) {
      const Array values = weights.load(from.name, options.dtype);
      return from.transposed ? values.t() : values;
    };
    const Array values = values_of(in_files);
    for (const PretrainedName& other : tied) {
      if (weights.find(other.name) == nullptr) continue;
      check(detail::same_values(values, values_of(other), options.dtype),
            "from_pretrained: ", weights.path(), ": ", in_files.name, " and ", other.name,
            " have different values, and config.json makes them one tensor (tie_word_embeddings); "
            "set tie_word_embeddings to false in it if the model has a head of its own, or remove ",
            other.name, " from the files");
    }
    slot->tensor.set_data(values.to(options.dtype).contiguous().to(options.device));
  }
}

void save_pretrained_config(const std::string& folder, const std::string& config) {
  make_folders("save_pretrained", folder);
  OutputFile file(folder + "/" + kPretrainedConfig);
  file.write(config);
  file.commit();
}

namespace {

// What goes into one file of several.
struct WeightsFile {
  std::string name = kOnlyWeights;
  std::vector<PretrainedSlot> slots;
  int64_t bytes = 0;
};

std::vector<WeightsFile> divided(const std::vector<PretrainedSlot>& slots, int64_t most) {
  std::vector<WeightsFile> files(1);
  for (const PretrainedSlot& each : slots) {
    const int64_t bytes = each.slot->tensor.array().nbytes();
    if (!files.back().slots.empty() && files.back().bytes + bytes > most) files.emplace_back();
    files.back().slots.push_back(each);
    files.back().bytes += bytes;
  }
  std::array<char, 64> text{};
  for (size_t i = 0; files.size() > 1 && i < files.size(); ++i) {
    std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", i + 1,
                  files.size());
    files[i].name = text.data();
  }
  return files;
}

void write_weights(const std::string& path, const std::vector<PretrainedSlot>& slots) {
  std::vector<core::SafetensorsWriter::Entry> entries;
  for (const auto& [slot, in_files, tied] : slots) {
    const Shape& own = slot->tensor.shape();
    entries.push_back(
        {in_files.name, slot->tensor.dtype(), in_files.transposed ? swapped(own) : own, 0, 0});
  }
  core::SafetensorsWriter writer(path, entries);
  for (const size_t i : core::SafetensorsWriter::order_of(entries)) {
    const Array values = slots[i].slot->tensor.array().to(kCpu);
    writer.write(slots[i].in_files.transposed ? values.t().contiguous() : values.contiguous());
  }
  writer.commit();
}

}  // namespace

void save_pretrained_folder(const Module& module, const std::string& folder,
                            const std::string& config, const PretrainedNames& names,
                            const SavePretrainedOptions& options) {
  constexpr auto kName = "save_pretrained";
  check(options.max_shard_bytes > 0, kName,
        ": max_shard_bytes must be positive: ", options.max_shard_bytes);
  for (const auto& [path, part] : const_cast<Module&>(module).named_modules()) {
    check(dynamic_cast<QuantizedLinear*>(part) == nullptr &&
              dynamic_cast<QuantizedEmbedding*>(part) == nullptr,
          kName, ": ", path,
          " is quantised, which such folders do not hold; save the model that "
          "was read without .quantized, or not given to quantize_linear()");
  }
  const std::vector<PretrainedSlot> slots = pretrained_slots(const_cast<Module&>(module), names);
  for (const auto& [slot, in_files, tied] : slots) {
    check(!slot->name.starts_with("lora_"), kName, ": ", in_files.name,
          " is an adapter's; merge_lora() and remove_lora() before, or save_lora() alone");
    check(partition(slot->tensor) == nullptr, kName, ": ", in_files.name, " is a shard, ",
          describe_part(slot->tensor), "; write the weights with dist::save_full()");
    check(slot->tensor.device().type != DeviceType::meta, kName, ": ", in_files.name,
          " lies on meta and has no values; use materialize()");
  }
  const std::vector<WeightsFile> files = divided(slots, options.max_shard_bytes);
  const bool indexed = files.size() > 1;
  for (const char* other : {kWeightsIndex, kOnlyWeights}) {
    if (!indexed && other == kOnlyWeights) continue;  // replaced in one act
    check(!path_exists(folder + "/" + other), kName, ": ", folder, " holds ", other,
          " already; remove it, or choose another folder");
  }
  make_folders(kName, folder);
  JSON index = {{"metadata", {{"total_size", 0}}}, {"weight_map", JSON::object()}};
  int64_t total = 0;
  for (const WeightsFile& file : files) {
    write_weights(folder + "/" + file.name, file.slots);
    total += file.bytes;
    for (const auto& each : file.slots) index["weight_map"][each.in_files.name] = file.name;
  }
  index["metadata"]["total_size"] = total;
  if (indexed) {
    OutputFile out(folder + "/" + kWeightsIndex);
    out.write(core::json_dump(index, "save_pretrained", 2) + "\n");
    out.commit();
  }
  save_pretrained_config(folder, config);
}

}  // namespace hero::nn
