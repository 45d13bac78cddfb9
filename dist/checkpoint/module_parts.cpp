#include <algorithm>
#include <map>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/module_parts.h>

namespace hero::dist {
namespace {

constexpr const char* kWrappers[] = {"module.", "_orig_mod."};

// The wrapper's prefix that all names in the files have, or "".
std::string wrapper_of(const PartFiles& files, const std::vector<Held>& values) {
  for (const std::string prefix : kWrappers) {
    const auto& known = files.values();
    const bool wrapped =
        !known.empty() && std::all_of(known.begin(), known.end(), [&](const auto& value) {
          return value.first.starts_with(prefix);
        });
    const bool own = std::any_of(values.begin(), values.end(), [&](const Held& value) {
      return value.name().starts_with(prefix);
    });
    if (wrapped && !own) return prefix;
  }
  return "";
}

std::string listed(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string line = std::string("; ") + title + " ";
  for (size_t i = 0; i < names.size(); ++i) line += (i == 0 ? "" : ", ") + names[i];
  return line;
}

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

}  // namespace

void each_part(const std::vector<Held>& values, const PartFn& fn) {
  for (const Held& value : values) {
    for (const Piece& piece : value.pieces) {
      fn(piece.rank, {value.name(), piece.range, value.leaf.array()});
    }
  }
}

StagedModule stage_module(const std::vector<Held>& values, const PartFiles& files,
                          const nn::LoadOptions& options) {
  StagedModule staged;
  staged.result.stripped = wrapper_of(files, values);
  std::map<std::string, bool> used;
  for (const auto& [name, value] : files.values()) used[name] = false;
  std::vector<std::string> mis_shaped;
  std::vector<Wanted> wanted;
  for (const Held& value : values) {
    std::string source;
    for (const std::string& name : value.names) {
      const std::string full = staged.result.stripped + name;
      if (used.count(full) == 0) continue;
      used[full] = true;
      if (source.empty()) source = full;
    }
    if (source.empty()) {
      staged.result.missing.push_back(value.name());
      continue;
    }
    const PartFiles::Value& saved = files.values().at(source);
    if (saved.whole != value.range.whole) {
      mis_shaped.push_back(value.name() + " " + to_string(saved.whole) + " instead of " +
                           to_string(value.range.whole));
      continue;
    }
    check(!on_meta(value.leaf) || value.range.is_whole(), "load_state_dict: the shard of ",
          value.name(), " lies on meta and has no bytes");
    const Array array = Array::empty({value.range.count}, saved.dtype);
    wanted.push_back({source, value.range, array});
    staged.arrays.emplace_back(value, array);
  }
  for (const auto& [name, was_used] : used) {
    if (!was_used) staged.result.unexpected.push_back(name);
  }
  const nn::LoadResult& result = staged.result;
  const bool names_fail = options.strict && !(result.missing.empty() && result.unexpected.empty());
  const std::vector<std::string> none;
  check(!names_fail && mis_shaped.empty(), "load_state_dict: the state does not fit the module",
        listed("missing:", options.strict ? result.missing : none),
        listed("unexpected:", options.strict ? result.unexpected : none),
        listed("mis-shaped:", mis_shaped));
  files.read(wanted);
  return staged;
}

void StagedModule::commit() const {
  const NoGrad no_grad;
  const MemoryScope tag(MemoryTag::parameter);
  for (const auto& [value, array] : arrays) {
    if (on_meta(value.leaf)) {
      value.leaf.set_data(Array::empty(value.leaf.shape(), value.leaf.dtype(), kCpu));
    }
    value.leaf.copy_(Tensor(array.reshape(value.leaf.shape())));
    // also where this rank's part is empty: all ranks must know that the whole is new
    value.leaf.array().storage().bump_version();
  }
}

}  // namespace hero::dist
