#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/backends/simulated/backend.h>
#include <hero/dist/backends/simulated/group.h>
#include <hero/dist/backends/simulated/identical_inputs.h>
#include <hero/dist/simulation/recorder.h>

namespace hero::dist {
namespace {

class Complete : public Pending {
 public:
  bool test() override { return true; }
  void wait() override {}
  bool complete() const override { return true; }
};

// A rank in one of its groups.
struct Membership {
  std::shared_ptr<SimulatedGroup> group;
  int me = 0;
  uint64_t made = 0;  // collectives
};

class SimulatedBackend : public Backend {
 public:
  struct Rank {
    std::shared_ptr<SimulatedWorld> world;
    std::vector<std::shared_ptr<Membership>> members;
  };

  SimulatedBackend(std::shared_ptr<Rank> self, std::shared_ptr<SimulatedGroup> group, int me)
      : self_(std::move(self)),
        member_(std::make_shared<Membership>(Membership{std::move(group), me})) {
    self_->members.push_back(member_);
    member_->group->join(me);
  }

  BackendKind kind() const override { return BackendKind::simulated; }
  int rank() const override { return member_->me; }
  int size() const override { return static_cast<int>(group().world_ranks.size()); }
  std::span<const int> world_ranks() const override { return group().world_ranks; }
  int ranks_of_host() const override { return group().ranks_of_host; }

  std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) override {
    if (call.op == Collective::send || call.op == Collective::recv) {
      check_message(call);
      group().message(call, rank(), self_->world->ended(world_rank_of(call.root)));
    } else {
      group().collective(call, member_->made, rank());
      ++member_->made;
      if (call.device == kCpu) set_as_if_identical(call, input, output, rank(), size());
    }
    if (RankRecorder* const recorder = RankRecorder::current()) {
      return recorder->begin(call, &group(), group().axis, group().world_ranks, rank());
    }
    return complete_;
  }

  std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) override {
    std::vector<int> ranks;
    int me = 0;
    for (const int member : members) {
      if (member == rank()) me = static_cast<int>(ranks.size());
      ranks.push_back(world_rank_of(member));
    }
    return std::make_shared<SimulatedBackend>(
        self_, self_->world->group(group(), member_->made, ranks, axis), me);
  }

  void drain() override {
    for (const auto& member : self_->members) member->group->end(member->me, member->made);
    self_->world->end(world_rank_of(rank()));
  }

  void abandon() override {}

 private:
  SimulatedGroup& group() const { return *member_->group; }
  int world_rank_of(int rank) const { return group().world_ranks[static_cast<size_t>(rank)]; }

  std::shared_ptr<Rank> self_;
  std::shared_ptr<Membership> member_;
  const std::shared_ptr<Complete> complete_ = std::make_shared<Complete>();
};

}  // namespace

std::shared_ptr<SimulatedWorld> make_simulated_world(int size, int per_host) {
  return std::make_shared<SimulatedWorld>(size, per_host);
}

std::shared_ptr<Backend> make_simulated_backend(const std::shared_ptr<SimulatedWorld>& world,
                                                int rank) {
  auto self = std::make_shared<SimulatedBackend::Rank>();
  self->world = world;
  return std::make_shared<SimulatedBackend>(std::move(self), world->everyone(), rank);
}

}  // namespace hero::dist
