#pragma once
// This header has the optimizer LBFGS and its options.
#include <functional>

#include <hero/optim/optimizer.h>

namespace hero::optim {

enum class LineSearch { none, strong_wolfe };

struct LBFGSOptions {
  double lr = 1.0;
  int max_iter = 20;                          ///< iterations in one step()
  int max_eval = 0;                           ///< evaluations in one step(); 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;               ///< stops where no gradient is larger
  double tolerance_change = 1e-9;             ///< stops where steps or losses change less
  int history_size = 100;                     ///< pairs of differences kept
  LineSearch line_search = LineSearch::none;  ///< none: each iteration takes lr times the direction

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("max_iter", self.max_iter);
    visit("max_eval", self.max_eval);
    visit("tolerance_grad", self.tolerance_grad);
    visit("tolerance_change", self.tolerance_change);
    visit("history_size", self.history_size);
  }
};
extern template class OptimizerOf<LBFGSOptions>;

/// Quasi-Newton steps from the last differences of points and gradients, for smooth functions
/// without noise; one group. Each step() runs up to max_iter iterations and calls the closure for
/// every point it looks at. Liu and Nocedal, "On the limited memory BFGS method for large scale
/// optimization", 1989; strong Wolfe conditions: Nocedal and Wright, "Numerical Optimization",
/// chapter 3. A shard of a parameter is an Error at the step.
class LBFGS : public OptimizerOf<LBFGSOptions> {
 public:
  explicit LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options = {})
      : OptimizerOf("lbfgs", params, options) {}

  /// `closure` clears the gradients, evaluates the loss, calls backward and returns the loss.
  /// Returns the loss before the step.
  Tensor step(const std::function<Tensor()>& closure);
  /// An Error: evaluations need the closure.
  void step() override;

  /// The history is kept too: "lbfgs.steps" and "lbfgs.changes" are [pairs, elements].
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;

 protected:
  std::vector<const char*> array_names(int) const override { return {}; }
  void update(int, State&, const Array&) override {}

 private:
  // A step and the change of the gradient over it: what curvature is known from.
  struct Pair {
    Array step, change;
    double inverse = 0.0;  // 1 / (step . change)
  };
  // All vectors hold every parameter's elements behind one another.
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

  Memory memory_;
};

}  // namespace hero::optim
