#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/dist/backends/hosts.h>
#include <hero/dist/backends/mpi/backend.h>
#include <hero/dist/backends/mpi/world.h>

namespace hero::dist {
namespace {

// The calls that a rank has begun and not yet seen complete, in all its groups, oldest first.
struct MpiRank {
  std::shared_ptr<MpiWorld> world;
  std::vector<std::shared_ptr<MpiCall>> begun;

  // Lets go of the arrays of what is complete: on the rank's own thread, as they may be freed.
  void sweep() {
    const auto complete = [](const std::shared_ptr<MpiCall>& call) {
      if (call->state.load() == MpiCall::kBegun) return false;
      call->input = {};
      call->output = {};
      return true;
    };
    begun.erase(std::remove_if(begun.begin(), begun.end(), complete), begun.end());
  }
};

class MpiPending : public Pending {
 public:
  MpiPending(std::shared_ptr<MpiRank> rank, std::shared_ptr<MpiCall> call)
      : rank_(std::move(rank)), call_(std::move(call)) {}

  bool test() override {
    rank_->sweep();
    const int state = call_->state.load();
    if (state == MpiCall::kFailed) rank_->world->raise(call_->where());
    if (state == MpiCall::kBegun) rank_->world->watch_library();
    return state == MpiCall::kDone;
  }

  void wait() override {
    if (!test()) rank_->world->wait(*call_);
    rank_->sweep();
  }
  bool complete() const override { return call_->state.load() == MpiCall::kDone; }
  bool in_vain(std::chrono::steady_clock::time_point since) override {
    rank_->world->look_at_time(*call_, since);
    return call_->state.load() == MpiCall::kFailed;
  }
  const std::shared_ptr<MpiCall>& call() const { return call_; }

 private:
  std::shared_ptr<MpiRank> rank_;
  std::shared_ptr<MpiCall> call_;
};

uint64_t mixed(uint64_t hash, uint64_t value) {  // FNV-1a, a byte at a time
  for (int i = 0; i < 8; ++i) hash = (hash ^ ((value >> (8 * i)) & 255)) * 0x100000001b3u;
  return hash;
}

class MpiBackend : public Backend {
 public:
  MpiBackend(std::shared_ptr<MpiRank> rank, uint64_t id, std::vector<int> world_ranks,
             std::string axis, int me)
      : rank_(std::move(rank)),
        id_(id),
        world_ranks_(std::move(world_ranks)),
        axis_(std::move(axis)),
        me_(me),
        ranks_of_host_(ranks_of_host_among(world_ranks_)) {}
  ~MpiBackend() override { rank_->world->leave(id_); }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  BackendKind kind() const override { return BackendKind::mpi; }
  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  std::span<const int> world_ranks() const override { return world_ranks_; }
  int ranks_of_host() const override { return ranks_of_host_; }

  std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) override {
    rank_->sweep();
    check_native(call);
    const auto begun = std::make_shared<MpiCall>();
    begun->key.lane.group = id_;
    begun->axis = axis_;
    begun->me = me_;
    begun->parties = world_ranks_;
    if (call.op == Collective::send || call.op == Collective::recv) {
      const bool sends = call.op == Collective::send;
      begun->key.lane.from = sends ? me_ : call.root;
      begun->key.lane.to = sends ? call.root : me_;
      begun->parties = {world_ranks_[static_cast<size_t>(begun->key.lane.from)],
                        world_ranks_[static_cast<size_t>(begun->key.lane.to)]};
      begun->me = sends ? 0 : 1;
    }
    // two lanes of one rank: its sends to itself, and its receives
    const auto counter = std::pair(begun->key.lane, call.op == Collective::recv);
    begun->key.sequence = next_[counter];
    if (const auto after = std::exchange(call.after, nullptr)) {
      begun->after = dynamic_cast<const MpiPending&>(*after).call();
    }
    begun->call = std::move(call);
    begun->input = std::move(input);
    begun->output = std::move(output);
    rank_->world->post(begun);
    rank_->begun.push_back(begun);
    ++next_[counter];
    return std::make_shared<MpiPending>(rank_, begun);
  }

  std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) override {
    // All members make the same number out of what they agree on: the group, its call, the list.
    uint64_t id = mixed(id_, next_[{{id_, -1, -1}, false}]);
    std::vector<int> world_ranks;
    int me = 0;
    for (const int member : members) {
      if (member == me_) me = static_cast<int>(world_ranks.size());
      world_ranks.push_back(world_ranks_[static_cast<size_t>(member)]);
      id = mixed(id, static_cast<uint64_t>(member));
    }
    return std::make_shared<MpiBackend>(rank_, id, std::move(world_ranks), axis, me);
  }

  bool has_failed() const override { return rank_->world->has_failed(); }

  void drain() override {
    while (!rank_->begun.empty()) {
      const std::shared_ptr<MpiCall> oldest = rank_->begun.front();
      rank_->world->wait(*oldest);
      rank_->sweep();
    }
  }

  void abandon() override {
    rank_->world->wait_until_complete(rank_->begun);
    rank_->sweep();
  }

 private:
  int ranks_of_host_among(const std::vector<int>& members) const {
    std::vector<int> hosts;
    for (const int rank : members) {
      hosts.push_back(rank_->world->hosts()[static_cast<size_t>(rank)]);
    }
    return dist::ranks_of_host(hosts);
  }
  static void check_native(const Call& call) {
    if (!call.moves || !call.reduces() || call.order != Order::native) return;
    check(call.dtype != kFloat16 && call.dtype != kBFloat16, name(call.op),
          ": MPI has no reduction of ", call.dtype, "; use Order::tree");
    check(call.size <= std::numeric_limits<int>::max(), name(call.op),
          ": MPI's own reduction takes "
          "at most ",
          std::numeric_limits<int>::max(), " elements: ", call.size, "; use Order::tree");
  }

  std::shared_ptr<MpiRank> rank_;
  uint64_t id_;
  std::vector<int> world_ranks_;
  std::string axis_;
  int me_;
  int ranks_of_host_;
  std::map<std::pair<Lane, bool>, uint64_t> next_;
};

}  // namespace

std::shared_ptr<Backend> make_mpi_backend(const std::shared_ptr<MpiWorld>& world) {
  std::vector<int> everyone;
  for (int i = 0; i < world->size(); ++i) everyone.push_back(i);
  auto state = std::make_shared<MpiRank>();
  state->world = world;
  return std::make_shared<MpiBackend>(std::move(state), mixed(0xcbf29ce484222325u, world->number()),
                                      std::move(everyone), "world", world->rank());
}

}  // namespace hero::dist
