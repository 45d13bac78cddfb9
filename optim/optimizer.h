#pragma once
// Optimizer: the base class of all optimizers, with groups of parameters, states, saving and
// resuming, and two features that it can combine with any of them: float32 masters of parameters of
// half precision, and states in a file.
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <hero/autograd/tensor.h>
#include <hero/core/functions/update.h>
#include <hero/core/safetensors.h>
#include <hero/optim/shard_layout.h>

namespace hero::core {
class SwapFile;
}

namespace hero::optim {

/// Everything an optimizer remembers, as named arrays; numbers are float64 of shape []. Save it
/// with core::save_safetensors() and load it with core::load_safetensors(path).arrays.
using StateDict = std::vector<core::NamedArray>;

class StateLookup;

namespace detail {
/// Throws an Error, with the optimizer's name and the parameter's number, unless a tensor can be
/// optimised; `twice` says that it is among those before it.
void check_parameter(const char* optimizer, size_t at, const Tensor& param, bool twice);
/// Throws an Error if several elements of a parameter share one place in memory.
void check_places(const char* optimizer, size_t at, const Array& values);

/// The value as a flag (0 or 1), or as a whole number in [least, end). Throws an Error, with the
/// names of optimizer and option, for any other value.
bool flag_of(const char* optimizer, const char* option, double value);
double whole_number_of(const char* optimizer, const char* option, double value, double least,
                       double end);

/// One option of an Options struct as data: its name, and how it is read and written as a number.
/// Flags are 0 and 1.
struct OptionField {
  const char* name;
  void* at;
  double (*read)(const void* at);
  void (*write)(void* at, const char* optimizer, const char* option, double value);
};
using OptionFields = std::vector<OptionField>;
void add_field(OptionFields& fields, const OptionField& field);
template <class T>
void add_option(OptionFields& fields, const char* name, T& field) {
  constexpr auto read = [](const void* at) {
    return static_cast<double>(*static_cast<const T*>(at));
  };
  constexpr auto write = [](void* at, const char* optimizer, const char* option, double value) {
    T& to = *static_cast<T*>(at);
    if constexpr (std::is_same_v<T, bool>) {
      to = flag_of(optimizer, option, value);
    } else if constexpr (std::is_integral_v<T>) {
      // A cast of a value outside of T's range would be undefined.
      constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
      constexpr auto kEnd = static_cast<double>(std::numeric_limits<T>::max()) + 1.0;
      to = static_cast<T>(whole_number_of(optimizer, option, value, kLeast, kEnd));
    } else {
      to = static_cast<T>(value);
    }
  };
  add_field(fields, {name, &field, read, write});
}
}  // namespace detail

/// Options of Optimizer::page_states().
struct PagedOptions {
  /// Bytes of states that are read, stepped and written together.
  int64_t window_bytes = int64_t{256} << 20;
};

/// Parameters with options of their own.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;  ///< the parameters of the group, each a leaf of floating dtype
  Options options = {};        ///< the options of these parameters
};

/// Updates parameters by their gradients. Parameters are leaves of floating dtype; those without a
/// gradient are left alone. States are made at a parameter's first step, in its shape (in float32
/// if the parameter is float16 or bfloat16), and are charged to MemoryTag::optimizer.
///
/// A shard is a parameter like any other: a leaf over a slice of an array, which may be empty, with
/// a slice of the gradient. Steps are elementwise, so shards that are stepped one by one get the
/// bits of the whole; LAMB needs norms over all slices, and Muon and Adafactor gather the slices,
/// in collectives of their owners (<hero/autograd/sharding/partition.h>).
///
/// States follow their parameter: if it has been converted to another dtype, moved to another
/// device or cut into shards since its last step, so are they at the next step() or state_dict(),
/// and training continues bitwise as with an optimizer that always had such states. A shard's
/// states are those of its elements; states that every rank has as a whole (is_number()) stay
/// whole. An Error says what to do if states cannot follow, and changes none of them: if the
/// parameter has got elements that it did not hold before, or is moved from meta, where states have
/// no values.
///
/// step() gives many parameters to their device at a time, so that a GPU steps a whole model in a
/// few launches. Parameters must not overlap in memory.
///
/// A derived class defines the step of one parameter. Whether masters are stepped, and where states
/// lie, is chosen for each object, in any combination and for any class:
///
///   std::unique_ptr<optim::Optimizer> adamw = ...;
///   adamw->use_master_weights();  // float32 copies of parameters of half precision are stepped
///   adamw->page_states(disk);     // states lie in a file, and in memory during their step alone
///
/// Averages (EMA) are an object of their own, for parameters that any optimizer steps.
class Optimizer {
 public:
  virtual ~Optimizer();

