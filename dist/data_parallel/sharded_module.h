#pragma once
// ShardedModule: one rank's copy of a module that several ranks train, each on its own part of the
// batch. Its hooks tell the schedule (dist/data_parallel/unit_schedule.h) how far a step is, which
// says when units gather, free and reduce; dist/data_parallel/unit.h does it.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/autograd/sharding/unreduced_gradients.h>
#include <hero/dist/data_parallel.h>
#include <hero/dist/data_parallel/unit_schedule.h>

namespace hero::dist {

/// What to do with a parameter that gets no gradient in a backward pass that is to be averaged.
enum class Unused : uint8_t {
  error,  ///< an Error that names it
  agree,  ///< the ranks ask each other; one that none of them used keeps no gradient
  same,   ///< all ranks leave out the same ones; where they do not, the collective's Error says so
};

struct ShardedModuleOptions {
  UnitOptions units;
  Unused unused = Unused::same;
  bool reshard_after_forward = true;
  int prefetch = 1;                 ///< units that are gathered ahead
  bool broadcast_buffers = false;   ///< rank 0's, when a pass in training has changed them
  int64_t rebuild_bytes = 0;        ///< DDP: buckets of this size in the order of readiness
  int64_t rebuild_first_bytes = 0;  ///< the first bucket's size
  std::optional<DType> output_dtype = {};
  std::vector<std::string> alone = {};  ///< names of parameters that stay as each rank has them
  std::vector<std::string> alone_modules = {};  ///< paths of modules whose buffers do
};

/// Several modules that are sharded together, as if one contained them: "0", "1" and so on. It is
/// never called itself.
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
  /// One that was made before, and the paths at which its modules lie below another one.
  struct Nested {
    std::vector<std::string> paths;
    std::shared_ptr<ShardedModule> module;
  };

  ShardedModule(nn::Module& module, Groups groups, const ShardedModuleOptions& options);
  /// Of several modules, whose parameters are one unit, which `group` names.
  ShardedModule(std::unique_ptr<ModuleGroup> group, const std::vector<nn::Module*>& modules,
                Groups groups, const ShardedModuleOptions& options);
  ~ShardedModule() override { schedule_->remove(*this); }

  /// Adds a unit that is gathered at `module`; the root module is the first to be named.
  void add_unit(nn::Module& module, std::string name, std::vector<UnitParameter> parameters);
  /// Hangs everything on the module. Called once, with a shared_ptr alive.
  void install();

