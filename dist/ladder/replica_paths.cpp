// What a program says of parts of a sharded module, by their paths; replicas within a replica.
#include <algorithm>

#include <hero/core/error.h>
#include <hero/dist/ladder/divide.h>
#include <hero/dist/ladder/replica.h>

namespace hero::dist {
namespace {

bool is_at_or_below(const std::string& path, const std::string& top) {
  return path == top || is_below(path, top);
}

}  // namespace

std::vector<ModuleState*> Replica::states_below(const char* what, const std::string& path) const {
  const auto modules = module().named_modules();
  check(std::any_of(modules.begin(), modules.end(),
                    [&](const auto& named) { return named.first == path; }),
        what, ": there is no module '", path, "' in ", module().type_name(),
        "; named_modules() lists the paths");
  check(
      options_.units.stage == Stage::parameters, what, ": '", path,
      "': only units of fully_shard() and ZeRO-3 belong to a path; the buckets of DDP, ZeRO-1 and "
      "ZeRO-2 hold parameters of many modules");
  std::vector<ModuleState*> found;
  for (const auto& state : module_states_) {
    for (const auto& [at, module] : modules) {
      if (module == state->module && is_at_or_below(at, path) && !state->units.empty()) {
        found.push_back(state.get());
        break;
      }
    }
  }
  return found;
}

// Calls say(replica, path below it) for each nested replica at or below the path, or above it.
template <class Say>
bool Replica::tell_nested(const std::string& path, const Say& say) {
  bool any = false;
  for (const auto& [at, replica] : nested_) {
    const bool whole = is_at_or_below(at, path);
    if (!whole && !is_at_or_below(path, at)) continue;
    say(*replica, whole ? std::string() : path.substr(at.size() + 1));
    any = true;
  }
  return any;
}

void Replica::set_states(const char* what, const std::string& path,
                         const std::function<void(ModuleState&)>& set) {
  const auto states = states_below(what, path);
  for (ModuleState* state : states) set(*state);
  const bool any = tell_nested(path, [&](Replica& nested, const std::string& below) {
    nested.set_states(what, below, set);
  });
  check(any || !states.empty(), what, ": no unit lies at or below '", path,
        "'; its parameters belong to the unit of a module above it");
}

void Replica::set_sync_only(const std::vector<nn::Module*>& modules) {
  check(options_.units.stage == Stage::parameters,
        "pipeline: the buckets of DDP, ZeRO-1 and ZeRO-2 hold parameters of several chunks, whose "
        "gradients are complete at different times; use fully_shard() or ZeRO-3, or one chunk");
  for (const auto& state : module_states_) state->sync = false;
  for (nn::Module* top : modules) {
    for (const nn::Module* below : top->modules()) {
      for (const auto& state : module_states_) state->sync = state->sync || state->module == below;
    }
  }
}

void Replica::set_sync(bool on, const std::string& path) {
  set_states("set_requires_gradient_sync", path, [on](ModuleState& state) { state.sync = on; });
}

void Replica::set_all_reduce(bool on, const std::string& path) {
  set_states("set_requires_all_reduce", path, [on](ModuleState& state) { state.all_reduce = on; });
}

void Replica::set_reshard(bool on, const std::string& path) {
  check(!in_forward_ && !in_backward_, "set_reshard_after_forward: '", path,
        "': inside forward and backward units stay as they are");
  set_states("set_reshard_after_forward", path, [on](ModuleState& state) { state.reshard = on; });
}

void Replica::set_reshard_after_backward(bool on, const std::string& path) {
  check(!in_forward_ && !in_backward_, "set_reshard_after_backward: '", path,
        "': inside forward and backward units stay as they are");
  set_states("set_reshard_after_backward", path,
             [on](ModuleState& state) { state.reshard_backward = on; });
}

// What stays is what unshard() would have gathered for the next forward.
void Replica::free_after_backward() {
  for (const auto& state : module_states_) {
    state->held = !state->reshard_backward;
    for (Unit* unit : state->units) {
      if (state->held) unit->rest();
    }
  }
  reset(true);
}

bool Replica::reshards_after_forward() const {
  return std::any_of(module_states_.begin(), module_states_.end(),
                     [](const auto& state) { return state->reshard; });
}

// [note: gathered beforehand] What unshard() began the next forward finds, unless the shards were
// written since: then it gathers anew, on every rank, since a step writes the shards of all.
void Replica::unshard(const std::string& path) {
  check(!in_forward_ && !in_backward_, "unshard: '", path,
        "': inside forward and backward units are gathered by themselves");
  for (ModuleState* state : states_below("unshard", path)) {
    if (stale(*state)) free(*state);
    gather(*state);
    state->held = true;
  }
  tell_nested(path, [](Replica& nested, const std::string& below) { nested.unshard(below); });
}

void Replica::reshard(const std::string& path) {
  check(!in_forward_ && !in_backward_, "reshard: '", path,
        "': inside forward and backward units are freed by themselves");
  for (ModuleState* state : states_below("reshard", path)) free(*state);
  tell_nested(path, [](Replica& nested, const std::string& below) { nested.reshard(below); });
}

bool Replica::stale(const ModuleState& state) {
  return std::any_of(state.units.begin(), state.units.end(),
                     [](const Unit* unit) { return unit->stale(); });
}

bool Replica::is_outermost(const ModuleState& state) const {
  return !is_nested_ && &state == module_states_.front().get();
}

void Replica::nest(const std::string& path, std::shared_ptr<Replica> replica) {
  replica->is_nested_ = true;
  for (const auto& unit : replica->units_) unit->nest(path);
  nested_.emplace_back(path, std::move(replica));
}

std::vector<Replica*> Replica::all() {
  std::vector<Replica*> list = {this};
  for (const auto& [path, replica] : nested_) {
    const std::vector<Replica*> below = replica->all();
    list.insert(list.end(), below.begin(), below.end());
  }
  return list;
}

}  // namespace hero::dist
