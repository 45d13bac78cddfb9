#pragma once
// What a rank with a GPU has begun and not completed.
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/core/error.h>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/cuda/runtime/times.cuh>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/nccl/comm.h>
#include <hero/dist/backends/nccl/lane.h>
#include <hero/dist/backends/nccl/moves.h>
#include <hero/dist/backends/nccl/rank_watch.h>
#include <hero/dist/backends/nccl/rendezvous.h>
#include <hero/dist/backends/nccl/thread_ranks.h>
#include <hero/dist/backends/nccl/watchdog.h>
#include <hero/dist/backends/notices.h>

namespace hero::dist::nccl {

// The order of calls: [note: agreed means asked] in backend.h.
using Clock = std::chrono::steady_clock;

class NcclPending;
struct GpuGroup;

/// A rank, and what it has begun and not completed, over all its groups, oldest first.
struct GpuRank : ThreadRank {
  explicit GpuRank(Terms of_all)
      : ThreadRank(of_all.device.index, of_all.timeouts.step),
        terms(std::move(of_all)),
        device(terms.device) {}
  ~GpuRank() override { destroy_retired(); }
  const Terms terms;
  const Device device;
  const std::unique_ptr<cuda::GpusShared> shares =
      terms.shared ? std::make_unique<cuda::GpusShared>() : nullptr;
  std::vector<std::shared_ptr<NcclPending>> begun;
  std::vector<std::weak_ptr<GpuGroup>> groups;

  core::Exchange& exchange() const {
    return core::accelerator("nccl", device).exchange(device.index);
  }
  // Asks for messages that both ends have begun, and what else waits until all have; true when
  // there is no such message left.
  bool ask_for_messages();
  bool has_messages() const;
  // Where all that is left to ask for are collectives of one group, in their order: waits as the
  // host's backend does, which knows who is missing, until all ranks have begun the first of them.
  // Returns false, at once, where other things are left, for which other ranks may wait.
  bool wait_for_only_group();
  // As ask_for_messages(), which throws again what this has thrown.
  void go_on_with_messages();
  // Between two looks at what others have begun; an Error when the time since `start` is over.
  void pause(Clock::time_point start, const std::string& where, Phase phase = Phase::step,
             const std::string& who = "other ranks") const {
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited.count() >= terms.timeouts.of(phase)) {
      tell_late();
      fail(where, ": ", terms.timeouts.text(phase), ": NCCL still waits for ", who,
           timeout_advice(phase));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // After an error: nothing of this rank is under way any more.
  void give_up() noexcept;
  // Returns when it is known of all calls for which the stream waits that all ranks have asked for
  // them; those of one group may be left out.
  void confirm_all_but(const GpuGroup* group);
  void confirm() override { confirm_all_but(nullptr); }
  void check_waited() override { terms.watch->check(); }
  bool wait_for_others(const std::function<bool()>& open) noexcept override;
  bool asking = false;         // a call is on its way to NCCL and the other ranks at this moment
  std::exception_ptr unheard;  // of asking for messages, where nobody could hear of it
  bool given_up = false;       // there is nothing to confirm any more
};

/// Stands around what asks NCCL for a call, or tells the other ranks of it.
class AskingScope {
 public:
  explicit AskingScope(GpuRank& rank) : rank_(rank), before_(std::exchange(rank.asking, true)) {}
  ~AskingScope() { rank_.asking = before_; }
  AskingScope(const AskingScope&) = delete;
  AskingScope& operator=(const AskingScope&) = delete;

 private:
  GpuRank& rank_;
  const bool before_;
};

/// Messages that have begun and are not asked for, in the order of their lane.
struct Messages {
  std::unique_ptr<Lane> lane;
  std::deque<std::shared_ptr<NcclPending>> waiting;
};

/// A group to which the rank belongs.
struct GpuGroup {
  std::shared_ptr<Backend> host;
  std::shared_ptr<Backend> rendezvous;  // the host's too, with calls that are not the ranks'
  Comms comms;
  std::string axis;
  std::map<std::pair<int, int>, Messages> lanes = {};
  /// Messages to oneself that miss their other end.
  std::vector<std::shared_ptr<NcclPending>> own = {};
  /// Collectives that have begun and are not asked for, as ranks share GPUs, in their order.
  std::deque<std::shared_ptr<NcclPending>> waiting = {};
};

/// A call of arrays on the GPU.
class NcclPending : public Pending {
 public:
  NcclPending(std::shared_ptr<GpuRank> rank, std::shared_ptr<GpuGroup> group, uint64_t sequence,
              Call made, core::Array input, core::Array output)
      : call(std::move(made)),
        rank_(std::move(rank)),
        group_(std::move(group)),
        sequence_(sequence),
        where_(describe(call, sequence, group_->axis)),
        input_(std::move(input)),
        output_(std::move(output)) {}

