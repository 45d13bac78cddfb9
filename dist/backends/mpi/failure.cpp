// The part of MpiProgress for failures, time-outs and the end of a run.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include <signal.h>

#include <hero/core/error.h>
#include <hero/dist/backends/mpi/progress.h>
#include <hero/dist/backends/notices.h>

namespace hero::dist {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);  // between two looks at the time
constexpr double kUnheard = 0.5;  // seconds for the verdict, before rank 0 is told by no other
constexpr double kGone = 2.0;     // seconds for the answer of ranks that a time-out has waited for
constexpr auto kLast = std::chrono::milliseconds(450);  // until all of a host have said theirs

volatile sig_atomic_t stopped = 0;

void on_stop(int) { stopped = 1; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// [note: failure between processes]
// Whoever knows of a failure tells rank 0, and the first to reach it is everybody's: rank 0 tells
// all (`verdict`). A rank that has read that begins no further call and says so (`final`), with the
// numbers of those that it has begun. Rank 0 tells all what all have said (`finals`): by that a
// rank knows of each call whether all parties have begun it. Then it goes on and is complete, any
// other will never be, and all ranks decide alike. Only then does a rank throw, and its arrays are
// its own.
//
// All this goes by the tree of ranks (RankTree), and so does the end of the run: no rank has
// connections to more than log2 N others for it, and what ranks say together is one message. Where
// a process on the way is stopped, a failure is told to rank 0 once more, by no other.
void MpiProgress::fail(const Failure& failure, const std::vector<int>& missing,
                       const std::string& tail) {
  if (failed_ || failing_) return;
  failing_ = failure;
  failing_since_ = Clock::now();
  if (world_.rank() == 0) return hear_failure(failure, missing, tail);
  Packet packet = note(Note::fail);
  put_failure(packet, failure);
  packet.put(missing).put(tail);
  fail_ = packet;
  if (!std::exchange(passed_fail_, true)) tell_up(packet);
}

void MpiProgress::hear_fail(Packet& packet) {
  if (world_.rank() > 0) {
    if (!std::exchange(passed_fail_, true)) tell_up(packet);
    return;
  }
  const Failure failure = take_failure(packet);
  const auto missing = packet.take_list<int>();
  hear_failure(failure, missing, packet.take<std::string>());
}

void MpiProgress::hear_failure(Failure failure, const std::vector<int>& missing,
                               const std::string& tail) {
  if (failed_) return;
  for (const int rank : missing) {
    const std::string elsewhere = sent_.text(rank);
    if (elsewhere.empty()) continue;
    failure.line += " (rank " + std::to_string(rank) + " waits in " + elsewhere + ")";
    break;
  }
  failure.line += tail;
  if (!tail.empty()) tell_late();  // what to do about a time-out
  Packet packet = note(Note::verdict);
  put_failure(packet, failure);
  tell_down(packet);
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
  ToldByAll own;
  own.add(told());
  hear_final(own);
}

// Of this rank, or of all in one of the parts below it.
void MpiProgress::hear_final(const ToldByAll& told) {
  final_.add(told);
  if (++final_parts_ <= tree_.children().size()) return;
  const bool first = world_.rank() == 0;
  Packet packet = note(first ? Note::finals : Note::final);
  put_told_by_all(packet, final_);
  if (!first) return tell_up(packet);
  tell_down(packet);
  finals_ = final_;
}

void MpiProgress::tell_end(const std::optional<std::string>& thrown) {
  told_end_ = true;
  ended_well_ = !thrown;
  ended_at_ = Clock::now();
  if (thrown) hear_threw(*thrown);
  count_end();
}

void MpiProgress::hear_threw(const std::string& message) {
  if (std::exchange(passed_threw_, true)) return;
  if (world_.rank() > 0) return tell_up(note(Note::threw).put(message));
  thrown_ = failed_ && failed_->rank >= 0 ? *failed_ : Failure{-1, message};
  world_.report_(*thrown_);
  reported_ = true;
}

// This rank's program, or all in one of the parts below it.
void MpiProgress::count_end() {
  if (++ended_ <= tree_.children().size()) return;
  if (world_.rank() > 0) return tell_up(note(Note::end));
  Packet packet = note(Note::result);
  packet.put(thrown_.has_value());
  put_failure(packet, thrown_.value_or(Failure{}));
  tell_down(packet);
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
  if (!failed_) report_waiting(now);
}

void MpiProgress::check_overdue(const MpiCall& call) {
  timed_out_ = true;
  tell_late();
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
  if (fail_ && !failed_ && seconds_since(failing_since_) > kUnheard) {
    tell(0, *std::exchange(fail_, std::nullopt));
  }
  if (failed_ && seconds_since(failed_since_) > patience + more) die(*failed_);
  if (failing_ && !failed_ && seconds_since(failing_since_) > patience + more) die(*failing_);
}

void MpiProgress::die(const Failure& failure) {
  if (!reported_) world_.report_(failure);
  transport_.abort(1);
  std::_Exit(1);
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
