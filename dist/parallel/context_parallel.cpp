#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/parallel/random_draws.h>
#include <hero/dist/parallel/shared_sequence.h>
#include <hero/nn/embedding.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/parallel_form.h>

namespace hero::dist {
namespace {

int checked_slices(const Communicator& group, int slice_count) {
  check(group.defined(), "context_parallel: the group of ranks is undefined");
  const int ranks = group.size();
  if (slice_count == 0) return ranks;
  check(slice_count > 0 && slice_count % ranks == 0, "context_parallel: ", ranks,
        " ranks do not divide ", slice_count, " slices");
  const int each = slice_count / ranks;
  check((each & (each - 1)) == 0, "context_parallel: ", slice_count, " slices are ", each,
        " for each of ", ranks,
        " ranks, and sums of these would depend on the number of ranks; give each 2^k");
  return slice_count;
}

// A module that has a ParallelForm.
struct Said {
  std::string path;
  nn::Module* module;
  nn::ParallelForm form;

  nn::Parallelizable& parallelizable() const { return dynamic_cast<nn::Parallelizable&>(*module); }
  std::string below(const std::string& name) const {
    return path.empty() ? name : path + "." + name;
  }
};

// All modules below one that say how they may be divided.
struct Sharers {
  std::vector<Said> all;

  explicit Sharers(nn::Module& module) {
    for (const auto& [path, found] : module.named_modules()) {
      const std::optional<nn::ParallelForm> form = nn::parallel_form_of(*found);
      if (form) all.push_back({path, found, *form});
    }
  }
  bool any() const {
    return std::any_of(all.begin(), all.end(), [](const Said& said) {
      return said.form.attention && said.form.shares_sequence;
    });
  }
  std::string text(int slice_count) const {
    std::string text = std::to_string(slice_count) + " slices";
    for (const Said& said : all) {
      if (said.form.attention) text += ", '" + said.path + "'";
    }
    return text;
  }
};

void check_alike(const Communicator& group, const std::string& text) {
  if (group.size() == 1) return;
  const std::vector<std::string> texts = tell_all(group, text, "context_parallel");
  for (size_t r = 1; r < texts.size(); ++r) {
    check(texts[r] == texts[0], "context_parallel: ranks share different modules: rank 0 has ",
          texts[0], ", rank ", r, " has ", texts[r], "; share the same module on every rank");
  }
}

// Attention that computes with this rank's positions alone would attend to no others.
void check_shares(const Sharers& sharers) {
  for (const Said& said : sharers.all) {
    check(!said.form.attention || said.form.shares_sequence,
          "context_parallel: ", said.module->type_name(), " '", said.path,
          "' is attention whose nn::ParallelForm does not say shares_sequence: it would attend to "
          "this rank's positions alone. Compute it by shared_attention(), and say so");
  }
}

// A parameter of a module that looks at other positions, such as a convolution, would see this
// rank's alone. Layers that compute each position by themselves are known; others have to say it.
bool computes_by_position(const nn::Module& module) {
  if (const auto* norm = dynamic_cast<const nn::LayerNorm*>(&module)) {
    return norm->normalized_shape.size() == 1;
  }
  if (const auto* norm = dynamic_cast<const nn::RMSNorm*>(&module)) {
    return norm->normalized_shape.size() == 1;
  }
  return typeid(module) == typeid(nn::Linear) || typeid(module) == typeid(nn::Embedding);
}

void check_shared_covered(nn::Module& module, const Sharers& sharers) {
  std::set<const nn::Slot*> safe;
  for (const Said& said : sharers.all) {
    for (const std::string& path : said.form.by_position) {
      for (const auto& [name, slot] : said.module->get_submodule(path).slots()) safe.insert(slot);
    }
    const auto& known = said.form.position_parameters;
    for (const auto& [name, slot] : said.module->slots()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) safe.insert(slot);
    }
  }
  for (const auto& [path, found] : module.named_modules()) {
    if (computes_by_position(*found)) continue;
    for (const auto& [name, slot] : found->slots()) {
      if (name.find('.') != std::string::npos) continue;  // a child's
      check(
          slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined() || safe.contains(slot),
          "context_parallel: '", path.empty() ? name : path + "." + name, "' is of a ",
          found->type_name(),
          ", which may look at other positions than this rank's, and no nn::ParallelForm says "
          "otherwise: name the module in by_position if each position is computed by itself, or "
          "the parameter in position_parameters if the module sees to it; or share a part of "
          "the model alone");
    }
  }
}

// Slices of a rank are known where positions are dimension 1, and within what computes each of them
// by itself.
void check_sliceable(nn::Module& module, const Sharers& sharers) {
  std::vector<std::string> safe;  // paths of modules and parameters
  for (const Said& said : sharers.all) {
    check(said.form.positions == 1 || !said.form.shares_sequence,
          "context_parallel: more slices than ranks want the positions second, and ",
          said.module->type_name(), " '", said.path,
          "' has them first; set batch_first, or slices to 0");
    for (const auto* list : {&said.form.by_position, &said.form.position_parameters}) {
      for (const std::string& name : *list) safe.push_back(said.below(name));
    }
  }
  for (const auto& [name, slot] : module.slots()) {
    const auto contains = [&name = name](const std::string& path) {
      return name == path || path.empty() || name.rfind(path + ".", 0) == 0;
    };
    check(
        slot->kind != nn::Slot::Kind::parameter || std::any_of(safe.begin(), safe.end(), contains),
        "context_parallel: more slices than ranks are for nn::GPT, nn::Llama, "
        "nn::MultiheadAttention and other modules whose nn::ParallelForm says by_position, and '",
        name, "' is outside of them; set slices to 0");
    check(partition(slot->tensor) == nullptr, "context_parallel: '", name,
          "' is cut (tensor_parallel), so a rank can have one slice of the sequence alone; set "
          "slices "
          "to 0");
  }
}

}  // namespace

