#include <cmath>
#include <cstdio>

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/core/random.h>

namespace hero {

namespace {

using Values = std::vector<double>;

Values random_values(int64_t count, uint64_t seed, uint64_t id) {
  Values values(static_cast<size_t>(count));
  fill_uniform(values, RandomStream{seed, id}, 0, -1.0, 1.0);
  return values;
}

double inner(const Values& a, const Values& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Dims position_of(int64_t element, const Shape& shape) {
  Dims position = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    position[d] = element % shape[d];
    element /= shape[d];
  }
  return position;
}

std::string text(double value) {
  // Six digits hide what a tolerance sees.
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.12g", value);
  return buffer;
}

// One comparison of fn's gradients with differences.
class Check {
 public:
  Check(const char* op, const TensorsFunction& fn, const std::vector<Tensor>& inputs,
        const GradcheckOptions& options)
      : fn_(fn), inputs_(inputs), options_(options) {
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      check(inputs[i].defined(), op, ": input ", i, " is undefined");
      any = any || inputs[i].requires_grad();
      check(!inputs[i].requires_grad() || inputs[i].dtype() == kFloat64, op, ": input ", i, " is ",
            inputs[i].dtype(), "; finite differences need float64");
      values_.push_back(inputs[i].requires_grad() ? inputs[i].to_vector<double>() : Values());
    }
    check(any, op, ": no input requires grad; call requires_grad_() on what is to be checked");
    outputs_ = fn(inputs);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      check(outputs_[k].defined(), op, ": output ", k, " is undefined");
      check(!is_floating(outputs_[k].dtype()) || outputs_[k].dtype() == kFloat64, op, ": output ",
            k, " is ", outputs_[k].dtype(), "; finite differences need float64");
    }
  }

  // All outputs at once, element by element, then each alone along random directions.
  std::string run() {
    std::string fault = repeatable();
    if (fault.empty()) fault = compare(-1);
    for (size_t k = 0; fault.empty() && k < outputs_.size(); ++k) {
      if (outputs_[k].dtype() == kFloat64) fault = compare(static_cast<int>(k));
    }
    return fault;
  }

 private:
  // The function at the inputs moved by `steps` (empty: not moved).
  std::vector<Values> evaluate(const std::vector<Values>& moved) const {
    std::vector<Tensor> copies;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool wanted = inputs_[i].requires_grad();
      copies.push_back(
          wanted ? Tensor(Array::from(moved[i], inputs_[i].shape()).to(inputs_[i].device()), true)
                 : inputs_[i]);
    }
    // Recorded, since fn may itself ask for gradients.
    const EnableGrad recording;
    std::vector<Values> results;
    for (const Tensor& output : fn_(copies)) {
      results.push_back(output.dtype() == kFloat64 ? output.to_vector<double>() : Values());
    }
    return results;
  }

  std::string repeatable() {
    const std::vector<Values> again = evaluate(values_);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if (outputs_[k].dtype() != kFloat64) continue;
      const Values first = outputs_[k].to_vector<double>();
      for (size_t i = 0; i < first.size(); ++i) {
        const double gap = std::abs(first[i] - again[k][i]);
        // The layouts may differ in the order of their sums, not in more.
        if (gap > 1e-12 * std::max(1.0, std::abs(first[i]))) {
          return "output " + std::to_string(k) + " changes from call to call: " + text(first[i]) +
                 " and " + text(again[k][i]);
        }
      }
    }
    return "";
  }

  // Gradients of <projection, outputs>, or of one output's share in it; zeros where nothing flows.
  std::vector<Values> analytic(int only) const {
    std::vector<Tensor> roots, gradients, wanted;
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const bool chosen = only < 0 || only == static_cast<int>(k);
      if (!chosen || !outputs_[k].requires_grad() || outputs_[k].dtype() != kFloat64) continue;
      roots.push_back(outputs_[k]);
      gradients.emplace_back(
          Array::from(projection(k), outputs_[k].shape()).to(outputs_[k].device()));
    }
    std::vector<Values> result;
    for (const Tensor& input : inputs_) {
      if (input.requires_grad()) wanted.push_back(input);
      result.emplace_back(static_cast<size_t>(input.requires_grad() ? input.numel() : 0));
    }
    if (roots.empty()) return result;
    const std::vector<Tensor> found = grad(
        roots, wanted, {.grad_outputs = gradients, .retain_graph = true, .allow_unused = true});
    for (size_t i = 0, at = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].requires_grad()) continue;
      const Tensor& g = found[at++];
      if (g.defined()) result[i] = g.to_vector<double>();
    }
    return result;
  }

  Values projection(size_t output) const {
    return random_values(outputs_[output].numel(), options_.seed, 2 * output);
  }

  // d<projection, outputs>/dt for inputs + t * direction.
  double numeric(int only, const std::vector<Values>& direction) const {
    std::vector<Values> moved = values_;
    const auto move = [&](double step) {
      for (size_t i = 0; i < moved.size(); ++i) {
        for (size_t e = 0; e < moved[i].size(); ++e) {
          moved[i][e] = values_[i][e] + step * direction[i][e];
        }
      }
      return evaluate(moved);
    };
    const std::vector<Values> ahead = move(options_.eps), behind = move(-options_.eps);
    double sum = 0.0;
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if ((only >= 0 && only != static_cast<int>(k)) || outputs_[k].dtype() != kFloat64) continue;
      const Values v = projection(k);
      for (size_t i = 0; i < v.size(); ++i) {
        // An output that stays infinite does not change.
        if (ahead[k][i] != behind[k][i]) sum += v[i] * (ahead[k][i] - behind[k][i]);
      }
    }
    return sum / (2.0 * options_.eps);
  }

  bool close(double a, double n) const {
    return std::abs(a - n) <= options_.atol + options_.rtol * std::abs(n);
  }

  std::string compare(int only) const {
    const std::vector<Values> gradients = analytic(only);
    std::vector<Values> direction;
    for (const Values& values : values_) direction.emplace_back(values.size());
    for (size_t i = 0; only < 0 && i < values_.size(); ++i) {
      if (static_cast<int64_t>(values_[i].size()) > options_.max_elements) continue;
      for (size_t e = 0; e < values_[i].size(); ++e) {
        direction[i][e] = 1.0;
        const double n = numeric(only, direction);
        direction[i][e] = 0.0;
        if (close(gradients[i][e], n)) continue;
        return "input " + std::to_string(i) + " element " +
               to_string(position_of(static_cast<int64_t>(e), inputs_[i].shape())) + ": analytic " +
               text(gradients[i][e]) + ", numeric " + text(n);
      }
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      direction[i] =
          random_values(static_cast<int64_t>(values_[i].size()), options_.seed, 2 * i + 1);
    }
    double a = 0.0;
    for (size_t i = 0; i < values_.size(); ++i) a += inner(gradients[i], direction[i]);
    const double n = numeric(only, direction);
    if (close(a, n)) return "";
    return (only < 0 ? "all outputs" : "output " + std::to_string(only)) +
           " along a random direction of the inputs: analytic " + text(a) + ", numeric " + text(n);
  }

  const TensorsFunction& fn_;
  const std::vector<Tensor>& inputs_;
  const GradcheckOptions& options_;
  std::vector<Values> values_;
  std::vector<Tensor> outputs_;
};

