#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/autograd/sharding/layout.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/device/backend.h>
#include <hero/dist/check_parallel_form.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/launch.h>
#include <hero/nn/rotary.h>

namespace hero::dist {
namespace {

// Sums of float64 in another order agree to about 1e-13 of the largest value. A gradient that is 0
// but for such sums is compared with the largest one of all.
constexpr double kFormAgrees = 1e-7, kFormOfLargest = 1e-3;

// What differs from the whole module: "the output", "the gradient of 'fc.weight'".
struct FormDifference {
  std::string what;
  std::string by;
};

// What became of one way of dividing a module.
struct FormOutcome {
  std::string refused;
  std::optional<FormDifference> difference = {};

  bool agrees() const { return refused.empty() && !difference; }
};

// A call of a module: its path, and what it got and gave.
struct FormCall {
  std::string path;
  nn::Module* module;
  nn::Tensors in, out;
};

double largest_value(const Array& x) { return x.numel() == 0 ? 0.0 : amax(abs(Tensor(x))).item(); }

// The elements of a whole array that a leaf has, in the leaf's shape.
Array elements_of_leaf(const Array& whole, const Tensor& leaf) {
  const Partition* const place = partition(leaf);
  if (place == nullptr) return whole;
  const Array flat = whole.contiguous().reshape({whole.numel()});
  const Array part = Array::empty({leaf.numel()}, whole.dtype());
  layout::Runs runs(place->whole, place->boxes, place->first, leaf.numel());
  for (layout::Run run; runs.next(run);) {
    core::backend(kCpu).run(core::call::Copy{flat.slice(0, run.whole, run.whole + run.count),
                                             part.slice(0, run.part, run.part + run.count)});
  }
  return part.reshape(leaf.shape());
}

// The weight of each element of the output in the loss: numbers that no two elements share.
Tensor form_loss_weights(const Shape& shape) {
  const Tensor count = arange(Scalar(shape.numel("check_parallel_form")), {.dtype = kFloat64});
  return cos(count * 1.7 + 0.3).reshape(shape);
}

Array form_gradient(const Tensor& leaf) {
  if (leaf.grad().defined()) return leaf.grad().array();
  return Array::zeros(leaf.shape(), leaf.dtype());
}

class FormChecker {
 public:
  using Make = std::function<std::unique_ptr<nn::Module>()>;

  FormChecker(const Make& make, const Tensor& input, const CheckParallelFormOptions& options)
      : make_(make),
        options_(options),
        input_(is_floating(input.dtype()) ? input.to(kFloat64) : input),
        whole_(made()) {
    state_ = whole_->state_dict();
    const Tensor output = run(*whole_, input_);
    check(
        output.defined() && is_floating(output.dtype()),
        "check_parallel_form: the output must be a floating tensor; give a .run that returns one");
    output_ = output.detach();
    if (output.requires_grad()) sum(output * form_loss_weights(output.shape())).backward();
    for (const auto& [name, leaf] : whole_->named_parameters()) {
      gradients_.emplace(name, form_gradient(leaf));
      largest_gradient_ = std::max(largest_gradient_, largest_value(gradients_.at(name)));
    }
    whole_->zero_grad();
    for (const auto& [path, module] : whole_->named_modules()) {
      if (const auto form = nn::parallel_form_of(*module)) forms_.emplace_back(path, *form);
    }
  }

