#include <algorithm>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <hero/autograd/graph/engine.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/data_parallel/unit_schedule.h>

namespace hero::dist {

void UnitSchedule::take_in(UnitSchedule& below) {
  for (ShardedModule* sharded : std::exchange(below.modules_, {})) {
    modules_.push_back(sharded);
    sharded->schedule_ = shared_from_this();
  }
}

void UnitSchedule::order_disk() {
  if (disk_order_->shards.empty()) return;
  std::unordered_map<const nn::Slot*, DiskShard*> shard_of;
  for (const ShardedModule* sharded : modules_) {
    for (const auto& unit : sharded->units_) {
      for (const UnitParameter& parameter : unit->parameters()) {
        for (const nn::Slot* slot : parameter.slots) shard_of[slot] = unit->disk_shard();
      }
    }
  }
  std::vector<DiskShard*> shards;
  std::unordered_set<const DiskShard*> known;
  for (const auto& [name, slot] : modules_.front()->module().slots()) {
    const auto found = shard_of.find(slot);
    DiskShard* const shard = found != shard_of.end() ? found->second : nullptr;
    if (shard != nullptr && known.insert(shard).second) shards.push_back(shard);
  }
  disk_order_->shards = std::move(shards);
}

void UnitSchedule::remove(const ShardedModule& sharded) {
  std::erase(modules_, &sharded);
  const auto is_its = [&](const ModuleState* state) { return state->owner == &sharded; };
  // An order without one of its modules cannot be used for prefetching.
  for (auto* order : {&order_, &former_order_}) {
    if (std::any_of(order->begin(), order->end(), is_its)) order->clear();
  }
  for (auto* under_way : {&reducing_, &arriving_}) {
    std::erase_if(*under_way, [&](const Reduction& each) { return each.owner == &sharded; });
  }
  for (const ShardedModule* other : modules_) {
    for (const auto& state : other->module_states_) {
      for (auto* list : {&state->policy.forward_prefetch, &state->policy.backward_prefetch}) {
        if (*list) std::erase_if(**list, is_its);
      }
    }
  }
}

bool UnitSchedule::is_outermost(const ModuleState& state) const {
  return !state.owner->is_nested() && &state == state.owner->module_states_.front().get();
}

void UnitSchedule::begin_forward() {
  reset(true);
  former_order_ = std::move(order_);
  order_.clear();
  in_forward_ = true;
}

// The first `depth` of these are gathered now, in the order in which they will be used, and what
// comes behind them is read from its file. The outermost module's units stay gathered, so nobody
// needs to gather them again.
template <class Iterator>
void UnitSchedule::gather_ahead(Iterator at, Iterator end, int depth) {
  for (int i = 0; at != end && i <= depth; ++i, ++at) {
    ModuleState& state = **at;
    if (is_outermost(state)) return;
    if (i < depth) {
      state.owner->gather(state);
    } else {
      for (const Unit* unit : state.units) unit->read_ahead();
    }
  }
}

// In forward the pass before tells what comes next, as long as this one is like it.
void UnitSchedule::prefetch_forward(ModuleState& state) {
  if (!in_forward_) return;
  state.place = order_.size();
  order_.push_back(&state);
  if (const auto& list = state.policy.forward_prefetch) {
    return gather_ahead(list->begin(), list->end(), static_cast<int>(list->size()));
  }
  const int depth = state.owner->options().prefetch;
  const auto at = static_cast<std::ptrdiff_t>(order_.size());
  if (depth == 0 || order_.size() >= former_order_.size()) return;
  if (former_order_[order_.size() - 1] != &state) return;
  gather_ahead(former_order_.begin() + at, former_order_.end(), depth);
}

// Backward comes to the modules in the reverse order of this forward.
void UnitSchedule::prefetch_backward(ModuleState& state) {
  if (const auto& list = state.policy.backward_prefetch) {
    return gather_ahead(list->begin(), list->end(), static_cast<int>(list->size()));
  }
  const int depth = state.owner->options().prefetch;
  if (depth == 0) return;
  auto from = order_.rbegin();
  if (!is_outermost(state)) {
    const size_t place = state.place;
    if (place >= order_.size() || order_[place] != &state) return;  // it was not in this forward
    from += static_cast<std::ptrdiff_t>(order_.size() - place);
  }
  gather_ahead(from, order_.rend(), depth);
}

// [note: a graph that is dropped] From its forward to its backward the outermost module shows whole
// parameters, and so does whatever is not freed in between: a loss may be made of them. A forward
// without a backward ends when its graph does: then the modules show the shards again, which
// optimizers hold, and what is gathered stays until the next forward frees it. A hook of each
// output holds one of these, so that it lives as long as a node of these outputs. Another thread
// may drop the graph, but not touch the modules.
class UnitSchedule::Graph {
 public:
  explicit Graph(const std::shared_ptr<UnitSchedule>& schedule) : schedule_(schedule) {
    ++schedule->graphs_;
  }
  ~Graph() {
    const auto schedule = schedule_.lock();
    if (!schedule || --schedule->graphs_ > 0) return;
    if (std::this_thread::get_id() != thread_) return;
    if (schedule->in_forward_ || schedule->in_backward_) return;
    schedule->rest();
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

 private:
  std::weak_ptr<UnitSchedule> schedule_;
  std::thread::id thread_ = std::this_thread::get_id();
};

void UnitSchedule::watch_graph(const nn::Tensors& outputs) {
  std::shared_ptr<Graph> graph;
  for (const Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || output.is_leaf()) continue;
    if (!graph) graph = std::make_shared<Graph>(shared_from_this());
    output.register_hook([graph](const Tensor&) { return Tensor(); });
  }
  if (!graph) rest();  // no backward will come
}

void UnitSchedule::begin_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  for (ShardedModule* sharded : modules_) {
    if (sharded->averages()) sharded->save_previous_grads();
  }
  on_backward_end([self = weak_from_this()] {
    if (const auto schedule = self.lock()) schedule->end_backward();
  });
}

