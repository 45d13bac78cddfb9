#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/dist/backends/nccl/backend.h>
#include <hero/dist/backends/nccl/pending.h>
#include <hero/dist/backends/nccl/rendezvous.h>

namespace hero::dist::nccl {
namespace {

// A message to the rank itself is two calls: the copy is made when both have begun.
void begin_own(GpuGroup& group, const std::shared_ptr<NcclPending>& message) {
  const auto other = std::find_if(group.own.begin(), group.own.end(), [&](const auto& each) {
    return each->call.op != message->call.op;
  });
  if (other == group.own.end()) return group.own.push_back(message);
  const std::shared_ptr<NcclPending> first = *other;
  group.own.erase(other);
  const Call& send = message->call.op == Collective::send ? message->call : first->call;
  const Call& recv = message->call.op == Collective::send ? first->call : message->call;
  message->ask(*group.comms.gathers, [&](const End& end, const std::string&) {
    const int64_t bytes =
        std::min(send.size * item_size(send.dtype), recv.size * item_size(recv.dtype));
    end.exchange.copy(send.input, recv.output, bytes);
  });
  first->ask(*group.comms.gathers, [](const End&, const std::string&) {});  // behind the copy
  message->state(*group.host);
  first->state(*group.host);
}

std::shared_ptr<GpuGroup> add_group(const std::shared_ptr<GpuRank>& rank, GpuGroup made) {
  auto group = std::make_shared<GpuGroup>(std::move(made));
  rank->groups.push_back(group);
  return group;
}

class NcclBackend : public Backend {
 public:
  NcclBackend(std::shared_ptr<GpuRank> rank, std::shared_ptr<GpuGroup> group)
      : rank_(std::move(rank)), group_(std::move(group)) {}

  BackendKind kind() const override { return BackendKind::nccl; }
  Device device() const override { return rank_->device; }
  int rank() const override { return host().rank(); }
  int size() const override { return host().size(); }
  std::span<const int> world_ranks() const override { return host().world_ranks(); }
  int ranks_of_host() const override { return host().ranks_of_host(); }

  std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) override {
    rank_->terms.watch->check();
    destroy_retired();
    uint64_t& next = next_[lane_of(call)];
    const std::shared_ptr<Pending> after = std::exchange(call.after, nullptr);
    if (call.device.type != DeviceType::cuda) {
      rank_->confirm();
      if (const auto same = std::dynamic_pointer_cast<HostPending>(after)) {
        call.after = same->call();
      } else if (after) {
        after->wait();
      }
      std::string where = describe(call, next++, group_->axis);
      auto pending = host().post(std::move(call), std::move(input), std::move(output));
      return std::make_shared<HostPending>(rank_, std::move(pending), std::move(where));
    }
    check(call.device == rank_->device, name(call.op), ": the array is on ", call.device,
          ", the GPU of rank ", rank(), " is ", rank_->device);
    // A replay would ask for it without a word to the other ranks.
    cuda::refuse_capture(name(call.op), "arrays of the GPU go to other ranks");
    const bool message = call.op == Collective::send || call.op == Collective::recv;
    rank_->confirm_all_but(message ? nullptr : group_.get());
    auto pending = std::make_shared<NcclPending>(rank_, group_, next, std::move(call),
                                                 std::move(input), std::move(output));
    auto same = std::dynamic_pointer_cast<NcclPending>(after);
    // Whoever has begun a call can ask for it.
    if (same && rank_->terms.shared) same->confirm(NcclPending::Join::no);
    if (same && same->asked()) {
      pending->follow(std::move(same));
    } else if (after) {
      after->wait();
    }
    ++next;
    rank_->begun.push_back(pending);
    try {
      begin(pending);
    } catch (...) {
      rank_->give_up();
      throw;
    }
    sweep();
    return pending;
  }

  std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) override {
    confirm_begun();
    std::shared_ptr<Backend> part = host().group(members, axis);
    std::shared_ptr<Backend> rendezvous = rendezvous_of(*part, axis);
    Comms comms = split_communicators(group_->comms, *group_->rendezvous,
                                      {members, rendezvous.get()}, axis, asks_for_messages());
    return std::make_shared<NcclBackend>(
        rank_, add_group(rank_, {std::move(part), std::move(rendezvous), std::move(comms), axis}));
  }

  void group_of_others(const std::string& axis) override {
    confirm_begun();
    split_communicators(group_->comms, *group_->rendezvous, {}, axis, asks_for_messages());
  }

