#pragma once
// ShardedModule: one rank's copy of a module that several ranks train, each on its own part of the
// batch. Its hooks report the progress of forward and backward to the schedule
// (dist/data_parallel/unit_schedule.h), which decides when units are gathered, freed and reduced; a
// unit itself is in dist/data_parallel/unit.h.
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/autograd/sharding/unreduced_gradients.h>
#include <hero/dist/data_parallel.h>
#include <hero/dist/data_parallel/unit_schedule.h>

namespace hero::dist {

/// Names of parameters.
using SlotNames = std::set<std::string>;

/// Paths of modules. What lies below one of them is found by its own path.
class ModulePaths {
 public:
  ModulePaths() = default;
  explicit ModulePaths(const std::vector<std::string>& paths)
      : paths_(paths.begin(), paths.end()) {}
  void add(const std::string& path) { paths_.insert(path); }
  /// Whether a name or path lies below one of the paths; everything but "" lies below "".
  bool hold(const std::string& name) const;

 private:
  std::unordered_set<std::string> paths_;
};

/// What to do with a parameter that gets no gradient in a backward pass that is to be averaged.
enum class Unused : uint8_t {
  error,  ///< an Error that names it
  agree,  ///< the ranks agree on the parameters that none of them used; these keep no gradient
  same,   ///< all ranks must leave out the same parameters, or the collective throws an Error
};

struct ShardedModuleOptions {
  UnitOptions units;
  Unused unused = Unused::same;
  bool reshard_after_forward = true;
  int prefetch = 1;  ///< units that are gathered ahead
  /// True: rank 0 sends its buffers if a forward in training changed them.
  bool broadcast_buffers = false;
  /// DDP: size of the buckets that are rebuilt in the order in which gradients get ready
  int64_t rebuild_bytes = 0;
  int64_t rebuild_first_bytes = 0;  ///< the first bucket's size
  std::optional<DType> output_dtype = {};
  /// Names of parameters that are neither sharded nor averaged.
  SlotNames alone = {};
  /// Paths of modules whose buffers stay each rank's own.
  ModulePaths alone_modules = {};
};

/// A container for several modules that are sharded together, named "0", "1" and so on. It is never
/// called itself.
class ModuleGroup : public nn::Module {
 public:
  explicit ModuleGroup(const std::vector<nn::Module*>& modules) {
    for (nn::Module* module : modules) set(modules_++, *module);
  }
  void set(size_t i, nn::Module& module) { refer_to(std::to_string(i), module); }

