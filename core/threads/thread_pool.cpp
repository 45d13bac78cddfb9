#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/thread_pool.h>
#include <hero/core/threads/at_fork.h>
#include <hero/core/threads/cores.h>
#include <hero/core/threads/pause.h>
#include <hero/core/threads/thread_state.h>

namespace hero {
namespace {

constexpr int kMaxThreads = 1024;
// [note: how long a thread waits awake]
// To wake a sleeping thread takes 50 us on a virtual machine. A worker therefore waits for its next
// job for about 20 us of pauses and then 100 us of yields, which let every other thread go first:
// longer than most gaps between the kernels of a training step. A caller whose workers are still at
// their last chunks yields for about a millisecond.
constexpr int kPauses = 1000;
constexpr int kWorkerYields = 200;
constexpr int kCallerYields = 2000;

thread_local bool inside_region = false;

int hardware_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

int default_threads() {
  const char* text = std::getenv("HERO_NUM_THREADS");
  if (text == nullptr || *text == '\0') return hardware_threads();
  int n = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, n);
  check(parsed.ec == std::errc{} && parsed.ptr == end && n >= 1 && n <= kMaxThreads,
        "thread_pool: HERO_NUM_THREADS is not a whole number from 1 to 1024: '", text,
        "'; set it to the number of threads, or unset it");
  return n;
}

// [note: how a region runs]
// state_ holds, in one word, whether a job is open, which one (a count), and how many workers are
// in it. The caller fills in the job, opens it, and takes chunks like everybody else; a worker that
// sees an open job enters by adding one to the word. When the chunks are all handed out the caller
// closes the job and waits for those who entered. A worker that wakes too late finds it closed and
// sleeps again, so nobody waits for a worker that is not needed.
//
// [note: shares]
// Neighbouring chunks are one thread's share, and where arrays have one size their shares are the
// same parts of memory in every region: what a thread has written is still in its core's caches
// when it reads that, and cores that share no cache do not pass it to and fro. A thread whose share
// is done takes chunks of the others'.
class Pool {
 public:
  // `former` is the pool of the process that this one was forked from.
  Pool(int threads, const Pool* former)
      : threads_(threads), former_(former), shares_(static_cast<size_t>(threads)) {}

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void set_threads(int n) {
    const std::lock_guard<std::mutex> lock(region_mutex_);
    if (n == threads()) return;
    std::vector<Share> shares(static_cast<size_t>(n));
    stop_workers();
    shares_.swap(shares);
    threads_.store(n, std::memory_order_relaxed);
  }