  std::vector<ParallelFormCheck> run_all() {
    std::vector<ParallelFormCheck> tried;
    const bool has_plan = !options_.plan.empty() || !tensor_plan(*whole_).empty();
    if (options_.tensor && has_plan) {
      const FormOutcome outcome = divided(options_.plan, false);
      check(outcome.refused.empty(), outcome.refused);
      if (outcome.difference) fail_in("tensor_parallel", *outcome.difference, tensor_mistake());
      tried.push_back({"tensor_parallel"});
    }
    const auto has = [this](const auto& property) {
      return std::any_of(forms_.begin(), forms_.end(),
                         [&](const auto& said) { return property(said.second); });
    };
    const bool has_stack = has([](const nn::ParallelForm& form) { return form.stack.has_value(); });
    if (options_.sequence && has_plan && has_stack && options_.plan.empty()) {
      constexpr auto kWay = "tensor_parallel with .sequence";
      const FormOutcome outcome = divided({}, true);
      if (outcome.difference) {
        fail_in(kWay, *outcome.difference, sequence_mistake(*outcome.difference));
      }
      tried.push_back({kWay, outcome.refused});
    }
    const bool shares = has([](const nn::ParallelForm& form) {
      return form.attention.has_value() && form.shares_sequence;
    });
    if (options_.context && shares) {
      const FormOutcome outcome = shared();
      if (outcome.difference) fail_in("context_parallel", *outcome.difference, context_mistake());
      tried.push_back({"context_parallel", outcome.refused});
    }
    check(!tried.empty(), "check_parallel_form: no module of ", whole_->type_name(),
          " says in an nn::ParallelForm how ranks may divide it, and there is no .plan");
    return tried;
  }

 private:
  std::unique_ptr<nn::Module> made() const {
    std::unique_ptr<nn::Module> module = make_();
    check(module != nullptr, "check_parallel_form: `make` returned no module");
    for (const auto& [name, leaf] : module->named_parameters()) {
      check(leaf.device() == kCpu, "check_parallel_form: '", name, "' lies on ", leaf.device(),
            "; make the module on the cpu, where ranks are threads");
    }
    module->to(kFloat64);
    module->eval();
    if (!state_.empty()) module->load_state_dict(state_);
    return module;
  }

  Tensor run(nn::Module& module, const Tensor& x) const {
    return options_.run ? options_.run(module, x) : module(x);
  }

  [[noreturn]] void fail_in(const std::string& way, const FormDifference& difference,
                            const std::string& mistake) const {
    fail("check_parallel_form: under ", way, " of ", options_.ranks, " ranks ", difference.what,
         " differs from that of the whole module, by ", difference.by, ": ", mistake);
  }

  static std::optional<FormDifference> compared(const std::string& what, const Array& got,
                                                const Array& expected, double floor) {
    if (got.shape() != expected.shape()) {
      return FormDifference{what, "its shape: " + to_string(got.shape()) + " instead of " +
                                      to_string(expected.shape())};
    }
    if (got.numel() == 0) return {};
    const double by = amax(abs(Tensor(got).to(kFloat64) - Tensor(expected))).item();
    const double scale = std::max(largest_value(expected), floor);
    if (by <= kFormAgrees * scale) return {};  // false for NaN
    return FormDifference{what, to_string(Scalar(by)) + " where values are up to " +
                                    to_string(Scalar(largest_value(expected)))};
  }

  // The first difference of an output and of the gradients of a module's parameters.
  std::optional<FormDifference> compared_all(const nn::Module& module, const Array& output) const {
    const NoGrad no_grad;
    if (auto found = compared("the output", output, output_.array(), 0.0)) return found;
    for (const auto& [name, leaf] : module.named_parameters()) {
      auto found =
          compared("the gradient of '" + name + "'", form_gradient(leaf),
                   elements_of_leaf(gradients_.at(name), leaf), kFormOfLargest * largest_gradient_);
      if (found) return found;
    }
    return {};
  }

  // Runs a program on all ranks, which sets `ready` when the module is divided.
  template <class Program>
  FormOutcome on_ranks(const std::string& way, const Program& program) const {
    std::vector<std::optional<FormDifference>> of_ranks(static_cast<size_t>(options_.ranks));
    std::atomic<bool> ready = false;
    try {
      run_ranks(options_.ranks, [&](Communicator& world) {
        of_ranks[static_cast<size_t>(world.rank())] = program(world, ready);
      });
    } catch (const Error& error) {
      if (!ready) return {.refused = error.what()};
      fail("check_parallel_form: under ", way, " of ", options_.ranks, " ranks: ", error.what());
    }
    for (auto& each : of_ranks) {
      if (each) return {.refused = "", .difference = std::move(each)};
    }
    return {};
  }

