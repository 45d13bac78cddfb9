#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/dist/engines/simulated/engine.h>

namespace hero::dist {
namespace {

// The collectives of a group as its first rank stated them.
struct SimulatedGroup {
  std::vector<int> world_ranks;
  std::string axis;
  std::vector<Call> calls;
  int first_rank = -1;
};

class Complete : public Pending {
 public:
  bool test() override { return true; }
  void wait() override {}
};

bool is_message(Op op) { return op == Op::send || op == Op::recv; }

}  // namespace

class SimulatedWorld {
 public:
  using Key = std::tuple<const void*, uint64_t, std::vector<int>>;
  std::map<Key, std::shared_ptr<SimulatedGroup>> groups;
  int size = 0;
};

namespace {

class SimulatedEngine : public Engine {
 public:
  // The groups this rank is in, and how far it is in each.
  struct Rank {
    std::vector<std::pair<std::shared_ptr<SimulatedGroup>, std::shared_ptr<uint64_t>>> groups;
  };

  SimulatedEngine(std::shared_ptr<SimulatedWorld> world, std::shared_ptr<Rank> self,
                  std::shared_ptr<SimulatedGroup> group, int me)
      : world_(std::move(world)), self_(std::move(self)), group_(std::move(group)), me_(me) {
    self_->groups.emplace_back(group_, next_);
    if (group_->first_rank < 0) group_->first_rank = world_rank();
  }

  EngineKind kind() const override { return EngineKind::simulated; }
  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(group_->world_ranks.size()); }
  std::span<const int> world_ranks() const override { return group_->world_ranks; }

  std::shared_ptr<Pending> post(Call call, core::Array, core::Array) override {
    static const auto complete = std::make_shared<Complete>();
    if (is_message(call.op)) return complete;
    const auto place = static_cast<size_t>((*next_)++);
    if (place < group_->calls.size()) {
      compare(group_->calls[place], call, place);
    } else if (group_->first_rank == world_rank()) {
      group_->calls.push_back(std::move(call));
    } else {
      fail(describe(call, place, group_->axis), ": rank ", group_->first_rank, " made only ",
           group_->calls.size(), " calls, rank ", world_rank(),
           " makes one more; every rank must make the same calls in the same order");
    }
    return complete;
  }

  std::shared_ptr<Engine> group(std::span<const int> members, const std::string& axis) override {
    std::vector<int> ranks;
    int me = 0;
    for (const int member : members) {
      if (member == me_) me = static_cast<int>(ranks.size());
      ranks.push_back(group_->world_ranks[static_cast<size_t>(member)]);
    }
    auto& group = world_->groups[{group_.get(), *next_, ranks}];
    if (!group) group = std::make_shared<SimulatedGroup>(SimulatedGroup{ranks, axis, {}, -1});
    return std::make_shared<SimulatedEngine>(world_, self_, group, me);
  }

  void drain() override {
    for (const auto& [group, made] : self_->groups) {
      check(*made == group->calls.size(), "'", group->axis, "': rank ", group->first_rank, " made ",
            group->calls.size(), " calls, rank ", world_rank(), " made ", *made,
            "; every rank must make the same calls in the same order");
    }
  }

  void abandon() override {}

 private:
  int world_rank() const { return group_->world_ranks[static_cast<size_t>(me_)]; }

  void compare(const Call& first, const Call& call, uint64_t place) const {
    std::vector<Call> calls = {first, call};
    for (Call& each : calls) {
      // the other end of an exchange is not among these two
      each.send_counts = each.recv_counts = {0, 0};
    }
    const int ranks[] = {group_->first_rank, world_rank()};
    const std::string line = disagreement(calls, ranks);
    check(line.empty(), describe(first, place, group_->axis), ": ", line,
          "; every rank must make the same calls in the same order");
  }

  std::shared_ptr<SimulatedWorld> world_;
  std::shared_ptr<Rank> self_;
  std::shared_ptr<SimulatedGroup> group_;
  std::shared_ptr<uint64_t> next_ = std::make_shared<uint64_t>(0);
  int me_;
};

}  // namespace

std::shared_ptr<SimulatedWorld> make_simulated_world(int size) {
  auto world = std::make_shared<SimulatedWorld>();
  world->size = size;
  return world;
}

std::shared_ptr<Engine> make_simulated_engine(const std::shared_ptr<SimulatedWorld>& world,
                                              int rank) {
  auto& group = world->groups[{nullptr, 0, {}}];
  if (!group) {
    group = std::make_shared<SimulatedGroup>();
    for (int i = 0; i < world->size; ++i) group->world_ranks.push_back(i);
    group->axis = "world";
  }
  return std::make_shared<SimulatedEngine>(world, std::make_shared<SimulatedEngine::Rank>(), group,
                                           rank);
}

}  // namespace hero::dist
