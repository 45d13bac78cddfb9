#pragma once
// This header has the optimizer LBFGS and its options.
#include <functional>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// How LBFGS chooses the length of a step along its direction.
enum class LineSearch { none, strong_wolfe };

/// Options of LBFGS.
struct LBFGSOptions {
  double lr = 1.0;    ///< step length, or the first one that the line search tries
  int max_iter = 20;  ///< largest number of iterations in one step()
  int max_eval = 0;   ///< largest number of evaluations in one step(); 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    ///< stop when no element of the gradient is larger
  double tolerance_change = 1e-9;  ///< stop when the step or the loss changes by less
  int history_size = 100;          ///< how many pairs of differences are kept
  /// None: every iteration moves by lr times the direction.
  LineSearch line_search = LineSearch::none;
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("max_iter", self.max_iter);
    visit("max_eval", self.max_eval);
    visit("tolerance_grad", self.tolerance_grad);
    visit("tolerance_change", self.tolerance_change);
    visit("history_size", self.history_size);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<LBFGSOptions>;

/// Takes quasi-Newton steps, estimating the curvature from the last differences of points and of
/// gradients; for smooth functions without noise. All parameters are in one group. Each step() runs
/// up to max_iter iterations and calls the closure at every point that it evaluates. Liu and
/// Nocedal, "On the limited memory BFGS method for large scale optimization", 1989; strong Wolfe
/// conditions: Nocedal and Wright, "Numerical Optimization", chapter 3. A step throws an Error if a
/// parameter is a shard. Under DDP the closure returns this rank's own loss: every rank steps by
/// the mean of all ranks' losses, for which each evaluation has one small collective more.
class LBFGS : public OptimizerOf<LBFGSOptions> {
 public:
  /// Makes an optimizer for these parameters.
  explicit LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options = {})
      : OptimizerOf("lbfgs", params, options) {}

  /// Minimises for up to max_iter iterations. `closure` clears the gradients, computes the loss,
  /// calls backward() and returns the loss. Returns the loss at the point where the step began;
  /// under DDP, the mean over the ranks.
  Tensor step(const std::function<Tensor()>& closure);
  /// Throws an Error, because LBFGS has to evaluate the loss: call step(closure).
  void step() override;

  /// Contains the history as well: "lbfgs.steps" and "lbfgs.changes", each [pairs, elements].
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;

 protected:
  std::vector<const char*> array_names(int) const override { return {}; }
  void update(int, State&, const Array&) override {}
  void follow() const override;
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override {
    return "its step evaluates the loss at the parameters themselves, and needs all states";
  }

 private:
  // A step and the change of the gradient over it, from which the curvature is estimated.
  struct Pair {
    Array step, change;
    double inverse = 0.0;  // 1 / (step . change)
  };
  // All vectors contain the elements of all parameters, concatenated.
  struct Memory {
    double iterations = 0.0;
    double t = 0.0;         // last step length
    double diagonal = 1.0;  // first guess of the inverse curvature
    Array direction, gradient;
    std::vector<Pair> pairs;  // oldest first
  };

  double evaluate(const std::function<Tensor()>& closure, Array& gradient) const;
  void choose_direction(const Array& gradient);
  void move(const Array& origin, double t) const;
  bool iterate(const std::function<Tensor()>& closure, bool last, double& loss, Array& gradient,
               int& evaluations);
  Array flat_params() const;
  DType flat_dtype() const;

  mutable Memory memory_;  // follows the parameters when it is read, see follow()
};

}  // namespace hero::optim