  FormOutcome divided(const TensorPlan& plan, bool sequence) const {
    return on_ranks("tensor_parallel", [&](Communicator& world, std::atomic<bool>& ready) {
      const std::unique_ptr<nn::Module> module = made();
      tensor_parallel(*module, world, {.plan = plan, .sequence = sequence});
      ready = true;
      const Tensor output = run(*module, input_);
      if (output.requires_grad()) {
        check(output.shape() == output_.shape(), "the output is ", output.shape(), " instead of ",
              output_.shape(), "; a module whose own output is divided is a part of a module");
        sum(output * form_loss_weights(output.shape())).backward();
      }
      return compared_all(*module, output.detach().array());
    });
  }

  // A whole model cuts what it gets; any other module gets the positions of its rank.
  bool takes_whole() const {
    return std::any_of(forms_.begin(), forms_.end(), [](const auto& said) {
      return said.first.empty() && said.second.shares_sequence && !said.second.attention;
    });
  }
  Tensor input_of(const ContextParallel& context) const {
    return takes_whole() ? input_ : context.take(input_, options_.positions);
  }

  FormOutcome shared() const {
    const int64_t dim = options_.positions;
    check(dim >= 0 && dim < output_.ndim() && dim < input_.ndim(), "check_parallel_form: input ",
          input_.shape(), " and output ", output_.shape(), " have no positions in dimension ", dim,
          "; let .run return what the module gives at each position, or set .context to false");
    return on_ranks("context_parallel", [&](Communicator& world, std::atomic<bool>& ready) {
      const std::unique_ptr<nn::Module> module = made();
      const ContextParallel context = context_parallel(*module, world);
      ready = true;
      const Tensor output = run(*module, input_of(context));
      const Tensor weights = context.take(form_loss_weights(output_.shape()), dim);
      check(output.shape() == weights.shape(), "the output is ", output.shape(),
            " on a rank, and this rank's positions of the whole one are ", weights.shape());
      if (output.requires_grad()) sum(output * weights).backward();
      for (const Tensor& leaf : module->parameters()) {
        const Tensor all(form_gradient(leaf).clone());
        world.all_reduce(all.array());
        leaf.set_grad(all);
      }
      return compared_all(*module, context.gather(output, dim).array());
    });
  }

  // The plan that one module says of itself.
  static TensorPlan plan_of(const std::string& path, const nn::ParallelForm& form) {
    TensorPlan plan;
    for (nn::ModuleCut cut : form.cuts) {
      if (!path.empty()) cut.path = cut.path.empty() ? path : path + "." + cut.path;
      plan.push_back(std::move(cut));
    }
    if (form.attention) plan.push_back({path, Cut::heads});
    return plan;
  }

  // The module that differs if it is cut alone, and why.
  std::string tensor_mistake() const {
    if (!options_.plan.empty()) return plan_mistake(options_.plan, "the plan");
    for (const auto& [path, form] : forms_) {
      const TensorPlan plan = plan_of(path, form);
      if (plan.empty() || !tried(plan).difference) continue;
      const std::string name =
          whole_->get_submodule(path).type_name() + (path.empty() ? "" : " '" + path + "'");
      return form.attention ? heads_mistake(path, *form.attention, name) : plan_mistake(plan, name);
    }
    return "its modules agree where each is cut alone; what is between them mixes what is divided";
  }

  // An attempt to find a reason, which may fail for others.
  FormOutcome tried(const TensorPlan& plan) const {
    try {
      return divided(plan, false);
    } catch (const Error& error) {
      return {.refused = error.what()};
    }
  }

