#pragma once
// Optimizer: what all optimizers share. Parameters in groups, states, saving and resuming.
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <hero/autograd/tensor.h>
#include <hero/core/functions/update.h>
#include <hero/core/safetensors.h>
#include <hero/optim/shard_layout.h>

namespace hero::optim {

/// Everything an optimizer remembers, as named arrays; numbers are float64 of shape []. Save it
/// with core::save_safetensors() and load it with core::load_safetensors(path).arrays.
using StateDict = std::vector<core::NamedArray>;

class StateLookup;

namespace detail {
/// Throws an Error, with the optimizer's name and the parameter's number, unless a tensor can be
/// optimised beside those before it.
void check_parameter(const char* optimizer, size_t at, const Tensor& param,
                     const std::vector<Tensor>& before);
/// Throws an Error if several elements of a parameter lie in one place.
void check_places(const char* optimizer, size_t at, const Array& values);
}  // namespace detail

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
/// bits of the whole; LAMB asks the owners of the other slices for norms,
/// and Muon and Adafactor ask for the slices themselves (<hero/autograd/leaves/partition.h>).
///
/// States follow their parameter: if it has been converted to another dtype, moved to another
/// device or cut into shards since its last step, so are they at the next step() or state_dict(),
/// and training goes on with the bits of an optimizer that always had such states. A shard's states
/// are those of its elements; what every rank has as a whole stays whole. An Error says what to do
/// if states cannot follow, and changes none of them: if the parameter has got elements that it did
/// not hold before, or is moved from meta, where states have no values.
///
/// step() gives many parameters to their device at a time, so that a GPU steps a whole model in a
/// few launches. Parameters must not overlap in memory.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Removes the gradients of all parameters, or fills them with zeros if set_to_none is false.
  virtual void zero_grad(bool set_to_none = true);
  /// Updates every parameter that has a gradient, once.
  virtual void step();

  /// \name What GradScaler needs
  /// \{
  /// True when every element of every gradient is finite.
  virtual bool gradients_finite() const;
  /// Multiplies every gradient by factor. Throws an Error for gradients in float16, of which small
  /// values would be lost.
  virtual void scale_gradients(double factor);
  /// Does what scale_gradients(factor) and then step() do.
  virtual void step_scaled(double factor);
  /// \}

