// Settings of a program for parts of a sharded module, by their paths; nested sharded modules.
#include <algorithm>

#include <hero/core/error.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/wrap.h>

namespace hero::dist {
namespace {

bool is_at_or_below(const std::string& path, const std::string& top) {
  return path == top || is_below(path, top);
}

}  // namespace

bool ModulePaths::hold(const std::string& name) const {
  if (paths_.empty()) return false;
  if (paths_.contains("")) return true;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    if (paths_.contains(name.substr(0, dot))) return true;
  }
  return false;
}

std::vector<ModuleState*> ShardedModule::states_below(const char* what,
                                                      const std::string& path) const {
  const auto modules = module().named_modules();
  check(std::any_of(modules.begin(), modules.end(),
                    [&](const auto& named) { return named.first == path; }),
        what, ": there is no module '", path, "' in ", module().type_name(),
        "; named_modules() lists the paths");
  check(
      options_.units.stage == Stage::parameters, what, ": '", path,
      "': only units of fully_shard() and ZeRO-3 belong to a path; the buckets of DDP, ZeRO-1 and "
      "ZeRO-2 hold parameters of many modules");
  std::unordered_map<const nn::Module*, std::vector<ModuleState*>> states_of;
  for (ShardedModule* sharded : schedule_->modules()) {
    if (sharded->options_.units.stage != Stage::parameters) continue;
    for (const auto& state : sharded->module_states_) {
      if (state->units.empty()) continue;
      for (const nn::Module* each : state->modules) states_of[each].push_back(state.get());
    }
  }
  std::vector<ModuleState*> found;
  std::unordered_set<const ModuleState*> known;
  for (const auto& [at, module] : modules) {
    if (!is_at_or_below(at, path)) continue;
    for (ModuleState* state : states_of[module]) {
      if (known.insert(state).second) found.push_back(state);
    }
  }
  return found;
}

std::vector<ModuleState*> ShardedModule::states_at(const char* what,
                                                   const std::string& path) const {
  std::vector<ModuleState*> found = states_below(what, path);
  const auto modules = module().named_modules();
  std::erase_if(found, [&](const ModuleState* state) {
    return std::none_of(modules.begin(), modules.end(), [&](const auto& named) {
      return named.first == path &&
             std::count(state->modules.begin(), state->modules.end(), named.second) > 0;
    });
  });
  check(!found.empty(), what, ": no unit is gathered at '", path,
        "'; units() lists those that there are");
  return found;
}

void ShardedModule::check_between_steps(const char* what, const std::string& path,
                                        const char* why) const {
  check(!schedule_->in_forward() && !schedule_->in_backward(), what, ": '", path,
        "': inside forward and backward units ", why);
}

void ShardedModule::set_policy(const char* what, const std::string& path, bool ModulePolicy::*flag,
                               bool on) {
  const bool of_gradients = flag == &ModulePolicy::sync || flag == &ModulePolicy::all_reduce;
  if (!of_gradients) check_between_steps(what, path, "stay as they are");
  const auto states = states_below(what, path);
  for (ModuleState* state : states) state->policy.*flag = on;
  check(!states.empty(), what, ": no unit lies at or below '", path,
        "'; its parameters belong to the unit of a module above it");
}

void ShardedModule::set_prefetch(const char* what, const std::string& path,
                                 std::optional<std::vector<ModuleState*>> ModulePolicy::*list,
                                 const std::vector<std::string>& modules) {
  const auto states = states_at(what, path);
  std::vector<ModuleState*> ahead;
  for (const std::string& each : modules) {
    for (ModuleState* state : states_at(what, each)) {
      if (!schedule_->is_outermost(*state)) ahead.push_back(state);  // it is gathered all the time
    }
  }
  for (ModuleState* state : states) state->policy.*list = ahead;
}

void ShardedModule::set_sync_only(const std::vector<nn::Module*>& modules) {
  check(options_.units.stage == Stage::parameters,
        "pipeline: the buckets of DDP, ZeRO-1 and ZeRO-2 hold parameters of several chunks, whose "
        "gradients are complete at different times; use fully_shard() or ZeRO-3, or one chunk");
  std::unordered_set<const nn::Module*> at_or_below;
  for (nn::Module* top : modules) {
    for (const nn::Module* each : top->modules()) at_or_below.insert(each);
  }
  for (const auto& state : module_states_) {
    state->policy.sync = std::ranges::any_of(
        state->modules, [&](const nn::Module* each) { return at_or_below.contains(each); });
  }
}

bool ShardedModule::reshards_after_forward() const {
  return std::any_of(module_states_.begin(), module_states_.end(),
                     [](const auto& state) { return state->policy.reshard_after_forward; });
}

// [note: gathered beforehand] What unshard() began the next forward finds, unless the shards were
// written since: then it gathers anew, on every rank, since a step writes the shards of all.
void ShardedModule::unshard(const std::string& path) {
  check_between_steps("unshard", path, "are gathered by themselves");
  for (ModuleState* state : states_below("unshard", path)) {
    if (stale(*state)) state->owner->free(*state);
    state->owner->gather(*state);
    state->held = true;
  }
}

void ShardedModule::reshard(const std::string& path) {
  check_between_steps("reshard", path, "are freed by themselves");
  for (ModuleState* state : states_below("reshard", path)) state->owner->free(*state);
}

bool ShardedModule::stale(const ModuleState& state) {
  return std::any_of(state.units.begin(), state.units.end(),
                     [](const Unit* unit) { return unit->stale(); });
}

void ShardedModule::nest(Nested below) {
  ShardedModule& sharded = *below.module;
  sharded.is_nested_ = true;
  sharded.shares_groups_ = sharded.rank_group_ == rank_group_;
  for (ShardedModule* each : sharded.all()) {
    for (const auto& unit : each->units_) unit->nest(below.paths, schedule_->disk_order());
  }
  schedule_->take_in(*std::shared_ptr<UnitSchedule>(sharded.schedule_));
  nested_.push_back(std::move(below));
}

std::vector<ShardedModule*> ShardedModule::all() {
  std::vector<ShardedModule*> list = {this};
  for (const Nested& each : nested_) {
    const std::vector<ShardedModule*> below = each.module->all();
    list.insert(list.end(), below.begin(), below.end());
  }
  return list;
}

}  // namespace hero::dist