  std::string plan_mistake(const TensorPlan& plan, const std::string& name) const {
    // Each entry by itself, and all of them.
    for (size_t one = 0; one <= plan.size(); ++one) {
      for (const int parts : {2, 3, 4}) {
        TensorPlan packed = plan;
        std::string paths;
        for (size_t i = 0; i < plan.size(); ++i) {
          const bool chosen = one == i || one == plan.size();
          if (!chosen || plan[i].cut != Cut::colwise || plan[i].parts != 1) continue;
          packed[i].parts = parts;
          paths += (paths.empty() ? "'" : ", '") + plan[i].path + "'";
        }
        if (!paths.empty() && tried(packed).agrees()) {
          return paths + " packs " + std::to_string(parts) +
                 " matrices, such as gates and values: say .parts = " + std::to_string(parts) +
                 ", and each of them is cut by itself";
        }
      }
    }
    return "in " + name +
           " something between the layers that are cut looks at other hidden units, such as a "
           "softmax or a norm over them, and a rank has only some; compute it before or after "
           "them, "
           "where they are whole";
  }

  std::string heads_mistake(const std::string& path, const nn::AttentionForm& attention,
                            const std::string& name) const {
    const auto below = [&path = path](const std::string& child) {
      return path.empty() ? child : path + "." + child;
    };
    TensorPlan in_order;  // each weight's rows in equal runs
    std::string packed;
    for (const nn::HeadWeight& weight : attention.weights) {
      in_order.push_back({below(weight.path), weight.rows.empty() ? Cut::rowwise : Cut::colwise});
      if (weight.rows.size() > 1) packed = below(weight.path);
    }
    if (!packed.empty() && tried(in_order).agrees()) {
      return "the rows of '" + packed +
             "' lie head by head, queries, keys and values of the first head before those of the "
             "second (interleaved, as in GPT-NeoX), and the form says that all queries come first; "
             "reorder the rows, or give a plan that cuts '" +
             packed + "' by rows and the last projection by columns";
    }
    return "in " + name +
           " heads are not computed each by itself, or their number is a constant: a rank has only "
           "some of them, as many as its projections return, in the order that the form says";
  }

  // Norms and other modules of blocks that a forward also calls where no block runs.
  std::vector<std::string> called_outside() const {
    const std::unique_ptr<nn::Module> module = made();
    int depth = 0;
    std::vector<std::string> outside;
    for (const auto& [path, form] : forms_) {
      if (!form.stack) continue;
      nn::Module& stack = module->get_submodule(path);
      for (const auto& [name, block] : nn::blocks_of(stack, *form.stack)) {
        block->register_forward_pre_hook([&](nn::Module&, const nn::Tensors&) { ++depth; });
        block->register_forward_hook(
            [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { --depth; });
        const auto said = nn::parallel_form_of(*block);
        for (const std::string& each : said ? said->by_position : std::vector<std::string>()) {
          const std::string full = (path.empty() ? "" : path + ".") + name + "." + each;
          block->get_submodule(each).register_forward_pre_hook(
              [&, full](nn::Module&, const nn::Tensors&) {
                if (depth == 0) outside.push_back(full);
              });
        }
      }
    }
    const NoGrad no_grad;
    run(*module, input_);
    return outside;
  }

  std::string sequence_mistake(const FormDifference& difference) const {
    const std::vector<std::string> outside = called_outside();
    for (const std::string& path : outside) {
      if (difference.what.find("'" + path + ".") == std::string::npos) continue;
      return "'" + path +
             "' belongs to a block, where each rank has its positions alone, and is also called "
             "outside of the blocks, where all ranks have all of them: its gradient is added up "
             "over the ranks; give that place a module of its own";
    }
    return "between the first block and the norm after the last each rank has its positions alone, "
           "and something there looks at others: in a block, beside the modules that are cut, or "
           "in "
           "one that its form calls by_position";
  }

  // All calls of modules below one while `body` runs, in the order in which they end.
  template <class Body>
  static std::vector<FormCall> calls_of(nn::Module& module, const Body& body) {
    std::vector<FormCall> calls;
    for (const auto& [path, each] : module.named_modules()) {
      if (path.empty()) continue;
      each->register_forward_hook(
          [&calls, path = path](nn::Module& called, const nn::Tensors& in, const nn::Tensors& out) {
            calls.push_back({path, &called, in, out});
          });
    }
    const NoGrad no_grad;
    body();
    return calls;
  }

  enum class Agreement : uint8_t { yes, no, unknown };

  // Compares what a rank has with its positions of what the whole module had, wherever they lie.
  static Agreement agreement(const ContextParallel& context, const nn::Tensors& mine,
                             const nn::Tensors& whole, int ranks) {
    Agreement all = Agreement::yes;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i].defined() || !whole[i].defined()) continue;
      Tensor expected = whole[i];
      if (mine[i].ndim() != expected.ndim()) return Agreement::unknown;
      for (int d = 0; d < mine[i].ndim(); ++d) {
        if (mine[i].size(d) * ranks == whole[i].size(d)) expected = context.take(expected, d);
      }
      if (expected.shape() != mine[i].shape()) {
        all = Agreement::unknown;
      } else if (compared("", mine[i].to(kFloat64).array(), expected.to(kFloat64).array(), 0.0)) {
        return Agreement::no;
      }
    }
    return all;
  }