  bool test() override {
    return step([&] { return rank_->ask_for_messages() && agreed(); }, Join::yes);
  }
  void wait() override {
    if (complete_ || !runs_ahead()) return confirm(Join::yes);
    done_->join();
    if (!watch_) watch_ = std::make_unique<CallWatch>(statement_, *comm_, number_);
    release();
  }
  // Returns when all ranks have asked for the call.
  enum class Join { yes, no };  // whether the calling thread's stream waits for it then
  void confirm(Join join) {
    const auto known = [&] {
      check(statement_ != nullptr, where_,
            ": this rank waits for a message of its own whose other end it has not begun; begin "
            "both, async");
      if (done_ && !rank_->has_messages()) statement_->wait();
      Clock::time_point start = Clock::now();
      const std::string who = is_message() ? "rank " + std::to_string(call.root) : "other ranks";
      while (!rank_->ask_for_messages() || !agreed()) {
        if (rank_->wait_for_only_group()) {
          start = Clock::now();
        } else {
          rank_->pause(start, where_, call.phase, who);
        }
      }
      return true;
    };
    step(known, join);
  }
  // Whether the stream waits for the call, and it is not known that all have asked for it.
  bool unconfirmed() const { return watch_ && !complete_; }
  const GpuGroup* group() const { return group_.get(); }

  bool complete() const override { return complete_; }
  bool records_end() const override { return asked(); }

  // For calls whose handle was dropped: lets go of the arrays once the GPU is done with them.
  void release_if_done() {
    if (unconfirmed()) {
      step([&] { return agreed(); }, Join::no);
      return;
    }
    if (done_ && statement_->test() && done_->reached()) test();
  }

  // Tells the other ranks that this one has come, before a communicator's first group, in which the
  // hosts of all wait for each other: who is missing is known then, whatever NCCL knows.
  void announce() {
    Call coming = statement();
    coming.number = sequence_;
    coming_ = group_->rendezvous->post(std::move(coming), {}, {});
  }

  // Asks NCCL, in the communicator's stream and behind all that the calling thread's stream was
  // asked for.
  template <class Ask>
  void ask(Comm& comm, const Ask& how) {
    const cuda::DeviceGuard guard(rank_->device.index);
    const std::shared_ptr<core::DeviceEvent> ready =
        begun_ ? begun_ : rank_->exchange().record_event();
    const cuda::StreamScope scope(comm.stream());
    ready->join();
    if (after_) after_->done_->join();
    const AskingScope asking(*rank_);
    const Clock::time_point start = Clock::now();
    try {
      how(end_of(comm), where_);
    } catch (...) {
      // NCCL waited for a rank that has failed: the host's backend says which
      if (group_->host->has_failed()) {
        rank_->confirm();
        state(statement_ ? *group_->rendezvous : *group_->host);
      }
      rank_->terms.watch->check();
      if (*comm.aborted()) name_missing(start);
      throw;
    }
    coming_ = nullptr;
    awaited_ = comm.take_awaited();
    done_ = rank_->exchange().record_event();
    comm_ = &comm;
    number_ = rank_->terms.watch->next();
    comm.calls().add({number_, where_, call.phase, ready, done_, call.flight});
  }

  void ask_all(Comm& comm) {
    ask(comm, [&](const End& end, const std::string& where) {
      ask_collective(end, call, where, std::move(staged_));
    });
  }

  // Of a call that is asked for later, wherever the thread is then: it comes behind all that the
  // calling thread's stream was asked for.
  void mark_begin() {
    const cuda::DeviceGuard guard(rank_->device.index);
    begun_ = rank_->exchange().record_event();
  }
  // The same for a collective, and takes the memory that it needs.
  void stage(Comm& comm) {
    mark_begin();
    const cuda::DeviceGuard guard(rank_->device.index);
    const cuda::StreamScope scope(comm.stream());
    staged_ = staging_of(end_of(comm), call);
  }
  bool asked() const { return done_ != nullptr; }
  // The call is asked for behind that one, which has been asked for.
  void follow(std::shared_ptr<NcclPending> other) {
    after_ = std::move(other);
    follows_ = true;
  }

