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

namespace hero::optim {

/// Everything an optimizer remembers, as named arrays: numbers are float64 of shape []. It travels
/// through core::save_safetensors and core::load_safetensors(path).arrays.
using StateDict = std::vector<core::NamedArray>;

class StateLookup;

/// Parameters with options of their own.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

/// Changes parameters from their gradients. Parameters are leaves of floating dtype; those without
/// a gradient are left alone. States are made at a parameter's first step, shaped like it (float32
/// where it is float16 or bfloat16) and charged to MemoryTag::optimizer.
///
/// A shard is a parameter like any other: a leaf over a slice of an array, which may be empty, with
/// a slice of the gradient. Steps are elementwise, so shards stepped one by one have the bits of
/// the whole; LAMB asks the owners of the other slices for norms (<hero/autograd/partition.h>).
///
/// step() gives the parameters to their device many at a time, so that a GPU steps a model's in a
/// few launches. Parameters do not overlap.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Forgets the gradients of all parameters, or fills them with zeros.
  virtual void zero_grad(bool set_to_none = true);
  /// One update of every parameter that has a gradient.
  virtual void step();

  /// \name What GradScaler needs
  /// \{
  /// True when every element of every gradient is finite.
  virtual bool gradients_finite() const;
  /// Multiplies every gradient; an Error for float16 ones, of which small values would be lost.
  virtual void scale_gradients(double factor);
  /// scale_gradients(factor) and step().
  virtual void step_scaled(double factor);
  /// \}

  /// All parameters, in the order of the groups.
  std::vector<Tensor> parameters() const;
  int groups() const { return static_cast<int>(group_ends_.size()); }
  /// \name An option of a group by its name: "lr", "momentum", "beta1", "weight_decay", ...
  /// Flags read as 0 or 1. Schedules use these.
  /// \{
  bool has_option(const std::string& name) const;
  double option(const std::string& name, int group = 0) const;
  void set_option(const std::string& name, double value, int group = 0);
  double lr(int group = 0) const { return option("lr", group); }
  /// Sets the learning rate of every group.
  void set_lr(double lr);
  void set_lr(double lr, int group) { set_option("lr", lr, group); }
  /// \}