 private:
  size_t modules_ = 0;
};

class ShardedModule : public ParameterOwner,
                      public HoldsUnreducedGradients,
                      public GradientReducer,
                      public std::enable_shared_from_this<ShardedModule> {
 public:
  /// A ShardedModule that was made before for modules below another one, and the paths of these
  /// modules there.
  struct Nested {
    std::vector<std::string> paths;
    std::shared_ptr<ShardedModule> module;
  };

  ShardedModule(nn::Module& module, Groups groups, const ShardedModuleOptions& options);
  /// For several modules, whose parameters are one unit; `group` contains the modules.
  ShardedModule(std::unique_ptr<ModuleGroup> group, const std::vector<nn::Module*>& modules,
                Groups groups, const ShardedModuleOptions& options);
  ~ShardedModule() override { schedule_->remove(*this); }

  /// Adds a unit that is gathered at `module`; the root module is the first to be named.
  void add_unit(nn::Module& module, std::string name, std::vector<UnitParameter> parameters);
  /// Registers the hooks on the modules. Called once, when a shared_ptr owns this object.
  void install();

  /// The module. Throws an Error if it no longer exists.
  nn::Module& module() const;
  /// The module, or the modules of a group.
  const std::vector<nn::Module*>& modules() const { return module_states_.front()->modules; }
  const Groups& groups() const { return options_.units.groups; }
  const ShardedModuleOptions& options() const { return options_; }
  UnitSchedule& schedule() const { return *schedule_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// Whether parameters are shards between two steps.
  bool shards() const { return options_.units.stage != Stage::none; }
  /// The dtypes of gathered parameters, to which floating inputs are converted, and of outputs;
  /// absent: those of the parameters.
  std::optional<DType> gathered_dtype() const { return options_.units.gathered; }
  std::optional<DType> output_dtype() const { return options_.output_dtype; }
  /// The part that each rank holds of the parameter of which `leaf` is a shard. Nothing if the leaf
  /// does not belong to this module, or if it already was a part of a larger parameter before it
  /// was sharded, since this object does not know the ranks of the other parts.
  std::optional<std::vector<HeldPart>> parts_of(const Tensor& leaf) const;
  /// The leaf that an optimizer has for the parameter in a slot.
  Tensor leaf_of(const nn::Slot& slot) const;
  /// What the sum of the ranks' gradients is divided by.
  double divide_by() const {
    return options_.units.divide_by > 0.0 ? options_.units.divide_by : groups().ranks();
  }
  bool sync() const { return sync_ && no_syncs_ == 0; }
  void set_sync(bool on) { sync_ = on; }
  /// Counts the NoSync objects that live, which may end in any order; `by` is 1 or -1.
  void count_no_sync(int by) { no_syncs_ += by; }
  /// Sets a flag of ModulePolicy for the units of the module at a path and below it. `what` is the
  /// name of the function, for errors. Gradients are averaged if both ModulePolicy::sync and
  /// set_sync() are on.
  void set_policy(const char* what, const std::string& path, bool ModulePolicy::*flag, bool on);
  /// Sets a list of ModulePolicy, given by the paths of its modules, for the units of the module at
  /// `path`.
  void set_prefetch(const char* what, const std::string& path,
                    std::optional<std::vector<ModuleState*>> ModulePolicy::*list,
                    const std::vector<std::string>& modules);
  /// Turns ModulePolicy::sync on for the units of these modules and of those below them, and off
  /// for all others.
  void set_sync_only(const std::vector<nn::Module*>& modules);
  /// Off: hybrid sharding adds up gradients only within each shard group, until it is on again.
  void set_all_reduce(bool on) { all_reduce_ = on; }
  /// On: gathered units stay gathered over any number of forward and backward passes. Off: the next
  /// forward, or reset(), frees them.
  void keep_gathered(bool on) { keeps_gathered_ = on; }
  /// False: every unit is gathered once a step.
  bool reshards_after_forward() const;
  /// unshard() begins to gather the units of the module at `path` and below it, for the next
  /// forward; reshard() frees them.
  void unshard(const std::string& path);
  void reshard(const std::string& path);
  void set_events(std::function<void(const Event&)> fn) { events_ = std::move(fn); }
  /// From now on a hook reduces the buckets, which are in the reverse order of registration; see
  /// DDP::register_comm_hook(). A collective.
  void set_hook(CommHook hook);
  /// On: from now on backward leaves this rank's own gradients, without averaging.
  void keep_gradients_local(bool on) { gradients_stay_ = on; }
  /// Takes in a sharded module (or group of modules) below this one's module, with all that are
  /// nested in it: from now on they share one schedule, and none of its units stays gathered
  /// between forward and backward.
  void nest(Nested below);
  bool is_nested() const { return is_nested_; }
  /// This sharded module and all that are nested in it.
  std::vector<ShardedModule*> all();
  /// See DataParallel::join().
  void join(const std::function<void()>& body, const std::function<void()>& step);
  /// Returns all sharded modules of the schedule to the state between two steps: nothing is
  /// gathered, and no call is under way.
  void reset() { schedule_->reset(false); }
  /// Makes the module show its shards again; whole parameters stay gathered for a backward that may
  /// follow.
  void rest();
  /// Makes the module's parameters views of these flat parameters, one for each unit, until hide().
  void show(const std::vector<Array>& flat_parameters);
  void hide();
  /// Takes over what was written to the flat parameter of a unit; see Unit::take_over_whole().
  void take_over_whole(size_t unit, const Array& whole, bool written);
  /// Tells the other ranks with the next collective what this one has written to parameters.
  void declare_writes();
  /// Throws an Error between show() and hide(), where `what` would overwrite, or not see, what is
  /// written to the whole parameters.
  void check_not_summoned(const char* what) const;

  /// \name As the owner of the parameters, where they are shards
  /// \{
  std::string describe(const Tensor& leaf) const override;
  void check_convertible(const std::vector<Tensor>& leaves,
                         std::optional<Device> device) const override;
  void convert(const std::vector<Tensor>& leaves, std::optional<DType> dtype,
               std::optional<Device> device) override;
  void clear_gradient(const Tensor& leaf, bool set_to_none) override;
  void check_averaged(const Tensor& leaf, const char* op) const override;
  void declare_gradients(const char* op) const override;
  Tensor optimizer_leaf(const Tensor& tensor) const override;
  /// \}

  std::string name_of(const Tensor& leaf) const override;
  /// \name As what averages the gradients of parameters that are whole
  /// \{
  std::string describe_reducer() const override;
  std::vector<int> averaging_ranks() const override;
  double average_loss(double loss, const char* op) override;
  int64_t largest(int64_t number, const char* op) override;
  /// Does nothing while gradients are not averaged, as under no_sync().
  void declare(const std::string& what) override {
    if (averages()) rank_group_->declare(what);
  }
  /// \}

 private:
  friend class UnitSchedule;

  // The unit of a parameter, the parameter there, and the module for which the unit is gathered.
  struct ParameterEntry {
    Unit* unit;
    UnitParameter* parameter;
    ModuleState* state;
  };

  // A parameter that was frozen when DDP or ZeRO took the module, so that no unit has it.
  struct Frozen {
    std::string name;
    Tensor tensor;
    uint32_t seen;  // version of its storage when a forward began
  };

  // forward and backward, in the order of a step
  nn::Tensors before_forward(ModuleState& state, size_t module, const nn::Tensors& inputs);
  nn::Tensors after_forward(ModuleState& state, size_t module, const nn::Tensors& outputs);
  void before_backward(ModuleState& state);
  void after_backward(ModuleState& state);
  void gradient_ready(size_t parameter);
  void fetch_again(ModuleState& state);
  void check_entered(size_t parameter) const;
  void register_hooks(ModuleState& state, size_t module);
  void note_module(ModuleState& state, size_t i, nn::Module& module);
  std::shared_ptr<void> end_of_module();
  void check_all_known() const;
  void declare_first_values();
  void note_versions(const ModuleState& state);
  void note_writes(const ModuleState& state);
  static void check_no_lost_gradient(const char* op, const UnitParameter& parameter);
  void watch(UnitParameter& parameter);
  void save_previous_grads();
  void restore_previous_grads();
  void keep_parameters();
  void offer_refills();
  const UnitParameter* parameter_of(const Tensor& tensor) const;
  // The units that hold one of these leaves, in their order.
  std::vector<Unit*> units_of(const std::vector<Tensor>& leaves) const;

  void start_forward();
  bool recomputing() const;
  void reset_own(bool threw, bool keep_held);
  std::string finish_gradients();
  void end_pass();
  bool has_unreduced() const;
  bool has_unreduced(const ParameterEntry& entry) const;
  void gather(ModuleState& state);
  void wait_unsharded(ModuleState& state);
  void free(ModuleState& state);
  void free_if_done(ModuleState& state);
  std::vector<ModuleState*> states_below(const char* what, const std::string& path) const;
  std::vector<ModuleState*> states_at(const char* what, const std::string& path) const;
  void check_between_steps(const char* what, const std::string& path, const char* why) const;
  static bool frees(const ModuleState& state);
  bool stays_gathered(const ModuleState& state) const;
  static bool stale(const ModuleState& state);
  /// Whether the current backward averages its gradients.
  bool averages() const;
  void reduce_ready(Unit& unit);
  void reduce(Unit& unit);
  AllReduce when_all_reduced(const Unit& unit) const;
  void finish_units();
  void agree_on_unused();
  std::string unused_names() const;
  std::vector<nn::Slot*> own_buffers() const;
  void broadcast_buffers();
  void broadcast_pending_buffers();
  int64_t tell_others(int64_t word);
  void tell_before_forward();
  void shadow(int64_t word, const std::function<void()>& step);
  void index_parameters();
  void rebuild_buckets();
  void make_buckets(const std::vector<int64_t>& order);
  void emit(Event::Kind kind, const Unit& unit) const;

  std::unique_ptr<ModuleGroup> group_;  // contains several modules; null for one module
  nn::Module* module_;                  // the module, or group_
  ShardedModuleOptions options_;
  std::shared_ptr<CommunicatorGroup> rank_group_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<ModuleState>> module_states_;  // the first is the root module's
  std::unordered_map<const nn::Module*, ModuleState*>
      state_at_;                            // the state of each module, by its first module
  std::vector<ParameterEntry> parameters_;  // all parameters, by UnitParameter::id
  std::unordered_map<const detail::TensorImpl*, size_t>
      known_;  // the id of each parameter, by its leaf
  std::vector<Frozen> frozen_;
  std::string frozen_writes_;  // not yet declared to the other ranks
  std::unordered_map<const nn::Slot*, size_t>
      known_slots_;  // the id of each parameter, by the slot
  std::shared_ptr<UnitSchedule> schedule_;
  // Ids in the order of the first backward, for rebuild_buckets().
  std::vector<size_t> ready_order_;
  std::shared_ptr<const CommHook> hook_;
  std::function<void(const Event&)> events_;
  std::vector<Nested> nested_;
  // Gather freed units again when autograd needs them.
  std::vector<std::unique_ptr<Refill>> refills_;
  size_t next_bucket_ = 0;
  bool sync_ = true;
  int no_syncs_ = 0;
  bool all_reduce_ = true;
  bool is_nested_ = false;
  bool gradients_stay_ = false;  // gradients are not averaged, since an optimizer averages
  bool keeps_gathered_ = false;
  bool touched_ = false;  // a parameter got its gradient in this backward
  bool unsent_ = false;   // gradients were added up under no_sync() and not yet averaged
  bool summoned_ = false;
  bool rebuilt_ = false;
  bool joining_ = false;
  bool wrote_ = false;            // a forward wrote to parameters, which is not yet declared
  bool compared_values_ = false;  // the ranks have compared their initial values
  bool shares_groups_ = false;    // it has the same groups as the module in which it is nested
  int buffer_root_ = 0;           // the rank whose buffers are sent to all
  bool buffers_pending_ = false;  // a forward in training may have changed buffers
};

}  // namespace hero::dist
