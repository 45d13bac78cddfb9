#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/chunk_counts.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/parallel/stages.h>

namespace hero::dist {
namespace {

bool lies_on_meta(const Tensor& tensor) { return tensor.device().type == DeviceType::meta; }

// The group of a parameter of a stage: the ranks among which it was sharded before, or this rank
// alone. Its elsewhere() is the group of the pipeline.
class StageGroup : public RankGroup {
 public:
  StageGroup(std::shared_ptr<CommunicatorGroup> pipe, std::shared_ptr<RankGroup> former, bool copy)
      : pipe_(std::move(pipe)), former_(std::move(former)), copy_(copy) {}
  void add_up(const Array& words) override {
    if (former_) former_->add_up(words);
  }
  void largest(const Array& x) override {
    if (former_) former_->largest(x);
  }
  void declare(const std::string& what) override {
    if (former_) former_->declare(what);
  }
  RankGroup* elsewhere() override { return pipe_.get(); }
  int rank() const override { return former().rank(); }
  int size() const override { return former().size(); }
  void all_reduce(const Array& x, const char* op) override { former().all_reduce(x, op); }
  void all_gather(const Array& output, const Array& input, const char* op) override {
    former().all_gather(output, input, op);
  }
  void reduce_scatter(const Array& output, const Array& input, const char* op) override {
    former().reduce_scatter(output, input, op);
  }
  bool is_copy() const override { return copy_; }
  bool is_made_for(const std::shared_ptr<RankGroup>& former, bool copy) const {
    return former == former_ && copy == copy_;
  }

 private:
  RankGroup& former() const {
    check(former_ != nullptr,
          "pipeline: this rank holds the whole of what its stage computes with");
    return *former_;
  }

  std::shared_ptr<CommunicatorGroup> pipe_;
  std::shared_ptr<RankGroup> former_;
  bool copy_;
};

// One object for all leaves of a kind, so that what asks them asks once.
class StageGroups {
 public:
  explicit StageGroups(const Communicator& pipe)
      : pipe_(std::make_shared<CommunicatorGroup>(pipe)) {}
  std::shared_ptr<RankGroup> get(const std::shared_ptr<RankGroup>& former, bool copy) {
    for (const auto& known : made_) {
      if (known->is_made_for(former, copy)) return known;
    }
    return made_.emplace_back(std::make_shared<StageGroup>(pipe_, former, copy));
  }

