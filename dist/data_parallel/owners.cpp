#include <algorithm>

#include <hero/dist/backends/rank_state.h>
#include <hero/dist/data_parallel/owners.h>

namespace hero::dist {
namespace {

void combine(const Communicator& group, const Array& x, ReduceOp op, const char* unit) {
  if (group.size() > 1) group.all_reduce(x, {.op = op, .unit = unit});
}

// [note: owners of both kinds] Leaves that were boxes of a parameter and were then sharded. Integer
// sums are exact and a maximum does not depend on the order, so a collective first runs over the
// ranks that share a box and then over those that hold the other boxes: each element of the
// parameter counts once.
class PairOwners : public Owners {
 public:
  PairOwners(std::shared_ptr<Owners> inner, std::shared_ptr<Owners> former)
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
  Owners* elsewhere() override { return former_->elsewhere(); }
  bool is_copy() const override { return former_->is_copy(); }

 private:
  std::shared_ptr<Owners> inner_, former_;
};

}  // namespace

std::shared_ptr<GroupOwners> GroupOwners::of(const Communicator& group,
                                             const Communicator& replicas) {
  std::vector<std::weak_ptr<GroupOwners>>& known = group.state_->owners;
  std::erase_if(known, [](const auto& each) { return each.expired(); });
  for (const auto& each : known) {
    const auto owners = each.lock();
    if (owners && owners->group_.backend_ == group.backend_ &&
        owners->replicas_.backend_ == replicas.backend_) {
      return owners;
    }
  }
  auto owners = std::make_shared<GroupOwners>(group, replicas);
  known.push_back(owners);
  return owners;
}

void GroupOwners::declare(const std::string& what) {
  group_.declare(what);
  if (replicas_.defined()) replicas_.declare(what);
}

void GroupOwners::add_up(const Array& words) { combine(group_, words, ReduceOp::sum, "norms"); }
void GroupOwners::largest(const Array& x) { combine(group_, x, ReduceOp::max, "largest"); }

void GroupOwners::all_reduce(const Array& x, const char* op) { group_.all_reduce(x, {.unit = op}); }
void GroupOwners::all_gather(const Array& output, const Array& input, const char* op) {
  group_.all_gather(output, input, {.unit = op});
}
void GroupOwners::reduce_scatter(const Array& output, const Array& input, const char* op) {
  group_.reduce_scatter(output, input, {.unit = op});
}

std::shared_ptr<Owners> GroupOwners::together_with(const std::shared_ptr<Owners>& former) {
  if (!former) return shared_from_this();
  std::erase_if(pairs_, [](const auto& pair) { return pair.second.expired(); });
  for (const auto& [known, pair] : pairs_) {
    if (known == former.get()) return pair.lock();
  }
  auto pair = std::make_shared<PairOwners>(shared_from_this(), former);
  pairs_.emplace_back(former.get(), pair);
  return pair;
}

}  // namespace hero::dist