  // False if another thread's region is running.
  bool try_run(int64_t n, int64_t grain, detail::ChunkFn fn, void* context) {
    const std::unique_lock<std::mutex> lock(region_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    start_workers();
    fn_ = fn;
    context_ = context;
    n_ = n;
    grain_ = grain;
    const core::ThreadState state = core::ThreadState::of_waiting();
    caller_ = &state;
    divide((n - 1) / grain + 1);
    error_ = nullptr;
    state_.fetch_add(kOneJob | kOpen);
    if (sleeping_.load() > 0) {
      { const std::lock_guard<std::mutex> wake(sleep_mutex_); }
      work_ready_.notify_all();
    }
    take_chunks(0);
    state_.fetch_and(~kOpen);
    wait_for_workers();
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }

 private:
  static constexpr uint64_t kWorkers = 0xffff;  // mask of the number of workers inside
  static constexpr uint64_t kOpen = uint64_t{1} << 16;
  static constexpr uint64_t kOneJob = uint64_t{1} << 17;  // above it: the count of jobs

  static uint64_t job_of(uint64_t state) { return state / kOneJob; }

  void start_workers() {
    const auto wanted = static_cast<size_t>(threads() - 1);
    while (workers_.size() < wanted) {
      try {
        workers_.emplace_back([this, seen = job_of(state_.load()), own = workers_.size() + 1,
                               cores = core::cores_for_started()] {
          core::run_on(cores);
          work(seen, own);
        });
      } catch (const std::system_error&) {
        return;  // the system has no more threads: those that there are do the work
      }
    }
  }

  void stop_workers() {
    {
      const std::lock_guard<std::mutex> lock(sleep_mutex_);
      stopping_.store(true);
    }
    work_ready_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_.store(false);
  }

  void work(uint64_t seen, size_t own) {
    while (wait_for_job(seen)) {
      uint64_t state = state_.load();
      seen = job_of(state);
      bool entered = false;
      while (!entered && (state & kOpen) != 0) {
        entered = state_.compare_exchange_weak(state, state + 1);
      }
      if (!entered) continue;
      seen = job_of(state);
      {
        const core::ThreadState::Scope use(*caller_);
        take_chunks(own);
      }
      const uint64_t left = state_.fetch_sub(1) - 1;
      if ((left & (kWorkers | kOpen)) == 0 && caller_sleeps_.load()) {
        { const std::lock_guard<std::mutex> wake(sleep_mutex_); }
        work_done_.notify_one();
      }
    }
  }

  // Returns when a job newer than `seen` was opened, or false when the pool stops.
  bool wait_for_job(uint64_t seen) {
    const auto ready = [&] { return job_of(state_.load()) != seen || stopping_.load(); };
    if (!spin_until(kWorkerYields, ready)) {
      std::unique_lock<std::mutex> lock(sleep_mutex_);
      sleeping_.fetch_add(1);
      work_ready_.wait(lock, ready);
      sleeping_.fetch_sub(1);
    }
    return !stopping_.load();
  }

  void wait_for_workers() {
    const auto done = [&] { return (state_.load() & kWorkers) == 0; };
    if (spin_until(kCallerYields, done)) return;
    std::unique_lock<std::mutex> lock(sleep_mutex_);
    caller_sleeps_.store(true);
    work_done_.wait(lock, done);
    caller_sleeps_.store(false);
  }

  // See [note: how long a thread waits awake].
  template <class Ready>
  bool spin_until(int yields, const Ready& ready) const {
    // With more threads than cores a pausing thread keeps a working one from its core.
    const int pauses = threads() <= cores_ ? kPauses : 10;
    for (int i = 0; i < pauses; ++i) {
      if (ready()) return true;
      core::pause();
    }
    for (int i = 0; i < yields; ++i) {
      if (ready()) return true;
      std::this_thread::yield();
    }
    return ready();
  }

  // The chunks from `next` on that nobody has taken so far; past `end` there are none.
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };

  void divide(int64_t chunks) {
    chunks_ = chunks;
    sharing_ = static_cast<size_t>(std::min(static_cast<int64_t>(shares_.size()), chunks));
    const auto count = static_cast<int64_t>(sharing_);
    const int64_t each = chunks / count, longer = chunks % count;
    int64_t begin = 0;
    for (int64_t i = 0; i < count; ++i) {
      Share& share = shares_[static_cast<size_t>(i)];
      share.next.store(begin, std::memory_order_relaxed);
      share.end = begin += each + (i < longer ? 1 : 0);
    }
  }

  // Those of the thread's own share first.
  void take_chunks(size_t own) {
    const SerialRegion mark;
    try {
      for (size_t i = 0; i < sharing_; ++i) {
        Share& share = shares_[(own + i) % sharing_];
        for (int64_t at = share.next.fetch_add(1); at < share.end; at = share.next.fetch_add(1)) {
          fn_(context_, at * grain_, at + 1 < chunks_ ? (at + 1) * grain_ : n_);
        }
      }
    } catch (...) {
      // the others stop after their present chunk
      for (size_t i = 0; i < sharing_; ++i) shares_[i].next.store(shares_[i].end);
      const std::lock_guard<std::mutex> lock(error_mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }

  std::atomic<int> threads_;
  [[maybe_unused]] const Pool* const former_;  // kept, so that what it points to counts as in use
  const int cores_ = hardware_threads();
  std::mutex region_mutex_;  // held by the caller whose region runs; guards workers_
  std::vector<std::thread> workers_;

  // The job: written while it is closed and nobody is inside.
  detail::ChunkFn fn_ = nullptr;
  void* context_ = nullptr;
  int64_t n_ = 0;
  int64_t grain_ = 1;
  const core::ThreadState* caller_ = nullptr;  // what the caller's thread has
  int64_t chunks_ = 0;
  size_t sharing_ = 0;         // how many shares the job has
  std::vector<Share> shares_;  // one for each thread
  std::mutex error_mutex_;
  std::exception_ptr error_;

  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};
  std::mutex sleep_mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
};

// [note: how long the pool lives]
// The pool is never destroyed: a static object's destructor may compute, after any static pool were
// gone. A forked child has one thread, the one that forked; the workers of its parent's pool do not
// exist there and are neither woken nor joined: the first to compute makes a pool anew.
std::atomic<Pool*> present_pool = nullptr;
std::atomic<Pool*> former_pool = nullptr;

// How many threads are wanted: the newest ThreadLimit that lives, or else `base`.
struct Limits {
  struct Limit {
    const ThreadLimit* owner;
    std::thread::id thread;
    int threads;
  };
  std::mutex mutex;
  std::vector<Limit> limits;  // oldest first
  int base = 0;               // 0: as the pool begins