  bool has_failed() const override { return host().has_failed(); }

  void drain() override {
    while (!rank_->begun.empty()) {
      const std::shared_ptr<NcclPending> oldest = rank_->begun.front();
      oldest->confirm(oldest->unconfirmed() ? NcclPending::Join::no : NcclPending::Join::yes);
      rank_->begun.erase(rank_->begun.begin());
    }
    rank_->terms.watch->wait_until_done();
    host().drain();
  }

  void abandon() override {
    host().abandon();  // after which it is known of every call whether all have asked for it
    rank_->give_up();
    // Out of the rank before they end: what frees their arrays asks the rank what it has begun.
    const std::vector<std::shared_ptr<NcclPending>> ended = std::exchange(rank_->begun, {});
  }

  void confirm() override { rank_->confirm(); }

 private:
  // A message's lane, and whether this is its receiving end: of a lane to itself a rank has both.
  using LaneEnd = std::pair<std::pair<int, int>, bool>;
  LaneEnd lane_of(const Call& call) const {
    if (call.op == Collective::send) return {{rank(), call.root}, false};
    if (call.op == Collective::recv) return {{call.root, rank()}, true};
    return {{-1, -1}, false};
  }
  Backend& host() const { return *group_->host; }

  Patience asks_for_messages() const {
    return [this] { rank_->ask_for_messages(); };
  }

  // Making communicators allocates memory: [note: calls of ranks that share a GPU].
  void confirm_begun() {
    if (!rank_->terms.shared) return;
    const std::vector<std::shared_ptr<NcclPending>> all = rank_->begun;
    for (const auto& pending : all) {
      if (!pending->is_message()) pending->confirm(NcclPending::Join::no);
    }
  }

  void begin(const std::shared_ptr<NcclPending>& pending) {
    const Call& call = pending->call;
    if (call.op != Collective::send && call.op != Collective::recv) {
      Comm& comm = group_->comms.of(call);
      if (rank_->terms.shared) {
        pending->stage(comm);
        pending->state(host());
        group_->waiting.push_back(pending);
        rank_->ask_for_messages();
        return;
      }
      if (!comm.connected() && size() > 1) pending->announce();
      pending->ask_all(comm);
      return pending->state(host());
    }
    if (call.root == rank()) return begin_own(*group_, pending);
    const std::pair<int, int> ends = lane_of(call).first;
    Messages& messages = group_->lanes[ends];
    if (!messages.lane) {
      messages.lane = std::make_unique<Lane>(*group_->rendezvous, ends.first, ends.second,
                                             group_->axis, rank_->terms);
    }
    if (rank_->terms.shared) pending->mark_begin();
    pending->state(host());
    messages.waiting.push_back(pending);
  }

  void sweep() {
    for (const auto& pending : rank_->begun) {
      if (pending.use_count() == 1) pending->release_if_done();
    }
    auto& begun = rank_->begun;
    const auto open = [](const auto& pending) { return !pending->complete(); };
    const auto first = std::stable_partition(begun.begin(), begun.end(), open);
    // Out of the rank before they end: a group that ends with them asks the rank what it has begun.
    const std::vector<std::shared_ptr<NcclPending>> ended(std::make_move_iterator(first),
                                                          std::make_move_iterator(begun.end()));
    begun.erase(first, begun.end());
  }

  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<GpuGroup> group_;
  std::map<LaneEnd, uint64_t> next_;
};

}  // namespace

std::shared_ptr<Backend> make_backend(std::shared_ptr<Backend> host, int local_rank, int local_size,
                                      const Timeouts& timeouts) {
  std::shared_ptr<Backend> rendezvous = rendezvous_of(*host, "world");
  const auto [device, shared] = choose_gpu(*rendezvous, local_rank, local_size);
  cuda::use_device(device.index);
  const std::function<bool()> failed = [host] { return host->has_failed(); };
  auto rank = std::make_shared<GpuRank>(
      Terms{device, timeouts, shared, failed,
            std::make_shared<RankWatch>(device, "rank " + std::to_string(host->rank()), timeouts,
                                        failed)});
  Comms comms = make_communicators(*rendezvous, "world", rank->terms);
  std::shared_ptr<GpuGroup> world =
      add_group(rank, {std::move(host), std::move(rendezvous), std::move(comms), "world"});
  return std::make_shared<NcclBackend>(std::move(rank), std::move(world));
}

}  // namespace hero::dist::nccl
