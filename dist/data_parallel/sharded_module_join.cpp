// join(), for ranks with different numbers of batches: ranks without further batches take part in
// the other ranks' steps.
#include <algorithm>

#include <hero/core/array.h>
#include <hero/dist/data_parallel/sharded_module.h>

namespace hero::dist {
namespace {

// What a rank says before each forward.
constexpr int64_t kHasData = 1, kReduces = 2, kTrains = 4;

}  // namespace

// Returns what the ranks that still have data say; 0 when none has. Buffers then come from the
// first of these.
int64_t ShardedModule::tell_others(int64_t word) {
  const Array all = Array::empty({groups().shard.size()}, kInt64);
  groups().shard.all_gather(all, Array::full({1}, word, kInt64), {.unit = "join"});
  const std::vector<int64_t> words = all.to_vector<int64_t>();
  const auto first = std::find_if(words.begin(), words.end(), [](int64_t w) { return w != 0; });
  if (first == words.end()) return 0;
  buffer_root_ = static_cast<int>(first - words.begin());
  for (const int64_t other : words) {
    check(other == 0 || other == *first,
          "join: ranks that have data differ in whether they average gradients or train");
  }
  return *first;
}

void ShardedModule::tell_before_forward() {
  const bool reduces = averages() && grad_enabled();
  tell_others(kHasData | (reduces ? kReduces : 0) | (modules().front()->training() ? kTrains : 0));
}

void ShardedModule::join(const std::function<void()>& body, const std::function<void()>& step) {
  check(
      options_.units.stage != Stage::parameters,
      "join: units of fully_shard() and ZeRO-3 are gathered in the order of a forward that a rank "
      "without data does not run; pad or drop the last batches, or use DDP, ZeRO-1 or ZeRO-2");
  check(!joining_, "join: is running already");
  joining_ = true;
  try {
    body();
    reset();
    while (const int64_t word = tell_others(0)) shadow(word, step);
    broadcast_buffers();  // of the last that had data
  } catch (...) {
    joining_ = false;
    throw;
  }
  joining_ = false;
  buffer_root_ = 0;
}

// One forward and backward of the others, with gradients of zero.
void ShardedModule::shadow(int64_t word, const std::function<void()>& step) {
  gather(*module_states_.front());
  wait_unsharded(*module_states_.front());
  if ((word & kTrains) != 0) broadcast_buffers();
  if ((word & kReduces) != 0) {
    save_previous_grads();
    if (options_.unused == Unused::agree) agree_on_unused();
    const MemoryScope tag(MemoryTag::gradient);
    for (const ParameterEntry& entry : parameters_) {
      const UnitParameter& parameter = *entry.parameter;
      if (options_.unused == Unused::agree || !parameter.leaf.requires_grad()) continue;
      if (parameter.has_own_gradient()) continue;  // added up under no_sync()
      parameter.full.set_grad(Tensor(
          Array::zeros(parameter.full.shape(), parameter.full.dtype(), parameter.full.device())));
    }
    for (const auto& unit : units_) reduce(*unit);
    schedule_->end_reductions();
  }
  reset();
  if ((word & kReduces) != 0) step();
}

}  // namespace hero::dist