  /// Removes the gradients of all parameters, or fills them with zeros if set_to_none is false.
  void zero_grad(bool set_to_none = true);
  /// Updates every parameter that has a gradient, once.
  virtual void step();

  /// \name What GradScaler needs
  /// \{
  /// True when every element of every gradient is finite.
  virtual bool gradients_finite() const;
  /// Multiplies every gradient by factor. Throws an Error for gradients in float16, of which small
  /// values would be lost.
  void scale_gradients(double factor);
  /// Does what scale_gradients(factor) and then step() do.
  void step_scaled(double factor);
  /// \}

  /// \name Master weights
  /// \{
  /// From now on step() steps float32 copies ("masters") of the float16 and bfloat16 parameters: it
  /// reads the parameters' gradients; updates the masters, with the bits that float32 parameters
  /// with the same gradients get; and rounds the masters into the parameters. It does all three in
  /// one pass if the optimizer is elementwise, as all of optim's are but LAMB, Adafactor and Muon;
  /// otherwise it converts no more gradients at a time than the largest parameter has. Parameters
  /// of other dtypes are their own masters. Does nothing if it was called before. Throws an Error
  /// for optimizers that also write parameters other than by update(): LBFGS, NesterovLookahead,
  /// EMA and the 1-bit optimizers.
  ///
  /// Masters follow their parameters as states do: if the model is converted, moved or cut between
  /// two steps, the masters keep their precision. A model that is converted to bfloat16 gets
  /// masters, and one that is converted from it to float32 or float64 keeps them in that dtype:
  /// they have the digits that the parameters get at the next step. parameters() returns the
  /// masters, and state_dict() contains them as "master.<parameter>". Micikevicius et al., arXiv
  /// 1710.03740.
  void use_master_weights();
  /// True if use_master_weights() was called.
  bool has_master_weights() const { return masters_ != nullptr; }
  /// Copies the parameters' values into the masters. Call it after something else has written to
  /// the parameters, such as a loaded checkpoint, or a DDP that sent rank 0's first values. Before
  /// the first step it is not needed for parameters that were converted or sharded: their masters
  /// take over the new values anyway. Does nothing without masters.
  void refresh();
  /// Moves the gradients, converted to float32, to the masters, so that
  /// clip_grad_norm(parameters()) sees them; GradScaler::unscale_() does so too. It takes 4 bytes
  /// for each element, which step() alone does not. Does nothing without masters.
  void take_gradients();
  /// \}

  /// From now on states, masters among them, lie in `file`, which must outlive the optimizer. A
  /// step reads them window by window; while one window is stepped, the next is read and the
  /// previous one is written, so at most three windows of `window_bytes` (or of the largest
  /// parameter's states) are in memory, and none is between two steps. The bits are those of states
  /// in memory, because the same numbers are stepped in the same order. A step reads and writes the
  /// states of every window that has a gradient once: 8 bytes per element for AdamW and 12 with
  /// masters, in whole blocks of 4 KiB per state.
  ///
  ///   core::SwapFile disk("/nvme", {.bytes = int64_t{200} << 30});
  ///   optim::AdamW adamw(model.parameters(), {.lr = 3e-4});
  ///   adamw.page_states(disk);
  ///
  /// If the disk fails during a step, an Error says so; it is then unknown which parameters were
  /// stepped, and you have to resume from a checkpoint. state_dict() and load_state_dict() have all
  /// states in memory while they run, and so has a step after parameters were converted or cut.
  /// Throws an Error if states are paged already, for a window of no byte, and for optimizers that
  /// need the states of several parameters at once: LAMB, and those that can have no masters.
  /// Rajbhandari et al., "ZeRO-Infinity", arXiv 2104.07857, section 5.1.
  void page_states(core::SwapFile& file, const PagedOptions& options = {});