  int wanted() {
    const std::lock_guard<std::mutex> lock(mutex);
    return limits.empty() ? base : limits.back().threads;
  }
};

Limits& limits();

// In a forked child: neither the workers nor the limits of other threads exist there.
void begin_anew() {
  Limits& all = limits();
  const auto others = [self = std::this_thread::get_id()](const Limits::Limit& limit) {
    return limit.thread != self;
  };
  std::erase_if(all.limits, others);
  if (Pool* old = present_pool.exchange(nullptr)) {
    former_pool = old;
    if (all.base == 0) all.base = old->threads();
  }
  all.mutex.unlock();
}

Limits& limits() {
  static auto* const all = new Limits;  // see [note: how long the pool lives]
  return *all;
}
[[maybe_unused]] const bool kLimitsAtFork =
    core::at_fork([] { limits().mutex.lock(); }, [] { limits().mutex.unlock(); }, begin_anew);

[[gnu::cold, gnu::noinline]] Pool& make_pool() {
  const int wanted = limits().wanted();
  auto made = std::make_unique<Pool>(wanted > 0 ? wanted : default_threads(), former_pool.load());
  Pool* there = nullptr;
  return present_pool.compare_exchange_strong(there, made.get()) ? *made.release() : *there;
}

Pool& pool() {
  Pool* const there = present_pool.load(std::memory_order_acquire);
  return there != nullptr ? *there : make_pool();
}

// Gives the pool as many threads as are wanted. Others may change what is wanted meanwhile.
void apply_limits() {
  for (int wanted = limits().wanted(), set = 0; set != wanted; wanted = limits().wanted()) {
    pool().set_threads(wanted);
    set = wanted;
  }
}

void check_threads(int n) {
  check(n >= 1 && n <= kMaxThreads, "set_num_threads: not from 1 to 1024: ", n);
  check(!inside_region, "set_num_threads: called inside a parallel region: ", n,
        "; call it between regions");
}

}  // namespace

int num_threads() { return pool().threads(); }

void set_num_threads(int n) {
  check_threads(n);
  {
    Limits& all = limits();
    const std::lock_guard<std::mutex> lock(all.mutex);
    (all.limits.empty() ? all.base : all.limits.back().threads) = n;
  }
  apply_limits();
}

ThreadLimit::ThreadLimit(int n) {
  check_threads(n);
  const int now = num_threads();
  {
    Limits& all = limits();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.base == 0) all.base = now;  // no limit and no number was set so far
    all.limits.push_back({this, std::this_thread::get_id(), n});
  }
  apply_limits();
}

ThreadLimit::~ThreadLimit() {
  {
    Limits& all = limits();
    const std::lock_guard<std::mutex> lock(all.mutex);
    std::erase_if(all.limits, [this](const Limits::Limit& limit) { return limit.owner == this; });
  }
  apply_limits();
}

bool in_parallel_region() { return inside_region; }

SerialRegion::SerialRegion() : former_(std::exchange(inside_region, true)) {}
SerialRegion::~SerialRegion() { inside_region = former_; }

namespace detail {

void run_chunks(int64_t n, int64_t grain, ChunkFn fn, void* context) {
  check(grain > 0, "parallel_for: grain is not positive: ", grain);
  if (!inside_region && pool().threads() > 1 && pool().try_run(n, grain, fn, context)) return;
  for (int64_t begin = 0; begin < n; begin += grain) {
    fn(context, begin, n - begin > grain ? begin + grain : n);
  }
}

}  // namespace detail
}  // namespace hero
