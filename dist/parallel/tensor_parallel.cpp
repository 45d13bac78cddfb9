#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/parallel/same_inputs.h>
#include <hero/dist/parallel/tensor_plan.h>
#include <hero/dist/tensor_parallel.h>

namespace hero::dist {
namespace {

bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

int checked_slice_count(const Communicator& group, int slice_count) {
  check(group.defined(), "tensor_parallel: the group of ranks is undefined");
  const int ranks = group.size();
  if (slice_count == 0) return ranks;
  check(slice_count > 0 && slice_count % ranks == 0, "tensor_parallel: ", ranks,
        " ranks do not divide ", slice_count, " slices");
  check(ranks == 1 || is_power_of_two(slice_count / ranks), "tensor_parallel: ", slice_count,
        " slices are ", slice_count / ranks, " for each of ", ranks,
        " ranks, and a sum of these would depend on the number of ranks; give each 2^k");
  return slice_count;
}

// Line `number` of a text, "nothing more" behind its end.
std::string nth_line(const std::string& text, size_t number) {
  size_t begin = 0;
  for (; number > 0 && begin < text.size(); --number) begin = text.find('\n', begin) + 1;
  return begin < text.size() ? text.substr(begin, text.find('\n', begin) - begin) : "nothing more";
}

void check_same_plan(const Communicator& group, const std::string& text) {
  if (group.size() == 1) return;
  const std::vector<std::string> texts = tell_all(group, text, "tensor_parallel");
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    size_t line = 0;
    while (nth_line(texts[0], line) == nth_line(texts[r], line)) ++line;
    fail("tensor_parallel: ranks have different plans: rank 0 has ", nth_line(texts[0], line),
         ", rank ", r, " has ", nth_line(texts[r], line),
         "; cut the same module by the same plan on every rank");
  }
}

void follow_draws(nn::Module& module, const std::shared_ptr<RandomDraws>& draws) {
  module.register_forward_pre_hook(
      [draws](nn::Module&, const nn::Tensors&) { draws->begin_forward(); },
      {.for_parameters = true});
  module.register_forward_hook(
      [draws](nn::Module&, const nn::Tensors&, const nn::Tensors&) { draws->end_forward(); },
      {.for_parameters = true});
}

}  // namespace

const char* name(Cut cut) {
  constexpr const char* names[] = {"colwise", "rowwise", "heads", "vocabulary"};
  return names[static_cast<int>(cut)];
}

TensorPlan tensor_plan(nn::Module& module) {
  TensorPlan plan;
  for (const auto& [path, found] : module.named_modules()) {
    const std::optional<nn::ParallelForm> form = nn::parallel_form_of(*found);
    if (!form) continue;
    for (nn::ModuleCut cut : form->cuts) {
      if (!path.empty()) cut.path = cut.path.empty() ? path : path + "." + cut.path;
      plan.push_back(std::move(cut));
    }
    if (form->attention) plan.push_back({path, Cut::heads});
  }
  return plan;
}

void tensor_parallel(nn::Module& module, const Communicator& group,
                     const TensorParallelOptions& options) {
  const int slice_count = checked_slice_count(group, options.slices);
  const TensorPlan plan = options.plan.empty() ? tensor_plan(module) : options.plan;
  check(!plan.empty(), "tensor_parallel: ", module.type_name(),
        " has no module that Hero has a plan for; give one: {.plan = {{\"*.fc1\", Cut::colwise}, "
        "{\"*.fc2\", Cut::rowwise}}}");
  std::vector<Region> regions = regions_of(module, plan, slice_count);
  check(!options.sequence || options.plan.empty(),
        "tensor_parallel: .sequence goes with the ready plan alone, which cuts all of a block");
  if (options.sequence) cut_sequence(module, regions);
  check_same_plan(group, text_of(regions, slice_count));
  const auto draws = std::make_shared<RandomDraws>(group, slice_count);
  const Slices slices = {group, std::make_shared<CommunicatorGroup>(group), slice_count, draws};
  for (const Region& region : regions) {
    for (const CutParameter& piece : region.pieces) cut(piece, slices);
    install(region, slices);
  }
  tell_heads(module, plan, slice_count);
  if (options.sequence) tell_sequence(module, group.size());
  declare_same_inputs(module, group, "tensor_parallel");
  follow_draws(module, draws);
}

}  // namespace hero::dist