  /// True for a state that is one number a parameter, as "step" is, or another array that is not
  /// shaped like it.
  virtual bool is_number(const std::string& state) const;
  /// Copies of all states and options: "state.<parameter>.<name>" and "group.<group>.<option>".
  virtual StateDict state_dict() const;
  /// Takes states and options over; training goes on bit for bit. An Error that lists every name
  /// that is missing, unexpected or mis-shaped leaves the optimizer as it was.
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
    Array scratch;           ///< a class's own between two calls; not saved
    bool just_made = false;  ///< arrays were made in this step
  };

  explicit Optimizer(const char* name) : name_(name) {}
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Adds a group after checking its parameters; used by constructors.
  void add_params(const std::vector<Tensor>& params);
  /// Throws unless there is a parameter.
  void check_any() const;

  virtual std::vector<Option> list_options(int group) const = 0;
  /// False when there is no such option; throws when the value is out of range.
  virtual bool assign_option(int group, const std::string& name, double value) = 0;
  /// Names of the arrays a parameter's state holds, given the group's options.
  virtual std::vector<const char*> array_names(int group) const = 0;
  /// The shape of such an array of a parameter of shape `param`.
  virtual Shape array_shape(const char* /*name*/, const Shape& param) const { return param; }
  /// Names of the numbers it holds beside "step".
  virtual std::vector<const char*> number_names(int) const { return {}; }
  /// The least and the largest value that such a number can have in a state that is loaded.
  virtual std::array<double, 2> number_range(const char* /*name*/) const {
    constexpr double kMost = std::numeric_limits<double>::max();
    return {-kMost, kMost};
  }
  /// First values of arrays and numbers; zeros unless a class says otherwise.
  virtual double first_value(int /*group*/, const char* /*name*/) const { return 0.0; }
  /// One parameter's step, taken or handed to run(); state.steps already counts it.
  virtual void update(int group, State& state, const Array& grad) = 0;

  /// The gradient that step() takes for a parameter; undefined where there is none.
  virtual Array gradient_of(int param) const;
  /// Bytes that gradient_of() takes for it; 0 where the gradient is there already. step() holds no
  /// more of them at a time than the largest parameter needs.
  virtual int64_t gradient_bytes(int /*param*/) const { return 0; }
  /// What comes before the step of a parameter that has a gradient; its states may still be made.
  virtual void entered(int /*param*/) {}
  /// What follows when a batch of what was handed to run() has run, once or more in a step.
  virtual void batch_done() {}
  /// What follows the last batch of a step; not called after an error.
  virtual void step_done() {}
  /// What follows the step of a parameter, once all are done.
  virtual void updated(int /*param*/) {}

  /// Makes the arrays and numbers that are not there yet, at the first step or when an option that
  /// needs them was switched on.
  void prepare(int group, State& state);
  /// The functor F is to run over a parameter and the arrays of its state; it does so together with
  /// others, before step() returns; until then the arrays must live. The gradient does.
  template <class F>
  void run(const typename F::template Step<double>& step, const State& state, const Array& grad) {
    std::array<const Array*, static_cast<size_t>(F::states)> arrays;
    for (size_t i = 0; i < arrays.size(); ++i) arrays[i] = &state.arrays.at(i).array;
    run<F>(step, state, grad, arrays);
  }
  /// The same over other arrays than those of the state.
  template <class F>
  void run(const typename F::template Step<double>& step, const State& state, const Array& grad,
           std::span<const Array* const> arrays) {
    batch_.add<F>(step, state.param.array(), grad, arrays);
  }
  /// Runs at once what was handed to run(), then batch_done().
  void run_batch();
  /// \name Parts of state_dict() and load_state_dict().
  /// \{
  void add_options(StateDict& dict) const;
  void load_options(StateLookup& lookup);
  /// Runs body; puts all options back when it throws.
  void keep_options(const std::function<void()>& body);
  /// \}
  /// Position of a group; throws when there is none.
  size_t group_at(int group) const;
  int group_begin(int group) const { return group == 0 ? 0 : group_ends_[group_at(group) - 1]; }
  int group_end(int group) const { return group_ends_[group_at(group)]; }
  State& state(int param) { return states_[static_cast<size_t>(param)]; }
  const State& state(int param) const { return states_[static_cast<size_t>(param)]; }
  const char* name() const { return name_; }

 private:
  State read_state(StateLookup& lookup, int group, size_t at) const;
  void step_params();
  void step_param(int group, int param, bool made);
  void finish_step();

  const char* name_;
  std::vector<State> states_;
  std::vector<int> group_ends_;
  // Of the step now running: updates that wait to be run together, gradients made for them, and the
  // parameters stepped.
  core::UpdateBatch batch_;
  std::vector<Array> made_;
  std::vector<int> stepped_;
};

/// An optimizer whose groups each hold an Options struct. For each optimizer of the library its
/// .cpp instantiates this class (`template class OptimizerOf<SGDOptions>;`), and its header tells
/// users' sources so (`extern template class ...`), which then do not compile these virtual
/// functions again. An optimizer of your own needs neither: the class is here in full.
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  /// The options of a group; lr and the others may be changed between steps.
  Options& options(int group = 0) { return options_[group_at(group)]; }
  const Options& options(int group = 0) const { return options_[group_at(group)]; }

 protected:
  OptimizerOf(const char* name, const std::vector<Tensor>& params, const Options& options)
      : OptimizerOf(name, std::vector<Group>{Group{params, options}}) {}
  OptimizerOf(const char* name, const std::vector<Group>& groups) : Optimizer(name) {
    for (const Group& group : groups) {
      group.options.check_values();
      options_.push_back(group.options);
      add_params(group.params);
    }
    check_any();
  }

  std::vector<Option> list_options(int group) const override {
    std::vector<Option> list;
    Options::each(options(group), [&](const char* option, const auto& value) {
      list.push_back({option, static_cast<double>(value)});
    });
    return list;
  }
  bool assign_option(int group, const std::string& option, double value) override {
    bool found = false;
    Options changed = options(group);
    Options::each(changed, [&]<class T>(const char* each, T& field) {
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
    if (!found) return false;
    changed.check_values();
    options(group) = changed;
    return true;
  }

 private:
  std::vector<Options> options_;
};

}  // namespace hero::optim
