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

/// What a program says of the units at a module, by its path.
struct ModulePolicy {
  bool sync = true;                    ///< gradients are averaged over the ranks
  bool all_reduce = true;              ///< in a hybrid, over the replicas, too
  bool reshard_after_forward = true;   ///< whole parameters are freed after forward
  bool reshard_after_backward = true;  ///< and after backward
  /// What is gathered when its forward or backward begins, in place of what the order says.
  std::optional<std::vector<ModuleState*>> forward_prefetch = {}, backward_prefetch = {};
};

/// A module, or several whose parameters are one unit, around whose forward and backward units are
/// gathered, and how far these passes are.
struct ModuleState {
  ShardedModule* owner = nullptr;  ///< whose units they are
  std::vector<nn::Module*> modules = {};
  std::vector<Unit*> units = {};
  std::vector<bool> passed = {};  ///< modules whose forward has run since the first of them began
  int begun = 0;  ///< of its forwards, those whose backward has begun in the pass now running
  int ended = 0;  ///< and those whose backward has come through to the module's inputs
  bool entered = false;  ///< a forward that is recorded has come through the module's hooks
  bool held = false;     ///< gathered by unshard(), for the forward to come
  ModulePolicy policy = {};
};

/// What the modules share that were given to fully_shard() within one outermost module: the order
/// in which their units are used and which are gathered ahead, the reductions under way, and which
/// pass runs. Nested calls are one model by it, as if the outermost module had been given alone
/// with a policy that names the same units. DDP, ZeRO and a module that lies in no other have one
/// of their own.
class UnitSchedule : public std::enable_shared_from_this<UnitSchedule> {
 public:
  explicit UnitSchedule(ShardedModule& outermost) : modules_{&outermost} {}

  /// Takes in the modules of the schedule of a module below; it is empty afterwards.
  void take_in(UnitSchedule& below);
  /// Puts the units whose shards lie in files in the order in which the outermost module has their
  /// parameters, which is that of optimizers.
  void order_disk();
  /// Of all units, those whose shards lie in files.
  const std::shared_ptr<DiskOrder>& disk_order() const { return disk_order_; }
  /// The module is no more.
  void remove(const ShardedModule& sharded);
  /// The outermost one first, the others in an order that is the same on all ranks.
  const std::vector<ShardedModule*>& modules() const { return modules_; }
  /// The state of the outermost module, whose units stay gathered from forward to backward.
  bool is_outermost(const ModuleState& state) const;
  bool in_forward() const { return in_forward_; }
  bool in_backward() const { return in_backward_; }

  /// The outermost module's forward begins: everything is as between two steps, but for what
  /// unshard() gathered.
  void begin_forward();
  /// A module's units are gathered for its forward: begins to gather what comes behind it.
  void prefetch_forward(ModuleState& state);
  /// The outermost module's forward has ended.
  void end_forward() { in_forward_ = false; }
  /// The graph of a forward was recorded, of which these are outputs: while none of its kind is
  /// left, and no pass runs, the modules show their shards.
  void watch_graph(const nn::Tensors& outputs);

  /// A backward pass is running; only the first of the pass to say so counts.
  void begin_backward();
  /// A module's units are gathered for its backward: begins to gather what comes before it.
  void prefetch_backward(ModuleState& state);
  /// A parameter has its gradient in the pass that runs.
  void touch() { touched_ = true; }
  /// Averages what is complete or was left by passes before, waits for all reductions, and frees.
  void end_backward();
  /// Averages what passes before have left, as end_backward() does, if there is anything.
  void average_unreduced();

  /// \name Reductions under way, of all modules
  /// \{
  /// Waits for gradients that are on their way to where the shards lie.
  void add_arrived();
  /// Waits for the reductions that began before, so that their buckets are freed; sums over the
  /// replicas of a hybrid go on.
  void advance();
  void add(ShardedModule& sharded, Unit& unit) { reducing_.push_back({&sharded, &unit}); }
  void advance_hooks();
  /// Waits for all of them.
  void end_reductions();
  /// \}

  /// Everything is as between two steps: nothing gathered, nothing under way; `keep_held`: but for
  /// what unshard() gathered.
  void reset(bool keep_held);
  /// The modules show their shards; what is gathered stays for the backward to come.
  void rest();

 private:
  class Graph;
  struct Reduction {
    ShardedModule* owner;
    Unit* unit;
  };

  std::vector<ModuleState*> ahead(const std::vector<ModuleState*>& order, int depth) const;
  void gather_ahead(const std::vector<ModuleState*>& states, int depth);
  void end_reduction(const Reduction& reduction);

  std::vector<ShardedModule*> modules_;
  std::shared_ptr<DiskOrder> disk_order_ = std::make_shared<DiskOrder>();
  std::vector<ModuleState*> order_, former_order_;  // of forward: this pass and the one before
  std::vector<Reduction> reducing_;
  std::vector<Reduction>
      arriving_;                 // whose averaged gradients are on their way to the offload target
  std::atomic<int> graphs_ = 0;  // recorded, and not yet gone
  bool in_forward_ = false;
  bool in_backward_ = false;
  bool touched_ = false;
};

}  // namespace hero::dist