  /// An Error if the module is not there any more.
  nn::Module& module() const;
  /// The module, or those of a group.
  const std::vector<nn::Module*>& modules() const { return module_states_.front()->modules; }
  const Groups& groups() const { return options_.units.groups; }
  const ShardedModuleOptions& options() const { return options_; }
  UnitSchedule& schedule() const { return *schedule_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// Parameters between two steps are shards.
  bool shards() const { return options_.units.stage != Stage::none; }
  /// The dtypes of gathered parameters, to which floating inputs are converted, and of outputs;
  /// absent: those of the parameters.
  std::optional<DType> gathered_dtype() const { return options_.units.gathered; }
  std::optional<DType> output_dtype() const { return options_.output_dtype; }
  /// All ranks' parts of the parameter of which a leaf is a shard; nothing where the leaf is none
  /// of this module, or was one box of several before, whose other parts are not cut by it.
  std::optional<std::vector<HeldPart>> parts_of(const Tensor& leaf) const;
  /// What an optimizer holds of the parameter in a slot.
  Tensor leaf_of(const nn::Slot& slot) const;
  /// What the sum of the ranks' gradients is divided by.
  double divide_by() const {
    return options_.units.divide_by > 0.0 ? options_.units.divide_by : groups().ranks();
  }
  bool sync() const { return sync_ && no_syncs_ == 0; }
  void set_sync(bool on) { sync_ = on; }
  /// NoSync objects that live, and may end in any order: one more or one less.
  void count_no_sync(int by) { no_syncs_ += by; }
  /// What units at the module at a path and below it do; see ModulePolicy. `what` is the name of
  /// the function, for errors. Gradients are averaged where both this and set_sync() say so.
  void set_policy(const char* what, const std::string& path, bool ModulePolicy::*flag, bool on);
  /// The same of a list of modules, by their paths, of the units at this path.
  void set_prefetch(const char* what, const std::string& path,
                    std::optional<std::vector<ModuleState*>> ModulePolicy::*list,
                    const std::vector<std::string>& modules);
  /// The same on for the units of these modules and of those below them, off for all others.
  void set_sync_only(const std::vector<nn::Module*>& modules);
  /// Off: a hybrid adds up gradients within each group of shards alone, until it is on.
  void set_all_reduce(bool on) { all_reduce_ = on; }
  /// On: units that are gathered stay so over any number of forwards and backwards. Off: the next
  /// forward, or reset(), frees them.
  void keep_gathered(bool on) { keeps_gathered_ = on; }
  /// False: every unit is gathered once a step.
  bool reshards_after_forward() const;
  /// Begins to gather the units at and below a path, for the forward to come; frees them.
  void unshard(const std::string& path);
  void reshard(const std::string& path);
  void set_events(std::function<void(const Event&)> fn) { events_ = std::move(fn); }
  /// Buckets go by a hook from now on, in the reverse order of registration; see
  /// DDP::register_comm_hook(). A collective.
  void set_hook(CommHook hook);
  /// On: backward leaves gradients as this rank has them, from now on.
  void keep_gradients_local(bool on) { gradients_stay_ = on; }
  /// Takes in the sharded module at a path below this one's, or of a group of them, with those
  /// below it: from now on
  /// they share one schedule, and nothing of it stays gathered between forward and backward.
  void nest(Nested below);
  bool is_nested() const { return is_nested_; }
  /// This one and all that are nested in it.
  std::vector<ShardedModule*> all();
  /// See DataParallel::join().
  void join(const std::function<void()>& body, const std::function<void()>& step);
  /// Brings everything between two steps, of all that share the schedule: nothing gathered, nothing
  /// under way.
  void reset() { schedule_->reset(false); }
  /// What is gathered in the place of shards for a backward that may come is no longer shown.
  void rest();
  /// Lets the module see these flat parameters, one a unit, until hide().
  void show(const std::vector<Array>& flat_parameters);
  void hide();
  /// An Error while it does: `what` would write over what is written there, or see none of it.
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

  /// \name As what averages the gradients of parameters that are whole
  /// \{
  std::string describe_reducer() const override;
  std::vector<int> averaging_ranks() const override;
  double average_loss(double loss, const char* op) override;
  int64_t largest(int64_t number, const char* op) override;
  /// Nothing while each rank goes by its own gradients, as under no_sync().
  void declare(const std::string& what) override {
    if (averages()) owners_->declare(what);
  }
  /// \}

 private:
  friend class UnitSchedule;

  // Where one parameter is: its unit, its place there, the module at which that is gathered.
  struct ParameterEntry {
    Unit* unit;
    UnitParameter* parameter;
    ModuleState* state;
  };

  // A parameter that was frozen when DDP or ZeRO took the module, so that no unit has it.
  struct Frozen {
    std::string name;
    Tensor tensor;
    uint32_t seen;  // its version when a forward began
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
  void declare_writes();
  void watch(UnitParameter& parameter);
  void save_previous_grads();
  void restore_previous_grads();
  void keep_parameters();
  void offer_refills();
  const UnitParameter* parameter_of(const Tensor& tensor) const;
  bool has_one_of(const Unit& unit, const std::vector<Tensor>& leaves) const;

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
  bool complete(const Unit& unit) const;
  /// Gradients of the backward that runs are averaged.
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

  std::unique_ptr<ModuleGroup> group_;  // of several modules; or null
  nn::Module* module_;                  // or the group
  ShardedModuleOptions options_;
  std::shared_ptr<GroupOwners> owners_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<ModuleState>> module_states_;  // the root's first
  std::vector<ParameterEntry> parameters_;  // of every parameter, by UnitParameter::id
  std::unordered_map<const detail::TensorImpl*, size_t> known_;  // their leaves, with the ids
  std::vector<Frozen> frozen_;
  std::string frozen_writes_;                        // of forwards, which no rank was told of yet
  std::unordered_set<const nn::Slot*> known_slots_;  // and where the module has them
  std::shared_ptr<UnitSchedule> schedule_;
  std::vector<size_t> ready_order_;  // of the first backward, for rebuild_buckets()
  std::shared_ptr<const CommHook> hook_;
  std::function<void(const Event&)> events_;
  std::vector<Nested> nested_;
  std::vector<std::unique_ptr<Refill>> refills_;  // of units that are freed
  size_t next_bucket_ = 0;
  bool sync_ = true;
  int no_syncs_ = 0;
  bool all_reduce_ = true;
  bool is_nested_ = false;
  bool gradients_stay_ = false;  // this rank's own, for an optimizer that averages by itself
  bool keeps_gathered_ = false;
  bool touched_ = false;  // a parameter got its gradient in this backward
  bool unsent_ = false;   // gradients were added up under no_sync() and not yet averaged
  bool summoned_ = false;
  bool rebuilt_ = false;
  bool joining_ = false;
  bool wrote_ = false;            // a forward wrote to parameters, which no rank was told of yet
  bool compared_values_ = false;  // those that the ranks began with
  bool shares_groups_ = false;    // with the one in which it is nested
  int buffer_root_ = 0;           // whose buffers all ranks get
  bool buffers_pending_ = false;  // a forward in training may have changed them
};

}  // namespace hero::dist
