#include <algorithm>
#include <charconv>
#include <unordered_map>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/dist/checkpoint/optimizer_parts.h>

namespace hero::dist {
namespace {

constexpr std::string_view kState = "state.", kMaster = "master.";

}  // namespace

OptimizerParts::OptimizerParts(const optim::Optimizer& optimizer,
                               const std::vector<Tensor>& parameters,
                               const std::vector<ShardedValue>& values)
    : optimizer_(optimizer) {
  std::unordered_map<const detail::TensorImpl*, const ShardedValue*> value_of;
  for (const ShardedValue& value : values) value_of.emplace(value.leaf.impl(), &value);
  for (const Tensor& parameter : parameters) {
    const auto found = value_of.find(parameter.impl());
    check(found != value_of.end(), "checkpoint: the optimizer's parameter ", of_.size(),
          " of shape ", parameter.shape(),
          " belongs to no tracked module; track its module (and MasterWeights by its own type), "
          "and save between two steps");
    for (const std::string& name : found->second->names) numbers_.emplace(name, of_.size());
    of_.push_back(found->second);
  }
}

// "state.0.exp_avg", "master.0" of a state dict; false for anything else.
bool OptimizerParts::parse_indexed(const std::string& name, Key& key) const {
  const bool state = name.starts_with(kState);
  if (!state && !name.starts_with(kMaster)) return false;
  const char* const begin = name.data() + (state ? kState : kMaster).size();
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, key.parameter);
  if (error != std::errc() || key.parameter >= of_.size()) return false;
  if (!state) return stop == end;
  if (stop == end || *stop != '.') return false;
  key.state.assign(stop + 1, end);
  key.number = optimizer_.is_number(key.state);
  return true;
}

// "state.fc1.weight.exp_avg", "master.fc1.weight" of a file.
bool OptimizerParts::parse(const std::string& name, Key& key) const {
  const bool state = name.starts_with(kState);
  std::string rest = name.substr((state ? kState : kMaster).size());
  if (state) {
    const size_t dot = rest.rfind('.');
    if (dot == std::string::npos || dot + 1 == rest.size()) return false;
    key.state = rest.substr(dot + 1);
    key.number = optimizer_.is_number(key.state);
    rest.resize(dot);
  }
  const auto found = numbers_.find(rest);
  if (found == numbers_.end()) return false;
  key.parameter = found->second;
  return true;
}

void OptimizerParts::each_part(const PartFn& fn) const {
  const bool sharded = std::any_of(of_.begin(), of_.end(), [](const ShardedValue* value) {
    return partition(value->leaf) != nullptr;
  });
  for (auto& [name, array] : optimizer_.state_dict()) {
    Key key;
    const bool of_parameter = parse_indexed(name, key);
    if (!of_parameter || key.number) {
      check(of_parameter || !sharded || name.starts_with("group."), "checkpoint: '", name,
            "' of the optimizer is of all parameters together; where they are shards it cannot be "
            "saved");
      std::string full = name;
      int rank = 0;
      if (of_parameter) {
        const ShardedValue& value = *of_[key.parameter];
        full = std::string(kState) + value.name() + "." + key.state;
        if (value.exchanged) rank = value.pieces.front().rank;  // rank 0 may have another stage
      }
      fn(rank, {full, {array.shape(), {}, 0, array.numel()}, array});
      continue;
    }
    const ShardedValue& value = *of_[key.parameter];
    check(array.shape() == value.leaf.shape(), "checkpoint: the optimizer's state '", name, "' is ",
          array.shape(), ", its parameter '", value.name(), "' ", value.leaf.shape());
    const std::string full = key.state.empty()
                                 ? std::string(kMaster) + value.name()
                                 : std::string(kState) + value.name() + "." + key.state;
    for (const Piece& piece : value.pieces) fn(piece.rank, {full, piece.range, array});
  }
}

optim::StateDict OptimizerParts::read(const PartFiles& files) const {
  optim::StateDict dict;
  std::vector<Wanted> wanted;
  core::NameList unlike;
  for (const auto& [name, value] : files.values()) {
    Key key;
    std::string indexed = name;
    ShardRange range = {value.whole, {}, 0, value.whole.numel()};
    Shape shape = value.whole;
    if (name.starts_with(kState) || name.starts_with(kMaster)) {
      if (!parse(name, key)) {
        unlike.add(name);
        continue;
      }
      const std::string index = std::to_string(key.parameter);
      indexed = key.state.empty() ? std::string(kMaster) + index
                                  : std::string(kState) + index + "." + key.state;
      const ShardedValue& held = *of_[key.parameter];
      if (!key.number && value.whole != held.range.whole) {
        unlike.add(name + " " + to_string(value.whole) + " instead of " +
                   to_string(held.range.whole));
        continue;
      }
      if (!key.number) {
        range = held.range;
        shape = held.leaf.shape();
      }
    }
    const Array array = Array::empty(shape, value.dtype);
    dict.push_back({indexed, array});
    wanted.push_back({name, range, array});
  }
  check(unlike.empty(),
        "checkpoint: states that do not fit the optimizer's parameters: ", unlike.text());
  files.read(wanted);
  return dict;
}

}  // namespace hero::dist