  /// All parameters that are stepped, in the order of the groups: masters where there are any.
  std::vector<Tensor> parameters() const;
  /// The model's parameters, in the same order: parameters(), except where masters are stepped in
  /// their place.
  std::vector<Tensor> model_parameters() const;
  /// The number of groups.
  int groups() const { return static_cast<int>(group_ends_.size()); }
  /// \name An option of a group by its name: "lr", "momentum", "beta1", "weight_decay", ...
  /// Flags read as 0 or 1. Schedules use these.
  /// \{
  /// True if the optimizer has an option of that name.
  bool has_option(const std::string& name) const;
  /// The value of an option in a group. Throws an Error if there is no such option or group.
  double option(const std::string& name, int group = 0) const;
  /// Sets an option of a group. Throws an Error if there is no such option, or the value is out of
  /// range.
  void set_option(const std::string& name, double value, int group = 0);
  /// The learning rate of a group.
  double lr(int group = 0) const { return option("lr", group); }
  /// Sets the learning rate of every group.
  void set_lr(double lr);
  /// Sets the learning rate of one group.
  void set_lr(double lr, int group) { set_option("lr", lr, group); }
  /// \}

  /// True if this state is one number for each parameter, as "step" is, or an array that does not
  /// have the parameter's shape and that every rank has as a whole.
  virtual bool is_number(const std::string& state) const;
  /// Returns copies of all states and options, under "state.<parameter>.<name>" and
  /// "group.<group>.<option>".
  virtual StateDict state_dict() const;
  /// Restores states and options, so that training resumes with the same bits. Throws an Error if
  /// the state has more or fewer groups than the optimizer. Options other than
  /// lr that the state does not have take their defaults, since an older version may have saved it.
  /// Throws an Error that lists every name that is otherwise missing, unexpected or of the wrong
  /// shape, and then leaves the optimizer as it was.
  virtual void load_state_dict(const StateDict& dict);

 protected:
  struct Option {
    const char* name;
    double value;
  };
  struct NamedState {
    const char* name;
    Array array;
  };
  struct State {
    Tensor param;
    double steps = 0.0;  ///< steps taken; a double, as it enters formulas
    std::vector<NamedState> arrays;
    std::vector<double> numbers;
    /// Free for use by the derived class; not saved. If it has the shape of the parameter, it is
    /// moved and sharded with it, and keeps its dtype.
    Array scratch;
    bool just_made = false;  ///< arrays were made in this step
    Array low;               ///< the 16-bit copy that this step sets; see low_of()
    ShardLayout layout;      ///< the elements of the parameter to which the arrays belong
  };

  /// For derived classes; `name` names the optimizer in errors.
  explicit Optimizer(const char* name);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Adds a group after checking its parameters; adds nothing if it throws. If states lie in a
  /// file, params_added() must be called when the group has its options, too.
  void add_params(const std::vector<Tensor>& params);
  /// Makes room in the file for the states of parameters that were added.
  void params_added();
  /// Throws an Error if a group of these parameters cannot be added now. Constructors call only the
  /// version of this class.
  virtual void check_group(const std::vector<Tensor>& /*params*/) const {}
  /// Throws an Error unless a state has as many groups as the optimizer.
  void check_groups(const StateDict& dict) const;
  /// Throws unless there is a parameter.
  void check_any() const;