  // Tells the other ranks what this one has begun, or, of a message, asked for. They hear of a call
  // after another when all have asked for that one: who then waits for this one waits for nothing
  // that may not come.
  void state(Backend& host) {
    const AskingScope asking(*rank_);
    Call said = statement();
    if (after_ && asked()) said.after = std::exchange(after_, nullptr)->statement_;
    statement_ = host.post(std::move(said), {}, {});
    if (!awaited_) return;
    awaited_->opens_when(
        [said = statement_, aborted = comm_->aborted()] { return *aborted || said->complete(); });
  }

  bool is_message() const { return call.op == Collective::send || call.op == Collective::recv; }
  bool stated_by_all() const { return statement_->test(); }
  void wait_for_all() const { statement_->wait(); }
  // Of a message whose lane is not there: throws what the host's backend says of a rank that has
  // failed, for which the lane may wait.
  void check_others() {
    if (!group_->host->has_failed()) return;
    state(*group_->rendezvous);
    fail(where_, ": another rank has failed");
  }

  // Whether NCCL's call, if it was asked for, waits for no other rank's.
  bool waits_for_nobody() const { return complete_ || !done_ || !statement_ || statement_->test(); }

  // Where something has failed: tells the communicator of a call that all ranks have asked for;
  // false for a collective of which that is not known.
  bool note_agreed() noexcept {
    if (complete_ || !done_) return true;
    const bool all = statement_ && statement_->complete();
    if (all) comm_->calls().agree(number_);
    return all || is_message();
  }

  const Call call;

 private:
  Call statement() const {
    Call said = call;
    said.moves = false;
    said.device = {DeviceType::cuda, 0};  // each rank has another one
    said.input = nullptr;
    said.output = nullptr;
    said.flight = {};
    return said;
  }

  // Where NCCL has waited from `start` on until the time-out was over: throws what the host's
  // backend says of the ranks that have not come to this call, if there are any.
  void name_missing(Clock::time_point start) const {
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(5);
    while (coming_ && !coming_->complete() && Clock::now() < deadline) {
      if (coming_->in_vain(start)) coming_->wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  End end_of(Comm& comm) const {
    return {comm, rank_->exchange(), rank_->device, group_->host->rank(), group_->host->size()};
  }

  bool agreed() const { return done_ && statement_ && statement_->test(); }

  // Whether the stream may wait for the call before it is known that all have asked for it. The
  // others must come to know it without a further word of this rank, and where every launch waits,
  // or may wait for the times of those before, the host would have to confirm each.
  bool runs_ahead() const {
    return done_ && statement_ && !is_message() && !follows_ && !rank_->has_messages() &&
           !cuda::synchronous() && (cuda::watched_launches & cuda::kEvents) == 0;
  }

  // Lets go of the arrays, which are freed behind all that this stream was asked for.
  void release() {
    input_ = {};
    output_ = {};
  }

  template <class Agreed>
  bool step(const Agreed& is_agreed, Join join) {
    if (complete_) {
      if (join == Join::yes) done_->join();
      return true;
    }
    try {
      if (!is_agreed()) return false;
      comm_->calls().agree(number_);
      comm_->check_health(where_);
      if (join == Join::yes) done_->join();
    } catch (...) {
      watch_.reset();
      rank_->give_up();
      throw;
    }
    complete_ = true;
    watch_.reset();
    awaited_.reset();
    release();
    return true;
  }

  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<GpuGroup> group_;
  uint64_t sequence_;
  std::string where_;
  core::Array input_, output_;
  core::Array staged_;
  std::shared_ptr<core::DeviceEvent> begun_;  // null: where it is asked for
  std::shared_ptr<core::DeviceEvent>
      done_;  // the communicator's stream is there when the call is made
  std::shared_ptr<Pending> statement_, coming_;
  std::shared_ptr<NcclPending> after_;
  bool follows_ = false;  // another call
  std::unique_ptr<CallWatch> watch_;
  std::unique_ptr<cuda::AwaitedWork> awaited_;
  Comm* comm_ = nullptr;  // lives as long as the group
  uint64_t number_ = 0;   // of the rank's calls
  bool complete_ = false;
};

/// A call of the host's backend. Messages on the GPU go on meanwhile: others may wait for them.
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
  bool complete() const override { return call_->complete(); }
  const std::shared_ptr<Pending>& call() const { return call_; }

 private:
  std::shared_ptr<GpuRank> rank_;
  std::shared_ptr<Pending> call_;
  std::string where_;
};

}  // namespace hero::dist::nccl