 private:
  std::shared_ptr<CommunicatorGroup> pipe_;
  std::vector<std::shared_ptr<StageGroup>> made_;
};

void check_free(const StageValue& value) {
  check(parameter_owner(value.leaf()) == nullptr, "pipeline: '", value.name,
        "' is sharded already; make the pipeline before fully_shard() or ZeRO");
  const Partition* part = partition(value.leaf());
  check(part == nullptr || !part->group || part->group->elsewhere() == nullptr, "pipeline: '",
        value.name, "' is in a pipeline already");
}

// This rank's values of what it computes with.
Array own_values(const StageValue& value, Device device, bool simulated) {
  const Tensor& leaf = value.leaf();
  if (!lies_on_meta(leaf)) return leaf.array();
  if (simulated) {
    leaf.array().storage().charge_to(current_ledger());
    return leaf.array();
  }
  const nn::Slot& slot = *value.slots.front();
  check(static_cast<bool>(slot.init.fill), "pipeline: '", value.name,
        "' was made on meta and has no recipe for its values; give it values before");
  const Array values = Array::empty(leaf.shape(), leaf.dtype(), device);
  const Partition* part = partition(leaf);
  nn::fill_part(slot.init, values, whole_shape(leaf), part ? part->boxes : std::vector<Box>(), 0,
                slot.stream);
  return values;
}

}  // namespace

std::vector<size_t> stage_begins(size_t layers, int stages, const std::vector<size_t>& given) {
  const auto count = static_cast<size_t>(stages);
  check(layers >= count, "pipeline: ", layers, " layers for ", stages,
        " stages; take fewer ranks or chunks");
  std::vector<size_t> begins = given;
  if (given.empty()) {
    const ChunkCounts even = ChunkCounts::balanced(static_cast<int64_t>(layers), stages);
    for (int i = 0; i < stages; ++i) begins.push_back(static_cast<size_t>(even.chunk(i).begin));
  }
  check(begins.size() == count, "pipeline: first_layers names ", begins.size(),
        " stages, there are ", stages);
  check(begins.front() == 0, "pipeline: first_layers begins with ", begins.front(),
        "; layer 0 must be in the first stage");
  begins.push_back(layers);
  for (size_t i = 0; i < count; ++i) {
    check(begins[i] < begins[i + 1], "pipeline: stage ", i, " would have layers ", begins[i],
          " to ", begins[i + 1], " of ", layers,
          "; first_layers must rise, below the number of layers");
  }
  return begins;
}

bool StageValue::is_on(int rank) const {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool StageValue::is_tied() const {
  return ranks.size() > 1 && slots.front()->kind == nn::Slot::Kind::parameter;
}

std::vector<StageValue> stage_values(nn::PipelineModel& model, const std::vector<size_t>& begins,
                                     int ranks) {
  std::map<const nn::Slot*, std::set<int>> users;  // the ranks
  for (size_t stage = 0; stage + 1 < begins.size(); ++stage) {
    for (size_t layer = begins[stage]; layer < begins[stage + 1]; ++layer) {
      for (nn::Module* module : model.modules_of(layer)) {
        for (const auto& [name, slot] : module->slots()) {
          users[slot].insert(static_cast<int>(stage) % ranks);
        }
      }
    }
  }
  std::vector<StageValue> values;
  std::unordered_map<const detail::TensorImpl*, size_t> places;
  for (const auto& [name, slot] : model.root().slots()) {
    if (!slot->tensor.defined()) continue;
    if (users.count(slot) == 0) {
      fail("pipeline: '", name, "' of ", model.root().type_name(),
           " belongs to no layer; modules_of() must name its module");
    }
    const auto [place, fresh] = places.emplace(slot->tensor.impl(), values.size());
    if (fresh) values.push_back({name, {}, whole_shape(slot->tensor), {}});
    StageValue& value = values[place->second];
    value.slots.push_back(slot);
    std::set<int> all(value.ranks.begin(), value.ranks.end());
    all.merge(users[slot]);
    value.ranks.assign(all.begin(), all.end());
  }
  return values;
}

Device device_of(const std::vector<StageValue>& values, const Communicator& pipe, Device planned) {
  if (pipe.backend_kind() == BackendKind::simulated) return kMeta;
  for (const StageValue& value : values) {
    if (value.is_on(pipe.rank()) && !lies_on_meta(value.leaf())) return value.leaf().device();
  }
  return planned;
}

void keep_own_values(const std::vector<StageValue>& values, const Communicator& pipe,
                     Device device) {
  const bool simulated = pipe.backend_kind() == BackendKind::simulated;
  const MemoryScope tag(MemoryTag::parameter);
  StageGroups groups(pipe);
  for (const StageValue& value : values) check_free(value);
  for (const StageValue& value : values) {
    const Tensor& leaf = value.leaf();
    const bool here = value.is_on(pipe.rank());
    const Shape whole = whole_shape(leaf);
    Partition place = {.whole = whole};
    if (const Partition* part = partition(leaf)) place = *part;
    if (here && place.boxes.empty()) place.boxes = {{Dims::filled(whole.size(), 0), whole}};
    if (!here) place.boxes.clear();
    place.group = groups.get(place.group, here && value.ranks.front() != pipe.rank());
    const Array held =
        here ? own_values(value, device, simulated) : Array::empty({0}, leaf.dtype(), device);
    if (pipe.size() == 1) {
      leaf.set_data(held);
    } else {
      set_part(leaf, held, std::make_shared<const Partition>(std::move(place)));
    }
  }
}

}  // namespace hero::dist
