#include <map>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/module_parts.h>
#include <hero/nn/module/load_names.h>

namespace hero::dist {
namespace {

bool on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

// What the files have for one tensor under two of its names.
struct TiedNames {
  std::string name, other;
  Array first, second;
  DType dtype;  // in the module
};

}  // namespace

void each_part(const std::vector<ShardedValue>& values, const PartFn& fn) {
  for (const ShardedValue& value : values) {
    for (const Piece& piece : value.pieces) {
      fn(piece.rank, {value.name(), piece.range, value.leaf.array()});
    }
  }
}

StagedModule stage_module(const std::vector<ShardedValue>& values, const PartFiles& files,
                          const nn::LoadOptions& options) {
  StagedModule staged;
  std::map<std::string, bool> used;
  std::vector<std::string> of_files, of_module;
  for (const auto& [name, value] : files.values()) {
    used[name] = false;
    of_files.push_back(name);
  }
  for (const ShardedValue& value : values) of_module.push_back(value.name());
  staged.result.stripped = nn::detail::wrapper_of(of_files, of_module);
  nn::detail::MisShaped mis_shaped;
  std::vector<Wanted> wanted;
  std::vector<TiedNames> tied;
  for (const ShardedValue& value : values) {
    Array first;  // of the first of its names that the files have
    bool found = false;
    for (const std::string& name : value.names) {
      const std::string full = staged.result.stripped + name;
      if (used.count(full) == 0) continue;
      used[full] = true;
      found = true;
      const PartFiles::Value& saved = files.values().at(full);
      if (saved.whole != value.range.whole) {
        mis_shaped.add(name, saved.whole, value.range.whole);
        continue;
      }
      check(!on_meta(value.leaf) || value.range.is_whole(), "load_state_dict: the shard of ", name,
            " lies on meta and has no bytes");
      const Array array = Array::empty({value.range.count}, saved.dtype);
      wanted.push_back({full, value.range, array});
      if (first.defined()) {
        tied.push_back({value.name(), name, first, array, value.leaf.dtype()});
      } else {
        first = array;
        staged.arrays.emplace_back(value, array);
      }
    }
    if (!found) staged.result.missing.push_back(value.name());
  }
  for (const auto& [name, was_used] : used) {
    if (!was_used) staged.result.unexpected.push_back(name);
  }
  nn::detail::check_fits("the module", staged.result, mis_shaped, options);
  files.read(wanted);
  for (const TiedNames& each : tied) {
    if (nn::detail::same_values(each.first, each.second, each.dtype)) continue;
    nn::detail::fail_tied("load_state_dict", "the module", each.name, each.other);
  }
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
