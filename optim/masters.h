#pragma once
// Masters: float32 copies of 16-bit parameters, which an optimizer steps in their place; internal
// to optim.
#include <vector>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// The masters of an optimizer's parameters. The master of parameter i is `param` of its State,
/// which the optimizer steps; this class has the parameters of the model. A parameter of another
/// dtype than float16 and bfloat16 is its own master.
class Optimizer::Masters {
 public:
  /// For these parameters of the model.
  explicit Masters(std::vector<Tensor> params) : params_(std::move(params)) {}

  /// Float32 leaves with the values of float16 and bfloat16 parameters, charged to
  /// MemoryTag::optimizer; for other dtypes, the parameters themselves.
  static std::vector<Tensor> made_of(const std::vector<Tensor>& params);

  /// The parameters of the model.
  const std::vector<Tensor>& params() const { return params_; }
  /// Adds parameters after those that are there.
  void add(const std::vector<Tensor>& params);

  /// True if a master has other elements, or another device or precision, than one made of its
  /// parameter now would have.
  bool is_behind(const std::vector<State>& states) const;
  /// Makes masters fit their parameters. Throws an Error, and changes nothing, if one cannot.
  void follow(const char* optimizer, std::vector<State>& states) const;
  /// From now on a master that follow() adapts takes over its parameter's values.
  void forget() { begun_ = false; }

  /// What a step gives to update(): the gradient in float32, or that of 16 bits if low_of() is
  /// defined; undefined if there is none.
  Array gradient_of(const State& state, int param) const;
  /// The bytes that gradient_of() allocates; 0 if the gradient is there already.
  int64_t gradient_bytes(const State& state, int param) const;
  /// The parameter, if the one pass of an elementwise step can read its gradient, update the master
  /// and round it; else undefined.
  Array low_of(const State& state, int param) const;
  /// Rounds the master that was stepped into the parameter, unless the step has done so.
  void updated(State& state, int param) const;
  /// Ends a step: the masters' gradients are used up.
  void step_done(std::vector<State>& states);

  /// Moves the gradient of every parameter, converted to float32, to its master.
  void take_gradients(const std::vector<State>& states) const;
  /// Adds the entries "master.<parameter>" to a state dict.
  void add_to(StateDict& dict, const std::vector<State>& states) const;
  /// Takes these entries out of a dict, which has them for parameters of half precision and may
  /// have them for others, and returns the rest. `masters` gets an undefined array for each
  /// parameter without an entry.
  StateDict take_from(const char* optimizer, const StateDict& dict,
                      std::vector<Array>& masters) const;
  /// Called before states are loaded: makes masters fit that are to get other values.
  void begin_load(const char* optimizer, std::vector<State>& states);
  /// Sets masters, and rounds them into their parameters.
  void load(std::vector<State>& states, const std::vector<Array>& masters);

  /// While it lives, gradients are multiplied by a factor.
  class Scaled {
   public:
    /// Begins the scope.
    Scaled(Masters& masters, double factor) : masters_(masters) { masters_.factor_ = factor; }
    ~Scaled() { masters_.factor_ = 1.0; }
    Scaled(const Scaled&) = delete;
    Scaled& operator=(const Scaled&) = delete;

   private:
    Masters& masters_;
  };

 private:
  const Tensor& param(int at) const { return params_[static_cast<size_t>(at)]; }
  // The master where it has a gradient, else the parameter.
  const Tensor& with_gradient(const State& state, int at) const;

  std::vector<Tensor> params_;
  double factor_ = 1.0;  // factor of the gradients in the current step
  bool begun_ = false;   // the masters have digits that the parameters lack
};

}  // namespace hero::optim