  // The first call that gives other values than at these positions of the whole module.
  std::string context_mistake() const {
    const std::unique_ptr<nn::Module> module = made();
    const std::vector<FormCall> whole = calls_of(*module, [&] { run(*module, input_); });
    std::string mistake;
    on_ranks("context_parallel", [&](Communicator& world, std::atomic<bool>& ready) {
      const std::unique_ptr<nn::Module> mine = made();
      const ContextParallel context = context_parallel(*mine, world);
      ready = true;
      const auto calls = calls_of(*mine, [&] { run(*mine, input_of(context)); });
      if (world.rank() == 0) mistake = first_wrong(context, calls, whole, options_.ranks);
      return std::optional<FormDifference>();
    });
    return mistake;
  }

  static std::string first_wrong(const ContextParallel& context, const std::vector<FormCall>& calls,
                                 const std::vector<FormCall>& whole, int ranks) {
    const NoGrad no_grad;
    for (size_t i = 0; i < std::min(calls.size(), whole.size()); ++i) {
      if (calls[i].path != whole[i].path) break;
      if (agreement(context, calls[i].out, whole[i].out, ranks) != Agreement::no) continue;
      const std::string name = calls[i].module->type_name() + " '" + calls[i].path + "'";
      if (agreement(context, calls[i].in, whole[i].in, ranks) != Agreement::yes) {
        return "the first module that computes something else is " + name +
               ", which already gets something else, although all modules before it agree. Where "
               "positions are counted from 0, as by arange, each rank counts its own: take the "
               "rank's of all positions, by sequence()->take() or ContextParallel::take()";
      }
      if (dynamic_cast<nn::RotaryEmbedding*>(calls[i].module) != nullptr) {
        return name +
               " turns the rank's positions as if they began at 0; give it those at which the "
               "rank's runs begin, sequence()->begins()";
      }
      return name +
             " mixes positions: it gets the rank's positions of what it gets in the whole module, "
             "and gives something else, since it looks at others, or counts them from 0. Compute "
             "it of all positions before they are divided, or let it look at those of other ranks";
    }
    return "what modules return agrees, so the rest of the forward looks at positions of other "
           "ranks, or uses a parameter where all ranks have the same positions";
  }

  const Make& make_;
  const CheckParallelFormOptions& options_;
  const Tensor input_;
  nn::StateDict state_;
  std::unique_ptr<nn::Module> whole_;
  Tensor output_;
  std::map<std::string, Array> gradients_;
  double largest_gradient_ = 0.0;
  std::vector<std::pair<std::string, nn::ParallelForm>> forms_;  // by the paths of modules
};

}  // namespace

std::vector<ParallelFormCheck> check_parallel_form(
    const std::function<std::unique_ptr<nn::Module>()>& make, const Tensor& input,
    const CheckParallelFormOptions& options) {
  check(make != nullptr, "check_parallel_form: `make` is empty");
  check(options.ranks > 1, "check_parallel_form: ", options.ranks,
        " ranks divide nothing; give at least 2");
  check(input.defined() && input.device() == kCpu,
        "check_parallel_form: the input must be a tensor on the cpu");
  return FormChecker(make, input, options).run_all();
}

}  // namespace hero::dist