  /// All parameters that are stepped, in the order of the groups.
  std::vector<Tensor> parameters() const;
  /// The model's parameters, in the same order: parameters(), except where an optimizer steps
  /// copies of them, as MasterWeights does.
  virtual std::vector<Tensor> model_parameters() const { return parameters(); }
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
    /// A class's own between two calls; not saved. If it has the shape of the parameter it is moved
    /// and cut with it, and keeps its dtype.
    Array scratch;
    bool just_made = false;  ///< arrays were made in this step
    Array low;               ///< the 16-bit copy that this step sets; see low_of()
    ShardLayout layout;      ///< the elements of the parameter that arrays are for
  };

  /// For derived classes; `name` names the optimizer in errors.
  explicit Optimizer(const char* name) : name_(name) {}
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Adds a group after checking its parameters; adds nothing if it throws.
  void add_params(const std::vector<Tensor>& params);
  /// Throws an Error if the optimizer takes no group of these parameters now. Constructors call
  /// only the one of this class.
  virtual void check_group(const std::vector<Tensor>& /*params*/) const {}
  /// Throws an Error unless a state has as many groups as the optimizer.
  void check_groups(const StateDict& dict) const;
  /// Throws unless there is a parameter.
  void check_any() const;

  virtual std::vector<Option> list_options(int group) const = 0;
  /// The same options with their defaults, which they take where a loaded state lacks them. A class
  /// that does not know any keeps the present values.
  virtual std::vector<Option> default_options(int group) const { return list_options(group); }
  /// Sets an option. Returns false if there is none of that name; throws if the value is out of
  /// range.
  virtual bool assign_option(int group, const std::string& name, double value) = 0;
  /// Sets several options of a group, which may fit only together; all or none of them.
  virtual void assign_options(int group, const std::vector<Option>& options) {
    for (const Option& option : options) assign_option(group, option.name, option.value);
  }
  /// The names of the arrays in the state of a parameter, given its group's options.
  virtual std::vector<const char*> array_names(int group) const = 0;
  /// The shape of such an array for a parameter of shape `param`: the shape of the whole parameter
  /// if is_number() is true of the state, else that of the leaf.
  virtual Shape array_shape(const char* /*name*/, const Shape& param) const { return param; }
  /// The names of the numbers in the state beside "step".
  virtual std::vector<const char*> number_names(int) const { return {}; }
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
  /// The gradient that step() uses for a parameter; undefined if there is none.
  virtual Array gradient_of(int param) const;
  /// The bytes that gradient_of() allocates; 0 if the gradient is there already. step() has no more
  /// of these in memory at a time than the largest parameter needs.
  virtual int64_t gradient_bytes(int /*param*/) const { return 0; }
  /// True for a class whose update() hands the gradient to run() and does not read it elsewhere.
  virtual bool is_elementwise() const { return false; }
  /// For elementwise classes: a contiguous 16-bit copy of a float32 parameter, which the pass of
  /// the step sets, and whose dtype gradient_of() has; undefined if there is none.
  virtual Array low_of(int /*param*/) const { return {}; }
  /// Called before the step of a parameter that has a gradient; its states may not exist yet.
  virtual void entered(int /*param*/) {}
  /// Called whenever a batch of what was handed to run() has run, once or more in a step.
  virtual void batch_done() {}
  /// Called after the last batch of a step, unless there was an error.
  virtual void step_done() {}
  /// Called for each parameter that was stepped, after all of them have been.
  virtual void updated(int /*param*/) {}

  /// True if states do not fit their parameters: one was converted, moved or cut since they were
  /// made.
  virtual bool is_behind() const;
  /// Makes states fit their parameters. step() and state_dict() begin with it; a class calls it
  /// itself where it reads states elsewhere. Throws an Error, before any state changes, if one
  /// cannot follow its parameter.
  virtual void follow() const;
  /// Steps `leaf` in place of what was stepped; its state stays, and follow() makes it fit.
  void set_param(int param, const Tensor& leaf) const {
    states_[static_cast<size_t>(param)].param = leaf;
  }
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
  State read_state(StateLookup& lookup, int group, size_t at) const;
  bool fits(const State& state) const;
  void check_can_follow(size_t at) const;
  void fit(State& state) const;
  Array fresh_array(int group, const char* array, const Tensor& param) const;
  Shape state_shape(const char* array, const Tensor& param) const;
  void step_params();
  void step_param(int group, int param);
  void finish_step();
  void step_again(const std::vector<int>& params);
  std::vector<double> all_options() const;

  const char* name_;
  mutable std::vector<State> states_;  // that follow their parameters when they are asked for
  std::vector<int> group_ends_;
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

  /// Adds a group of parameters, with options of its own, to those that the optimizer has: what is
  /// trained from now on, such as a layer that was frozen. States of other groups stay as they are.
  /// Throws an Error, and then adds nothing, for options out of range, for parameters that a
  /// constructor refuses or that the optimizer has already, and by optimizers whose parameters form
  /// one vector (LBFGS, OneBitAdam and its kin). A state of fewer groups is loaded before.
  /// \snippet test_examples_optim.cpp add_param_group
  virtual void add_param_group(const Group& group) {
    group.options.check_values();
    options_.reserve(options_.size() + 1);
    this->add_params(group.params);
    options_.push_back(group.options);
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

  std::vector<Option> list_options(int group) const override { return list(options(group)); }
  std::vector<Option> default_options(int) const override { return list(Options{}); }
  bool assign_option(int group, const std::string& option, double value) override {
    Options changed = options(group);
    if (!assign(changed, option, value)) return false;
    changed.check_values();
    options(group) = changed;
    return true;
  }
  void assign_options(int group, const std::vector<Option>& list) override {
    Options changed = options(group);
    for (const Option& option : list) assign(changed, option.name, option.value);
    changed.check_values();
    options(group) = changed;
  }

 private:
  static std::vector<Option> list(const Options& options) {
    std::vector<Option> result;
    Options::each(options, [&](const char* option, const auto& value) {
      result.push_back({option, static_cast<double>(value)});
    });
    return result;
  }
  // False if there is no option of that name.
  bool assign(Options& options, const std::string& option, double value) const {
    bool found = false;
    Options::each(options, [&]<class T>(const char* each, T& field) {
      if (option != each) return;
      found = true;
      if constexpr (std::is_same_v<T, bool>) {
        check(value == 0.0 || value == 1.0, name(), ": ", option, " is a flag, 0 or 1: ", value);
        field = value != 0.0;
      } else if constexpr (std::is_integral_v<T>) {
        // A cast of what T does not hold would be undefined; NaN passes no comparison.
        constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
        constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
        check(value >= kLeast && value < kMost + 1.0 && value == std::floor(value), name(), ": ",
              option, " is a whole number: ", value);
        field = static_cast<T>(value);
      } else {
        field = static_cast<T>(value);
      }
    });
    return found;
  }

  std::vector<Options> options_;
};

}  // namespace hero::optim
