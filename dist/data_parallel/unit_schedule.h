#pragma once
// UnitSchedule: when the units of a tree of sharded modules are gathered, freed and reduced.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

class ShardedModule;

struct ModuleState;

/// Settings of a program for the units of a module.
struct ModulePolicy {
  bool sync = true;        ///< gradients are averaged over the ranks
  bool all_reduce = true;  ///< in hybrid sharding, gradients are averaged over the replicas, too
  bool reshard_after_forward = true;   ///< whole parameters are freed after forward
  bool reshard_after_backward = true;  ///< whole parameters are freed after backward
  /// What is gathered ahead when its forward or backward begins, in place of the next modules in
  /// the recorded order.
  std::optional<std::vector<ModuleState*>> forward_prefetch = {}, backward_prefetch = {};
};

/// A module (or several whose parameters are one unit) for whose forward and backward units are
/// gathered, and the progress of these passes.
struct ModuleState {
  ShardedModule* owner = nullptr;  ///< the sharded module to which the units belong
  std::vector<nn::Module*> modules = {};
  std::vector<Unit*> units = {};
  std::vector<bool> passed = {};  ///< modules whose forward has run since the first of them began
  int begun = 0;  ///< of its forwards, those whose backward has begun in the pass now running
  int ended = 0;  ///< and those whose backward has come through to the module's inputs
  bool entered = false;  ///< a forward that is recorded has come through the module's hooks
  bool held = false;     ///< gathered by unshard(), for the forward to come
  size_t place = 0;      ///< in the order of the forward that ran last, the last time it came
  ModulePolicy policy = {};
};

/// The common state of all modules within one outermost module that fully_shard() was applied to:
/// the order in which their units are used, the reductions under way, and the current pass. Nested
/// calls of fully_shard() thus behave like one call for the outermost module, with a policy that
/// names the same units. DDP, ZeRO and a sharded module without an outer one have a schedule of
/// their own.
class UnitSchedule : public std::enable_shared_from_this<UnitSchedule> {
 public:
  explicit UnitSchedule(ShardedModule& outermost) : modules_{&outermost} {}

  /// Moves all modules of the schedule of a nested module into this one.
  void take_in(UnitSchedule& below);
  /// Sorts the units whose shards lie in files by the order of the outermost module's parameters,
  /// in which optimizers step them.
  void order_disk();
  /// All units whose shards lie in files.
  const std::shared_ptr<DiskOrder>& disk_order() const { return disk_order_; }
  /// Removes a sharded module that ends.
  void remove(const ShardedModule& sharded);
  /// All sharded modules: the outermost one first, the others in an order that is the same on all
  /// ranks.
  const std::vector<ShardedModule*>& modules() const { return modules_; }
  /// Whether this is the state of the outermost module, whose units stay gathered from forward to
  /// backward.
  bool is_outermost(const ModuleState& state) const;
  bool in_forward() const { return in_forward_; }
  bool in_backward() const { return in_backward_; }

  /// Called when the outermost module's forward begins: returns to the state between two steps,
  /// except for units that unshard() has gathered.
  void begin_forward();
  /// Called when a module's units are gathered for its forward: begins to gather the units used
  /// next.
  void prefetch_forward(ModuleState& state);
  /// Called when the outermost module's forward has ended.
  void end_forward() { in_forward_ = false; }
  /// Watches the recorded graph that has these outputs. When no watched graph exists any more, and
  /// no pass is running, the modules show their shards.
  void watch_graph(const nn::Tensors& outputs);

  /// Called by modules during a backward pass; only the first call of a pass has an effect.
  void begin_backward();
  /// Called when a module's units are gathered for its backward: begins to gather the units used
  /// next, which forward used before.
  void prefetch_backward(ModuleState& state);
  /// Called when a parameter got its gradient in the current pass.
  void touch() { touched_ = true; }
  /// Averages gradients that are complete or that earlier passes have left, waits for all
  /// reductions, and frees the units.
  void end_backward();
  /// Averages gradients that earlier passes have left, if there are any, as end_backward() does.
  void average_unreduced();

  /// \name Reductions under way, of all modules
  /// \{
  /// Waits for gradients that are being copied to the offload target.
  void add_arrived();
  /// Waits for the earlier reductions, so that their buckets are freed; all-reduces over replicas
  /// continue.
  void advance();
  void add(ShardedModule& sharded, Unit& unit) { reducing_.push_back({&sharded, &unit}); }
  void advance_hooks();
  /// Waits for all reductions.
  void end_reductions();
  /// \}

  /// Returns to the state between two steps: nothing is gathered, and no call is under way.
  /// `keep_held`: units that unshard() has gathered stay.
  void reset(bool keep_held);
  /// Makes the modules show their shards; whole parameters stay gathered for the backward that
  /// follows.
  void rest();

 private:
  class Graph;
  struct Reduction {
    ShardedModule* owner;
    Unit* unit;
  };

  std::vector<ModuleState*> ahead(const std::vector<ModuleState*>& order, int depth) const;
  template <class Iterator>
  void gather_ahead(Iterator at, Iterator end, int depth);
  void end_reduction(const Reduction& reduction);

  std::vector<ShardedModule*> modules_;
  std::shared_ptr<DiskOrder> disk_order_ = std::make_shared<DiskOrder>();
  // Modules in the order of forward, in this pass and the last.
  std::vector<ModuleState*> order_, former_order_;
  std::vector<Reduction> reducing_;
  std::vector<Reduction>
      arriving_;  // those whose averaged gradients are being copied to the offload target
  std::atomic<int> graphs_ = 0;  // number of watched graphs that exist
  bool in_forward_ = false;
  bool in_backward_ = false;
  bool touched_ = false;
};

}  // namespace hero::dist
