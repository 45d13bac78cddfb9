#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/core/error.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/engines/nccl/engine.h>
#include <hero/dist/engines/nccl/free_gate.h>
#include <hero/dist/engines/nccl/lane.h>
#include <hero/dist/engines/nccl/meeting.h>
#include <hero/dist/engines/nccl/moves.h>

namespace hero::dist::nccl {
namespace {

// The order of calls: [note: agreed means asked] in engine.h.
using Clock = std::chrono::steady_clock;

constexpr auto kLast = std::chrono::seconds(5);  // for the last calls, where all have failed

class NcclPending;
struct GpuGroup;

// What a rank has begun and not completed, over all its groups, oldest first.
struct GpuRank : FreeGate {
  GpuRank(Device gpu, double seconds) : FreeGate(gpu.index), device(gpu), timeout(seconds) {}
  const Device device;
  const double timeout;
  std::vector<std::shared_ptr<NcclPending>> begun;
  std::vector<std::weak_ptr<GpuGroup>> groups;

  core::Exchange& exchange() const {
    return core::accelerator("nccl", device).exchange(device.index);
  }
  // Asks for messages that both ends have begun; true when there is none left of those.
  bool ask_for_messages();
  bool has_messages() const;
  // Between two looks at what others have begun; an Error when the time since `start` is over.
  void pause(Clock::time_point start, const std::string& where) const {
    const std::chrono::duration<double> waited = Clock::now() - start;
    check(waited.count() < timeout, where, ": time-out after ", timeout,
          " s; set HERO_TIMEOUT to more seconds if the other ranks only need longer");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // After an error: nothing of this rank is under way any more.
  void give_up() noexcept;
  bool others_have_asked() noexcept override;
};

// Messages that have begun and are not asked for, in the order of their lane.
struct Messages {
  std::unique_ptr<Lane> lane;
  std::deque<std::shared_ptr<NcclPending>> waiting;
};

struct GpuGroup {
  std::shared_ptr<Engine> host;
  std::shared_ptr<Engine> meeting;  // the host's too, with calls that are not the ranks'
  std::unique_ptr<Comm> comm;
  std::string axis;
  std::map<std::pair<int, int>, Messages> lanes;
  std::vector<std::shared_ptr<NcclPending>> own;  // messages to oneself that miss their other end
};

class NcclPending : public Pending {
 public:
  NcclPending(std::shared_ptr<GpuRank> rank, std::shared_ptr<GpuGroup> group, uint64_t sequence,
              Call made, core::Array input, core::Array output)
      : call(std::move(made)),
        rank_(std::move(rank)),
        group_(std::move(group)),
        where_(describe(call, sequence, group_->axis)),
        input_(std::move(input)),
        output_(std::move(output)) {}

  bool test() override {
    return step([&] { return rank_->ask_for_messages() && agreed(); });
  }
  void wait() override {
    step([&] {
      check(statement_ != nullptr, where_,
            ": this rank waits for a message of its own whose other end it has not begun; begin "
            "both, async");
      if (done_ && !rank_->has_messages()) statement_->wait();
      const Clock::time_point start = Clock::now();
      while (!rank_->ask_for_messages() || !agreed()) rank_->pause(start, where_);
      return true;
    });
  }

  bool complete() const { return complete_; }

  // For calls whose handle was dropped: lets go of the arrays once the GPU is done with them.
  void release_if_done() {
    if (done_ && statement_->test() && done_->reached()) test();
  }

  // Asks NCCL, in the communicator's stream and behind all that the calling thread's stream was
  // asked for.
  template <class Ask>
  void ask(Comm& comm, const Ask& how) {
    const cuda::DeviceGuard guard(rank_->device.index);
    const std::shared_ptr<core::Point> ready = rank_->exchange().point();
    const cuda::StreamScope scope(comm.stream());
    ready->join();
    how(End{comm, rank_->exchange(), rank_->device, group_->host->rank(), group_->host->size()},
        where_);
    done_ = rank_->exchange().point();
    comm_ = &comm;
    number_ = comm.next();
  }

  // Tells the other ranks what this one has begun, or, of a message, asked for.
  void state(Engine& host) {
    Call statement = call;
    statement.moves = false;
    statement.device = {DeviceType::cuda, 0};  // each rank has another one
    statement.input = nullptr;
    statement.output = nullptr;
    statement_ = host.post(std::move(statement), {}, {});
  }

  bool stated_by_both() const { return statement_->test(); }