void UnitSchedule::add_arrived() {
  for (const Reduction& each : std::exchange(arriving_, {})) {
    each.unit->add_arrived();
    each.owner->emit(Event::Kind::reduced, *each.unit);
  }
}

// What goes on over the replicas has no bucket any more, and is waited for when the next unit is
// reduced.
void UnitSchedule::advance() {
  std::vector<Reduction> begun;
  for (const Reduction& each : std::exchange(reducing_, {})) {
    each.unit->begin_all_reduce() ? begun.push_back(each) : end_reduction(each);
  }
  reducing_ = std::move(begun);
}

void UnitSchedule::advance_hooks() {
  for (const Reduction& each : reducing_) each.unit->advance_hook();
}

void UnitSchedule::end_reductions() {
  for (const Reduction& each : std::exchange(reducing_, {})) end_reduction(each);
  add_arrived();
}

void UnitSchedule::end_reduction(const Reduction& reduction) {
  if (!reduction.unit->end_reduce()) return;
  if (reduction.unit->is_arriving()) return arriving_.push_back(reduction);
  reduction.owner->emit(Event::Kind::reduced, *reduction.unit);
}

// [note: what passes before have left] A pass that averages leaves nothing behind: what was added
// up in passes before, under no_sync() or the switches of gradient sync, is averaged with it, also
// in units that this pass did not reach.
void UnitSchedule::end_backward() {
  if (!in_backward_) return;  // reset meanwhile
  if (!touched_) {            // grad(), which leaves parameters alone
    in_backward_ = false;
    return reset(false);
  }
  std::string missing;
  for (ShardedModule* sharded : modules_) {
    const std::string names = sharded->finish_gradients();
    missing += (missing.empty() || names.empty() ? "" : ", ") + names;
  }
  end_reductions();
  in_backward_ = false;
  for (ShardedModule* sharded : modules_) sharded->end_pass();
  reset(true);
  check(missing.empty(),
        "backward: parameters without a gradient, which the other ranks wait for: ", missing,
        "; use them in forward, freeze them, or set find_unused_parameters (in a file "
        "\"ignore_unused_parameters\": true)");
}

void UnitSchedule::average_unreduced() {
  const bool any = std::any_of(modules_.begin(), modules_.end(), [](const ShardedModule* sharded) {
    return sharded->has_unreduced();
  });
  if (!any || in_backward_) return;
  in_backward_ = touched_ = true;
  end_backward();
}

void UnitSchedule::reset(bool keep_held) {
  const bool threw = in_backward_;
  reducing_.clear();
  arriving_.clear();
  in_backward_ = false;
  touched_ = false;
  in_forward_ = false;
  for (ShardedModule* sharded : modules_) sharded->reset_own(threw, keep_held);
}

void UnitSchedule::rest() {
  for (ShardedModule* sharded : modules_) sharded->rest();
}

}  // namespace hero::dist