  virtual std::vector<Option> list_options(int group) const = 0;
  /// The same options with their default values, which are used for options that a loaded state
  /// lacks. This version returns the present values.
  virtual std::vector<Option> default_options(int group) const { return list_options(group); }
  /// Calls `change` with the options of a group, to modify them. If it or the check of the new
  /// values throws, the options stay as they were.
  virtual void change_options(int group,
                              const std::function<void(const detail::OptionFields&)>& change) = 0;
  /// The names and values of these fields.
  static std::vector<Option> values_of(const detail::OptionFields& fields);
  /// The names of the arrays in the state of a parameter, given its group's options.
  virtual std::vector<const char*> array_names(int group) const = 0;
  /// The shape of such an array for a parameter of shape `param`: the shape of the whole parameter
  /// if is_number() is true of the state, else that of the leaf.
  virtual Shape array_shape(const char* /*name*/, const Shape& param) const { return param; }
  /// The names of the numbers in the state beside "step", the same in all groups.
  virtual std::vector<const char*> number_names() const { return {}; }
  /// The smallest and the largest value that such a number may have in a state that is loaded.
  virtual std::array<double, 2> number_range(const char* /*name*/) const {
    constexpr double kMost = std::numeric_limits<double>::max();
    return {-kMost, kMost};
  }
  /// The initial value of an array's elements or of a number; 0 unless a class overrides it.
  virtual double first_value(int /*group*/, const char* /*name*/) const { return 0.0; }
  /// Makes the step of one parameter, or hands it to run(); state.steps already counts this step.
  virtual void update(int group, State& state, const Array& grad) = 0;

  /// False for a class whose step() reads no gradient of a parameter, and so loses none.
  virtual bool steps_by_gradients() const { return true; }
  /// What step() gives to update() for a parameter that is its own master: its gradient; undefined
  /// if there is none, so that the parameter is not stepped.
  virtual Array gradient_of(int param) const;
  /// True for a class whose update() hands the gradient to run() and does not read it elsewhere.
  virtual bool is_elementwise() const { return false; }
  /// Why the optimizer cannot be combined with masters, for an Error; null if it can.
  virtual const char* no_master_weights() const { return nullptr; }
  /// Why its states cannot lie in a file, for an Error; null if they can.
  virtual const char* no_pages() const { return no_master_weights(); }
  /// Called whenever a batch of what was handed to run() has run, once or more in a step.
  virtual void batch_done() {}
  /// Called after the last batch of a step, unless there was an error.
  virtual void step_done() {}

  /// Makes states fit their parameters: those that were converted, moved or cut since they were
  /// made. step() and state_dict() begin with it; a class calls it itself where it reads states
  /// elsewhere. Throws an Error, before any state changes, if one cannot follow its parameter.
  virtual void follow() const;
  /// Makes the arrays and numbers that do not exist yet: at the first step, or after an option that
  /// needs them was switched on.
  void prepare(int group, State& state);
  /// Queues the functor F to run over a parameter and the arrays of its state. It runs together
  /// with others before step() returns, and the arrays must live until then; the gradient does.
  template <class F>
  void run(const typename F::template Step<double>& step, const State& state, const Array& grad) {
    std::array<const Array*, static_cast<size_t>(F::states)> arrays;
    for (size_t i = 0; i < arrays.size(); ++i) arrays[i] = &state.arrays.at(i).array;
    run<F>(step, state, grad, arrays);
  }
  /// Does the same with other arrays than those of the state.
  template <class F>
  void run(const typename F::template Step<double>& step, const State& state, const Array& grad,
           std::span<const Array* const> arrays) {
    batch_.add<F>(step, state.param.array(), grad, arrays, nullptr,
                  state.low.defined() ? &state.low : nullptr);
  }
  /// Runs at once everything that was handed to run(), then calls batch_done().
  void run_batch();
  /// \name Parts of state_dict() and load_state_dict().
  /// \{
  void assign_options(int group, const std::vector<Option>& options);
  void add_options(StateDict& dict) const;
  void load_options(StateLookup& lookup);
  /// Runs body, and restores all options if it throws.
  void keep_options(const std::function<void()>& body);
  /// \}
  /// The index of a group; throws if there is no such group.
  size_t group_at(int group) const;
  int group_begin(int group) const { return group == 0 ? 0 : group_ends_[group_at(group) - 1]; }
  int group_end(int group) const { return group_ends_[group_at(group)]; }
  State& state(int param) { return states_[static_cast<size_t>(param)]; }
  const State& state(int param) const { return states_[static_cast<size_t>(param)]; }
  const char* name() const { return name_; }