  // Whether NCCL's call, if it was asked for, waits for no other rank's.
  bool waits_for_nobody() const { return complete_ || !done_ || !statement_ || statement_->test(); }

  // Where something has failed: whether this call is one that all ranks have asked for.
  void note_agreed() noexcept {
    try {
      if (!complete_ && agreed()) comm_->agreed(number_, done_);
    } catch (const std::exception&) {
      // it is none
    }
  }

  const Call call;

 private:
  bool agreed() const { return done_ && statement_ && statement_->test(); }

  template <class Agreed>
  bool step(const Agreed& is_agreed) {
    if (complete_) {
      done_->join();
      return true;
    }
    try {
      if (!is_agreed()) return false;
      comm_->agreed(number_, done_);
      comm_->check_health(where_);
      done_->join();
    } catch (...) {
      rank_->give_up();
      throw;
    }
    complete_ = true;
    input_ = {};  // freed behind all that this stream was asked for
    output_ = {};
    return true;
  }

  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<GpuGroup> group_;
  std::string where_;
  core::Array input_, output_;
  std::shared_ptr<core::Point> done_;  // the communicator's stream is there when the call is made
  std::shared_ptr<Pending> statement_;
  Comm* comm_ = nullptr;  // lives as long as the group
  uint64_t number_ = 0;   // in its stream
  bool complete_ = false;
};

bool GpuRank::ask_for_messages() {
  bool none_left = true;
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    for (auto& [ends, messages] : group->lanes) {
      while (!messages.waiting.empty()) {
        NcclPending& first = *messages.waiting.front();
        if (!first.stated_by_both()) break;
        Comm* const comm = messages.lane->ready();
        none_left = none_left && comm != nullptr;
        if (comm == nullptr) break;
        first.ask(*comm, [&](const End& end, const std::string& where) {
          ask_message(end, first.call, where);
        });
        first.state(*group->meeting);
        messages.waiting.pop_front();
      }
    }
  }
  return none_left;
}

bool GpuRank::has_messages() const {
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    for (const auto& [ends, messages] : group->lanes) {
      if (!messages.waiting.empty()) return true;
    }
  }
  return false;
}

bool GpuRank::others_have_asked() noexcept {
  try {
    const Clock::time_point start = Clock::now();
    for (const auto& pending : begun) {
      while (pending && !pending->waits_for_nobody()) pause(start, "free");
    }
    return true;
  } catch (const std::exception&) {
    return false;  // the rank hears of it in its next call
  }
}

void GpuRank::give_up() noexcept {
  const Clock::time_point deadline = Clock::now() + kLast;
  for (const auto& pending : begun) pending->note_agreed();
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    group->comm->abort(deadline);
    for (auto& [ends, messages] : group->lanes) {
      messages.lane->abort(deadline);
      messages.waiting.clear();
    }
    group->own.clear();
  }
}

// A call of the host's engine. Messages on the GPU go on meanwhile: others may wait for them.
class HostPending : public Pending {
 public:
  HostPending(std::shared_ptr<GpuRank> rank, std::shared_ptr<Pending> call, std::string where)
      : rank_(std::move(rank)), call_(std::move(call)), where_(std::move(where)) {}

  bool test() override {
    rank_->ask_for_messages();
    return call_->test();
  }
  void wait() override {
    const Clock::time_point start = Clock::now();
    while (rank_->has_messages() && !test()) rank_->pause(start, where_);
    call_->wait();
  }

 private:
  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<Pending> call_;
  std::string where_;
};

// A message to the rank itself is two calls: the copy is made when both have begun.
void begin_own(GpuGroup& group, const std::shared_ptr<NcclPending>& message) {
  const auto other = std::find_if(group.own.begin(), group.own.end(), [&](const auto& each) {
    return each->call.op != message->call.op;
  });
  if (other == group.own.end()) return group.own.push_back(message);
  const std::shared_ptr<NcclPending> first = *other;
  group.own.erase(other);
  const Call& send = message->call.op == Op::send ? message->call : first->call;
  const Call& recv = message->call.op == Op::send ? first->call : message->call;
  message->ask(*group.comm, [&](const End& end, const std::string&) {
    const int64_t bytes =
        std::min(send.size * item_size(send.dtype), recv.size * item_size(recv.dtype));
    end.exchange.copy(send.input, recv.output, bytes);
  });
  first->ask(*group.comm, [](const End&, const std::string&) {});  // behind the copy
  message->state(*group.host);
  first->state(*group.host);
}

