// The part of MpiProgress that knows of failure, time and the end.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <signal.h>

#include <hero/core/error.h>
#include <hero/dist/engines/mpi/progress.h>

namespace hero::dist {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);      // between two looks at the time
constexpr auto kSettled = std::chrono::milliseconds(50);  // who waits for as long tells rank 0
constexpr double kGone = 2.0;  // seconds for the answer of ranks that a time-out has waited for
constexpr auto kLast = std::chrono::milliseconds(450);  // until all of a host have said theirs

volatile sig_atomic_t stopped = 0;

void on_stop(int) { stopped = 1; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// [note: failure between processes]
// Whoever knows of a failure tells rank 0, and the first to reach it is everybody's: rank 0 tells
// all (`verdict`). A rank that has read that begins no further call and says so to all (`final`),
// with the numbers of those that it has begun. So who has heard the `final` of all knows of each
// call whether all parties have begun it: then it goes on and is complete, any other will never be,
// and all ranks decide alike. Only then does a rank throw, and its arrays are its own.
void MpiProgress::fail(const Failure& failure, const std::vector<int>& missing,
                       const std::string& tail) {
  if (failed_ || failing_) return;
  failing_ = failure;
  failing_since_ = Clock::now();
  if (world_.rank() == 0) return hear_failure(failure, missing, tail);
  Packet packet = note(Note::fail);
  put_failure(packet, failure);
  packet.put(missing).put(tail);
  tell(0, packet);
}

void MpiProgress::hear_failure(Failure failure, const std::vector<int>& missing,
                               const std::string& tail) {
  if (failed_) return;
  for (const int rank : missing) {
    const std::string& elsewhere = watch_.text(rank);
    if (elsewhere.empty()) continue;
    failure.line += " (rank " + std::to_string(rank) + " waits in " + elsewhere + ")";
    break;
  }
  failure.line += tail;
  Packet packet = note(Note::verdict);
  put_failure(packet, failure);
  tell_all(packet);
  adopt(failure);
}

void MpiProgress::adopt(const Failure& failure) {
  failed_ = failure;
  failed_since_ = Clock::now();
  std::vector<std::shared_ptr<MpiCall>> posted;
  {
    const std::lock_guard<std::mutex> lock(world_.mutex_);
    world_.failure_ = failure;  // nothing is posted from here on
    world_.failed_.store(true);
    posted.swap(world_.posted_);
  }
  for (const auto& call : posted) begin(call);
  Packet packet = note(Note::final);
  put_told(packet, told());
  tell_all(packet);
}

void MpiProgress::tell_end(const std::optional<std::string>& thrown) {
  told_end_ = true;
  if (!thrown) {
    Packet packet = note(Note::finished);
    put_told(packet, told());
    tell_all(packet);
    told_ += static_cast<uint64_t>(world_.size() - 1);
  }
  if (world_.rank() == 0) return hear_end(0, thrown);
  Packet packet = note(Note::end);
  packet.put(thrown.has_value()).put(thrown.value_or(""));
  tell(0, packet);
}

void MpiProgress::hear_end(int from, const std::optional<std::string>& thrown) {
  ended_[static_cast<size_t>(from)] = true;
  if (thrown && !thrown_) {
    thrown_ = failed_ && failed_->rank >= 0 ? *failed_ : Failure{-1, *thrown};
    world_.report_(*thrown_);
    reported_ = true;
  }
  if (!std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) return;
  Packet packet = note(Note::result);
  packet.put(thrown_.has_value());
  put_failure(packet, thrown_.value_or(Failure{}));
  tell_all(packet);
  finish(thrown_);
}

void MpiProgress::finish(const std::optional<Failure>& outcome) {
  free_groups();
  over_ = true;
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  world_.outcome_ = outcome;
  world_.over_ = true;
  world_.completed_.notify_all();
}

void MpiProgress::look_at_time() {
  const Clock::time_point now = Clock::now();
  if (over_ || now - looked_ < kLook) return;
  looked_ = now;
  check_signal();
  for (size_t i = 0; i < calls_.size(); ++i) {  // a failure may add calls
    if (calls_[i]->overdue.load()) check_overdue(*calls_[i]);
  }
  check_patience();
  if (failed_) return;
  call_rolls(now);
  report_blocked(now);
}

void MpiProgress::check_overdue(const MpiCall& call) {
  timed_out_ = true;
  if (failed_ || failing_) return;
  const std::vector<int> missing = absent(call);
  const std::vector<int> slow = transport_.unfinished();
  const std::string bytes = slow.empty() ? "" : " from and to " + rank_list(slow);
  const Phase phase = call.call.phase;
  fail({-1, call.where() + ": " + world_.timeouts_.text(phase) + ": " +
                (missing.empty() ? "all ranks have come, but not all bytes" + bytes
                                 : rank_list(missing) + " did not arrive")},
       missing, timeout_advice(phase));
}

// After a failure a rank that computes on without end, or is gone, must not keep the others. One
// that came too late and does not even answer is gone: its process is stopped, or its host cut off.
void MpiProgress::check_patience() {
  const bool gone = timed_out_ && !finals_are_in();
  const double patience = gone ? kGone : std::clamp(world_.timeouts_.step, 5.0, 30.0);
  const double more = world_.rank() == 0 ? 0.0 : gone ? 1.0 : 5.0;  // rank 0's message says most
  if (failed_ && seconds_since(failed_since_) > patience + more) die(*failed_);
  if (failing_ && !failed_ && seconds_since(failing_since_) > patience + more) die(*failing_);
}

void MpiProgress::die(const Failure& failure) {
  if (!reported_) world_.report_(failure);
  transport_.abort(1);
  std::_Exit(1);
}

Blocked MpiProgress::blocked() const {
  Blocked state;
  state.told = told_;
  state.heard = heard_;
  for (const auto& call : calls_) {
    if (call->agreed || call->disagrees) return state;  // its bytes or statements are under way
  }
  if (!rolls_are_called()) return state;
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  if (!world_.posted_.empty() || world_.threw_) return state;
  if (world_.ended_) {
    state.blocked = state.ended = told_end_;
  } else if (world_.waiting_ != nullptr && world_.waiting_->state.load() == MpiCall::kBegun) {
    const MpiCall& call = *world_.waiting_;
    const std::vector<int> missing = absent(call);
    state.blocked = true;
    state.text = call.where() + (missing.empty() ? "" : " for " + rank_list(missing));
  }
  return state;
}

// The call that the rank's thread waits in, and for whom; empty while it computes.
std::string MpiProgress::waits() const {
  const std::lock_guard<std::mutex> lock(world_.mutex_);
  if (world_.waiting_ == nullptr) return {};
  const MpiCall& call = *world_.waiting_;
  const std::vector<int> missing = absent(call), slow = transport_.unfinished();
  if (!missing.empty()) return call.where() + " for " + rank_list(missing);
  return call.where() + (slow.empty() ? "" : " for bytes from and to " + rank_list(slow));
}

void MpiProgress::report_blocked(Clock::time_point now) {
  const auto alike = [](const Blocked& a, const Blocked& b) {
    return a.blocked == b.blocked && a.told == b.told && a.heard == b.heard && a.text == b.text;
  };
  const Blocked state = blocked();
  if (!alike(state, seen_)) {
    seen_ = state;
    seen_since_ = now;
  }
  const bool lasts = now - seen_since_ >= kSettled;
  const bool news =
      state.blocked ? lasts && !alike(state, reported_blocked_) : reported_blocked_.blocked;
  if (news) {
    reported_blocked_ = state;
    if (world_.rank() == 0) {
      watch_.report(0, state);
    } else {
      Packet packet = note(Note::status);
      tell(0, put_blocked(packet, state));
    }
  }
  if (world_.rank() == 0 && watch_.asks()) {
    Packet packet = note(Note::query);
    packet.put(watch_.number());
    tell_all(packet);
    answer(watch_.number());
  }
}

void MpiProgress::answer(uint64_t number) {
  const Blocked state = blocked();
  if (world_.rank() == 0) {
    if (watch_.answer(0, number, state)) hear_failure({-1, watch_.deadlock_text()}, {}, {});
    return;
  }
  Packet packet = note(Note::answer);
  packet.put(number);
  tell(0, put_blocked(packet, state));
}

// [note: a process that is stopped]
// When a process is lost, mpirun and srun stop the others with SIGTERM and kill them a second
// later. Time enough to say in which call this rank was. A handler of the program's own stays.
// And Open MPI writes to connections whose other end is gone: without a word SIGPIPE would end a
// rank that is well, before it can say anything.
StopSignal::StopSignal() {
  struct sigaction now {};
  ::sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) {
    pipes_ = true;
    ::signal(SIGPIPE, SIG_IGN);
  }
  ::sigaction(SIGTERM, nullptr, &now);
  if (now.sa_handler != SIG_DFL) return;
  ours_ = true;
  stopped = 0;
  now.sa_handler = on_stop;
  ::sigaction(SIGTERM, &now, nullptr);
}

StopSignal::~StopSignal() {
  if (ours_) ::signal(SIGTERM, SIG_DFL);
  if (pipes_) ::signal(SIGPIPE, SIG_DFL);
}

bool StopSignal::came() { return stopped != 0; }

void StopSignal::obey(const MpiWorld::Report& report, int rank, const std::string& where) {
  static std::atomic<bool> obeyed{false};  // by the thread that makes progress, or by the rank's
  if (!obeyed.exchange(true)) {
    std::string line = "stopped by SIGTERM";
    if (!where.empty()) line += " in " + where;
    report({rank, line + "; another rank's process has ended, or the job was cancelled"});
  }
  // as soon as one process of a host is gone Open MPI kills its others
  std::this_thread::sleep_for(kLast);
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
  std::_Exit(1);
}

void MpiProgress::check_signal() {
  if (StopSignal::came()) StopSignal::obey(world_.report_, world_.rank(), waits());
}

}  // namespace hero::dist
