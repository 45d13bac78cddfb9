#include <algorithm>

#include <hero/dist/backends/rank_state.h>
#include <hero/dist/data_parallel/communicator_group.h>

namespace hero::dist {
namespace {

void combine(const Communicator& group, const Array& x, ReduceOp op, const char* unit) {
  if (group.size() > 1) group.all_reduce(x, {.op = op, .unit = unit});
}

// [note: nested groups] Leaves that were boxes of a parameter and were then sharded. Integer
// sums are exact and a maximum does not depend on the order, so a collective first runs over the
// ranks that share a box and then over those that hold the other boxes: each element of the
// parameter counts once.
class NestedGroup : public RankGroup {
 public:
  NestedGroup(std::shared_ptr<RankGroup> inner, std::shared_ptr<RankGroup> former)
      : inner_(std::move(inner)), former_(std::move(former)) {}
  void add_up(const Array& words) override {
    inner_->add_up(words);
    former_->add_up(words);
  }
  void largest(const Array& x) override {
    inner_->largest(x);
    former_->largest(x);
  }
  void declare(const std::string& what) override {
    inner_->declare(what);
    former_->declare(what);
  }
  RankGroup* elsewhere() override { return former_->elsewhere(); }
  bool is_copy() const override { return former_->is_copy(); }

 private:
  std::shared_ptr<RankGroup> inner_, former_;
};

}  // namespace

std::shared_ptr<CommunicatorGroup> CommunicatorGroup::of(const Communicator& group,
                                                         const Communicator& replicas) {
  std::vector<std::weak_ptr<CommunicatorGroup>>& known = group.state_->rank_groups;
  std::erase_if(known, [](const auto& each) { return each.expired(); });
  for (const auto& each : known) {
    const auto rank_group = each.lock();
    if (rank_group && rank_group->group_.backend_ == group.backend_ &&
        rank_group->replicas_.backend_ == replicas.backend_) {
      return rank_group;
    }
  }
  auto rank_group = std::make_shared<CommunicatorGroup>(group, replicas);
  known.push_back(rank_group);
  return rank_group;
}

void CommunicatorGroup::declare(const std::string& what) {
  group_.declare(what);
  if (replicas_.defined()) replicas_.declare(what);
}

void CommunicatorGroup::add_up(const Array& words) {
  combine(group_, words, ReduceOp::sum, "norms");
}
void CommunicatorGroup::largest(const Array& x) { combine(group_, x, ReduceOp::max, "largest"); }

void CommunicatorGroup::all_reduce(const Array& x, const char* op) {
  group_.all_reduce(x, {.unit = op});
}
void CommunicatorGroup::all_gather(const Array& output, const Array& input, const char* op) {
  group_.all_gather(output, input, {.unit = op});
}
void CommunicatorGroup::reduce_scatter(const Array& output, const Array& input, const char* op) {
  group_.reduce_scatter(output, input, {.unit = op});
}

std::shared_ptr<RankGroup> CommunicatorGroup::together_with(
    const std::shared_ptr<RankGroup>& former) {
  if (!former) return shared_from_this();
  std::erase_if(pairs_, [](const auto& pair) { return pair.second.expired(); });
  for (const auto& [known, pair] : pairs_) {
    if (known == former.get()) return pair.lock();
  }
  auto pair = std::make_shared<NestedGroup>(shared_from_this(), former);
  pairs_.emplace_back(former.get(), pair);
  return pair;
}

}  // namespace hero::dist
