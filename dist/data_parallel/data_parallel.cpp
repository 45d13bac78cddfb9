#include <unordered_set>

#include <hero/autograd/sharding/layout.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/core/device/backend.h>
#include <hero/dist/data_parallel.h>
#include <hero/dist/data_parallel/sharded_module.h>

namespace hero::dist {
namespace {

// The whole tensor of one that is divided over other axes: slices of tensor parallelism, experts of
// expert parallelism, leaves that only one stage of a pipeline has. Each rank contributes the bits
// of its elements and zeros elsewhere, and these are added up as integers. A collective.
Array joined(const std::string& name, const Tensor& tensor) {
  const Partition* cut = partition(tensor);
  check(cut->group != nullptr, "full_state_dict: ", name, " is ", describe_part(tensor),
        ", and nothing is known of the ranks that have the rest");
  constexpr int64_t kWord = sizeof(int64_t);
  const Array part = tensor.array().contiguous().reshape({tensor.numel()});
  const int64_t bytes = cut->whole.numel() * item_size(part.dtype());
  const Array words = Array::zeros({(bytes + kWord - 1) / kWord}, kInt64, part.device());
  const Array whole(words.storage_ref(), {cut->whole.numel()}, {1}, 0, part.dtype());
  if (!cut->group->is_copy()) {
    layout::Runs runs(cut->whole, cut->boxes, cut->first, part.numel());
    for (layout::Run run; runs.next(run);) {
      core::backend(part.device())
          .run(core::call::Copy{part.slice(0, run.part, run.part + run.count),
                                whole.slice(0, run.whole, run.whole + run.count)});
    }
  }
  cut->group->add_up(words);
  if (RankGroup* elsewhere = cut->group->elsewhere()) elsewhere->add_up(words);
  return whole.reshape(cut->whole);
}

}  // namespace

FullParameters::FullParameters(std::shared_ptr<ShardedModule> sharded, const SummonOptions& options)
    : sharded_(std::move(sharded)), writeback_(options.writeback) {
  const std::vector<ShardedModule*> all = sharded_->all();
  for (const ShardedModule* each : all) {
    each->check_not_summoned("summon_full_parameters");
    if (!each->shards()) continue;
    for (const auto& unit : each->units()) unit->check_slots("summon_full_parameters");
  }
  sharded_->reset();  // all of them: they share a schedule
  for (ShardedModule* each : all) {
    flat_parameters_.emplace_back();
    if (!each->shards()) continue;
    each->declare_writes();
    for (const auto& unit : each->units()) {
      flat_parameters_.back().push_back(unit->gather_whole());
      versions_.push_back(flat_parameters_.back().back().storage().version());
    }
    each->show(flat_parameters_.back());
  }
}

FullParameters::~FullParameters() {
  if (!sharded_) return;  // it was moved from
  const std::vector<ShardedModule*> all = sharded_->all();
  auto version = versions_.begin();
  for (size_t i = 0; i < flat_parameters_.size(); ++i) {
    if (!all[i]->shards()) continue;
    for (size_t unit = 0; unit < flat_parameters_[i].size(); ++unit) {
      const Array& flat = flat_parameters_[i][unit];
      const bool written = flat.storage().version() != *version++;  // or a step has set the shards
      if (writeback_) all[i]->take_over_whole(unit, flat, written);
    }
    all[i]->hide();
  }
}

NoSync::NoSync(std::shared_ptr<ShardedModule> sharded) : sharded_(std::move(sharded)) {
  for (ShardedModule* each : sharded_->all()) each->count_no_sync(1);
}

NoSync::~NoSync() {
  if (!sharded_) return;  // it was moved from
  for (ShardedModule* each : sharded_->all()) each->count_no_sync(-1);
}

nn::Module& DataParallel::module() const { return sharded_->module(); }

void DataParallel::set_requires_gradient_sync(bool on) const {
  for (ShardedModule* each : sharded_->all()) each->set_sync(on);
}

void DataParallel::set_requires_gradient_sync(bool on, const std::string& path) const {
  sharded_->set_policy("set_requires_gradient_sync", path, &ModulePolicy::sync, on);
}

void DataParallel::set_requires_all_reduce(bool on) const {
  for (ShardedModule* each : sharded_->all()) each->set_all_reduce(on);
}

void DataParallel::set_requires_all_reduce(bool on, const std::string& path) const {
  sharded_->set_policy("set_requires_all_reduce", path, &ModulePolicy::all_reduce, on);
}

void DataParallel::set_reshard_after_forward(bool on, const std::string& path) const {
  sharded_->set_policy("set_reshard_after_forward", path, &ModulePolicy::reshard_after_forward, on);
}

void DataParallel::set_reshard_after_backward(bool on, const std::string& path) const {
  sharded_->set_policy("set_reshard_after_backward", path, &ModulePolicy::reshard_after_backward,
                       on);
}

void DataParallel::set_modules_to_forward_prefetch(const std::string& path,
                                                   const std::vector<std::string>& modules) const {
  sharded_->set_prefetch("set_modules_to_forward_prefetch", path, &ModulePolicy::forward_prefetch,
                         modules);
}

void DataParallel::set_modules_to_backward_prefetch(const std::string& path,
                                                    const std::vector<std::string>& modules) const {
  sharded_->set_prefetch("set_modules_to_backward_prefetch", path, &ModulePolicy::backward_prefetch,
                         modules);
}

void DataParallel::unshard(const std::string& path) const { sharded_->unshard(path); }
void DataParallel::reshard(const std::string& path) const { sharded_->reshard(path); }

void DataParallel::join(const std::function<void()>& body,
                        const std::function<void()>& step) const {
  sharded_->join(body, step);
}

void DataParallel::on_event(const std::function<void(const Event&)>& fn) const {
  for (ShardedModule* each : sharded_->all()) each->set_events(fn);
}

std::vector<Tensor> DataParallel::parameters() const {
  std::vector<Tensor> list;
  std::unordered_set<const detail::TensorImpl*> known;
  for (const auto& [name, slot] : module().slots()) {
    if (slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    const Tensor leaf = sharded_->leaf_of(*slot);
    if (known.insert(leaf.impl()).second) list.push_back(leaf);
  }
  return list;
}

nn::StateDict DataParallel::full_state_dict() const {
  for (const auto& [name, slot] : module().slots()) {
    check_own_values("full_state_dict", name, slot->tensor, ValueUse::save);
  }
  const FullParameters full(sharded_, {.writeback = false});
  nn::StateDict dict;
  for (const auto& [name, slot] : module().slots()) {
    if (slot->kind == nn::Slot::Kind::buffer_not_saved || !slot->tensor.defined()) continue;
    const Tensor& tensor = slot->tensor;
    dict.push_back({name, partition(tensor) ? joined(name, tensor) : tensor.array().clone()});
  }
  return dict;
}

std::vector<UnitInfo> DataParallel::units() const {
  std::vector<UnitInfo> list;
  for (const ShardedModule* each : sharded_->all()) {
    for (const auto& unit : each->units()) {
      UnitInfo info = {unit->name(), unit->numel(), unit->flat_numel(), unit->own(), {}};
      for (const UnitParameter& parameter : unit->parameters())
        info.parameters.push_back(parameter.name);
      list.push_back(std::move(info));
    }
  }
  return list;
}

std::shared_ptr<ShardedModule> sharded_module_of(const DataParallel& parallel) {
  return parallel.sharded_;
}

DataParallel make_data_parallel(std::shared_ptr<ShardedModule> sharded) {
  return DataParallel(std::move(sharded));
}

}  // namespace hero::dist