 private:
  class Masters;  // of masters.cpp and pages.cpp
  class Pages;

  State read_state(StateLookup& lookup, int group, size_t at) const;
  bool fits(const State& state) const;
  void check_can_follow(size_t at) const;
  void fit(State& state) const;
  Array fresh_array(int group, const char* array, const Tensor& param) const;
  Shape state_shape(const char* array, const Tensor& param) const;
  bool states_behind() const;
  void states_follow() const;
  // Calls body, which changes states, with all of them in memory.
  void with_all_states(const std::function<void()>& body) const;
  void load_states(const StateDict& dict);
  void step_in_memory();
  void step_params();
  void step_param(int group, int param);
  void finish_step();
  void finish_param(int param);
  void step_again(const std::vector<int>& params);
  std::vector<double> all_options() const;

  const char* name_;
  mutable std::vector<State> states_;  // follow their parameters when they are read, see follow()
  std::vector<int> group_ends_;
  std::unordered_set<const hero::detail::TensorImpl*> known_;  // the model's parameters
  std::unique_ptr<Masters> masters_;  // null: parameters are stepped themselves
  std::unique_ptr<Pages> pages_;      // null: states are in memory
  // Of the step now running: updates that wait to be run together, their gradients, and the
  // parameters stepped.
  core::UpdateBatch batch_;
  std::vector<Array> gradients_;
  std::vector<int> stepped_;
};

/// An optimizer whose groups each have an Options struct. For each optimizer of the library, its
/// .cpp file instantiates this class (`template class OptimizerOf<SGDOptions>;`), and its header
/// declares that (`extern template class ...`), so that the sources of users do not compile these
/// virtual functions again. An optimizer of your own needs neither, because the class is complete
/// here.
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  /// The options of a group; lr and the others may be changed between steps.
  Options& options(int group = 0) { return options_[group_at(group)]; }
  /// The options of a group, to read.
  const Options& options(int group = 0) const { return options_[group_at(group)]; }

  /// Adds a group of parameters, with options of its own, to those that the optimizer has:
  /// parameters that are trained from now on, such as those of a layer that was frozen. States of
  /// other groups stay as they are. Throws an Error, and adds nothing, if options are out of range,
  /// if a constructor would refuse the parameters, if the optimizer already has one of them, or if
  /// it treats its parameters as one vector (LBFGS and the 1-bit optimizers). Load a state that was
  /// saved with fewer groups before you add the group.
  /// \snippet test_examples_optim.cpp add_param_group
  virtual void add_param_group(const Group& group) {
    group.options.check_values();
    if (options_.size() == options_.capacity()) options_.reserve(2 * options_.size() + 1);
    this->add_params(group.params);
    options_.push_back(group.options);
    this->params_added();
  }

 protected:
  /// Makes one group of these parameters, with these options.
  OptimizerOf(const char* name, const std::vector<Tensor>& params, const Options& options)
      : OptimizerOf(name, std::vector<Group>{Group{params, options}}) {}
  /// Makes these groups. Throws an Error for options out of range, or if there is no parameter.
  OptimizerOf(const char* name, const std::vector<Group>& groups) : Optimizer(name) {
    for (const Group& group : groups) {
      group.options.check_values();
      options_.push_back(group.options);
      add_params(group.params);
    }
    check_any();
  }

  std::vector<Option> list_options(int group) const override {
    Options copy = options(group);
    return values_of(fields_of(copy));
  }
  std::vector<Option> default_options(int) const override {
    Options defaults;
    return values_of(fields_of(defaults));
  }
  void change_options(int group,
                      const std::function<void(const detail::OptionFields&)>& change) override {
    Options changed = options(group);
    change(fields_of(changed));
    changed.check_values();
    options(group) = changed;
  }

 private:
  [[gnu::noinline]] static detail::OptionFields fields_of(Options& options) {
    detail::OptionFields fields;
    Options::each(options, [&](const char* option, auto& field) {
      detail::add_option(fields, option, field);
    });
    return fields;
  }

  std::vector<Options> options_;
};

}  // namespace hero::optim