ContextParallel context_parallel(nn::Module& module, const Communicator& group,
                                 const ContextParallelOptions& options) {
  const int slice_count = checked_slices(group, options.slices);
  const Sharers sharers(module);
  check_shares(sharers);
  check(sharers.any(), "context_parallel: ", module.type_name(),
        " has no attention, whose keys and values the ranks would share");
  check_alike(group, sharers.text(slice_count));
  const auto sequence = std::make_shared<const SharedSequence>(group, slice_count);
  if (slice_count == 1) return ContextParallel(sequence);
  if (sequence->slices() > 1) check_sliceable(module, sharers);
  check_shared_covered(module, sharers);
  for (const Said& said : sharers.all) {  // a model may refuse, and comes before its layers
    if (said.form.shares_sequence) said.parallelizable().set_sequence(sequence);
  }
  if (sequence->slices() > 1) {
    for (const Said& said : sharers.all) {
      for (const std::string& path : said.form.by_position) {
        compute_in_slices(said.module->get_submodule(path), sequence);
      }
    }
  }
  refuse_draws(module);
  return ContextParallel(sequence);
}

std::vector<int64_t> ContextParallel::positions(int64_t T) const {
  return take(arange(T), 0).to_vector<int64_t>();
}

Tensor ContextParallel::take(const Tensor& x, int64_t dim) const {
  return sequence_->part_of(x, dim);
}

Tensor ContextParallel::gather(const Tensor& x, int64_t dim) const {
  const NoGrad no_grad;
  const int axis = static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
  const int64_t runs = sequence_->slice_count() == 1 ? 1 : 2 * sequence_->slices();
  check(axis >= 0 && axis < x.ndim() && x.size(axis) % runs == 0, "context_parallel: dimension ",
        dim, " of ", x.shape(), " has no part of a sequence");
  return sequence_->in_order(collectives::gather(x.detach(), axis, sequence_->rank_group()), axis);
}

Tensor ContextParallel::mean(const Tensor& loss) const {
  return collectives::mean_out({loss}, sequence_->rank_group());
}

}  // namespace hero::dist