std::shared_ptr<GpuGroup> join(const std::shared_ptr<GpuRank>& rank, std::shared_ptr<Engine> host,
                               std::shared_ptr<Engine> meeting, std::string axis) {
  auto group = std::make_shared<GpuGroup>();
  group->comm = meet(*meeting, axis, rank->device, rank->timeout);
  group->host = std::move(host);
  group->meeting = std::move(meeting);
  group->axis = std::move(axis);
  rank->groups.push_back(group);
  return group;
}

class NcclEngine : public Engine {
 public:
  NcclEngine(std::shared_ptr<GpuRank> rank, std::shared_ptr<GpuGroup> group)
      : rank_(std::move(rank)), group_(std::move(group)) {}

  EngineKind kind() const override { return EngineKind::nccl; }
  Device device() const override { return rank_->device; }
  int rank() const override { return host().rank(); }
  int size() const override { return host().size(); }
  std::span<const int> world_ranks() const override { return host().world_ranks(); }

  std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) override {
    uint64_t& next = next_[lane_of(call)];
    if (call.device.type != DeviceType::cuda) {
      std::string where = describe(call, next++, group_->axis);
      auto pending = host().post(std::move(call), std::move(input), std::move(output));
      return std::make_shared<HostPending>(rank_, std::move(pending), std::move(where));
    }
    check(call.device == rank_->device, name(call.op), ": the array is on ", call.device,
          ", the GPU of rank ", rank(), " is ", rank_->device);
    auto pending = std::make_shared<NcclPending>(rank_, group_, next, std::move(call),
                                                 std::move(input), std::move(output));
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

  std::shared_ptr<Engine> group(std::span<const int> members, const std::string& axis) override {
    std::shared_ptr<Engine> part = host().group(members, axis);
    std::shared_ptr<Engine> meeting = meeting_of(*part, axis);
    return std::make_shared<NcclEngine>(rank_, join(rank_, std::move(part), meeting, axis));
  }

  void drain() override {
    while (!rank_->begun.empty()) {
      rank_->begun.front()->wait();
      rank_->begun.erase(rank_->begun.begin());
    }
    host().drain();
  }

  void abandon() override {
    for (const auto& pending : rank_->begun) pending->note_agreed();
    host().abandon();  // after which it is known of every call
    rank_->give_up();
    rank_->begun.clear();
  }

 private:
  // A message's lane, and whether this is its receiving end: of a lane to itself a rank has both.
  using LaneEnd = std::pair<std::pair<int, int>, bool>;
  LaneEnd lane_of(const Call& call) const {
    if (call.op == Op::send) return {{rank(), call.root}, false};
    if (call.op == Op::recv) return {{call.root, rank()}, true};
    return {{-1, -1}, false};
  }
  Engine& host() const { return *group_->host; }

  void begin(const std::shared_ptr<NcclPending>& pending) {
    const Call& call = pending->call;
    if (call.op != Op::send && call.op != Op::recv) {
      pending->ask(*group_->comm, [&](const End& end, const std::string& where) {
        ask_collective(end, call, where);
      });
      return pending->state(host());
    }
    if (call.root == rank()) return begin_own(*group_, pending);
    const std::pair<int, int> ends = lane_of(call).first;
    Messages& messages = group_->lanes[ends];
    if (!messages.lane) {
      messages.lane = std::make_unique<Lane>(*group_->meeting, ends.first, ends.second,
                                             group_->axis, rank_->device, rank_->timeout);
    }
    pending->state(host());
    messages.waiting.push_back(pending);
  }

  void sweep() {
    for (const auto& pending : rank_->begun) {
      if (pending.use_count() == 1) pending->release_if_done();
    }
    std::erase_if(rank_->begun, [](const auto& pending) { return pending->complete(); });
  }

  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<GpuGroup> group_;
  std::map<LaneEnd, uint64_t> next_;
};

}  // namespace

std::shared_ptr<Engine> make_engine(std::shared_ptr<Engine> host, int local_rank, int local_size,
                                    double timeout) {
  const std::shared_ptr<Engine> meeting = meeting_of(*host, "world");
  auto rank = std::make_shared<GpuRank>(choose_gpu(*meeting, local_rank, local_size), timeout);
  std::shared_ptr<GpuGroup> world = join(rank, std::move(host), meeting, "world");
  return std::make_shared<NcclEngine>(std::move(rank), std::move(world));
}

}  // namespace hero::dist::nccl