bool run_check(const char* op, const TensorsFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  const EnableGrad recording;
  const std::string fault = Check(op, fn, inputs, options).run();
  check(fault.empty() || !options.raise_exception, op, ": ", fault);
  return fault.empty();
}

TensorsFunction listed(const TensorFunction& fn) {
  return [&fn](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{fn(inputs)}; };
}

// The gradients of fn as a function of its inputs and its outputs' gradients.
struct FirstDerivative {
  const TensorsFunction& fn;
  size_t count;  // of fn's inputs

  std::vector<Tensor> operator()(const std::vector<Tensor>& all) const {
    const std::vector<Tensor> inputs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<Tensor> roots, wanted;
    for (const Tensor& output : fn(inputs)) {
      if (output.requires_grad()) roots.push_back(output);
    }
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    check(roots.size() == all.size() - count, "gradgradcheck: the number of outputs that require ",
          "grad changes from call to call");
    std::vector<Tensor> gradients(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
    if (roots.empty()) return {};
    const std::vector<Tensor> found = grad(
        roots, wanted, {.grad_outputs = gradients, .create_graph = true, .allow_unused = true});
    std::vector<Tensor> results;
    for (size_t i = 0; i < found.size(); ++i) {
      results.push_back(found[i].defined() ? found[i]
                                           : Tensor(Array::zeros(wanted[i].shape(), kFloat64,
                                                                 wanted[i].device())));
    }
    return results;
  }
};

}  // namespace

bool gradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  return run_check("gradcheck", fn, inputs, options);
}

bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  return run_check("gradcheck", listed(fn), inputs, options);
}

bool gradgradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options) {
  const EnableGrad recording;
  std::vector<Tensor> all = inputs;
  uint64_t id = uint64_t{1} << 32;  // beyond the streams of the projections
  for (const Tensor& output : fn(inputs)) {
    if (!output.requires_grad()) continue;
    const Values values = random_values(output.numel(), options.seed, id++);
    all.emplace_back(Array::from(values, output.shape()).to(output.device()), true);
  }
  return run_check("gradgradcheck", FirstDerivative{fn, inputs.size()}, all, options);
}

bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options) {
  return gradgradcheck(listed(fn), inputs, options);
}

}  // namespace hero
