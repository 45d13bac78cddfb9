#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <hero/core/error.h>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/per_device.cuh>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/backends/nccl/comm.h>
#include <hero/dist/backends/nccl/rank_watch.h>
#include <hero/dist/backends/nccl/watchdog.h>
#include <hero/dist/backends/notices.h>

namespace hero::dist::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// Most calls are queued within microseconds: the first looks at NCCL's state follow at once.
constexpr int kLooks = 200;
constexpr auto kPause = std::chrono::microseconds(50);  // between two of the later ones

// Looks again and again whether NCCL's own threads are done, with `ready`.
template <class Ready>
void await(const Timeouts& timeouts, Phase phase, const std::string& where,
           const Patience& patience, const Ready& ready) {
  const Clock::time_point start = Clock::now();
  for (int looks = 0; !ready(); ++looks) {
    patience();
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited.count() >= timeouts.of(phase)) {
      tell_late();
      fail(where, ": ", timeouts.text(phase), ": NCCL still waits for other ranks",
           timeout_advice(phase));
    }
    if (looks < kLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

// What NCCL says of its own threads' work.
ncclResult_t state_of(const Library& library, ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = library.CommGetAsyncError(comm, &state);
  return status == ncclSuccess ? state : status;
}

// Communicators block: another one would start a thread in every group of calls. What is split from
// one shares none of its resources with it, which would run the calls of both one after the other.
ncclConfig_t config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return config;
}

Terms watched(Terms terms, const Name& name) {
  if (!terms.watch) {
    terms.watch =
        std::make_shared<RankWatch>(terms.device, name.text(), terms.timeouts, terms.failed);
  }
  return terms;
}

}  // namespace

std::string Name::text() const { return "rank " + std::to_string(rank) + " of '" + axis + "'"; }

std::string nccl_error(const Library& library, ncclResult_t status, ncclComm_t comm) {
  // what NCCL says of work that goes on is no error
  if (status == ncclSuccess || status == ncclInProgress) return "";
  const char* const last = library.GetLastError(comm);
  std::string said = std::string("NCCL reports: ") + library.GetErrorString(status);
  if (last != nullptr && *last != '\0') said += std::string(" (") + last + ")";
  return said + "; NCCL_DEBUG=INFO prints more";
}

void check_nccl(const Library& library, ncclResult_t status, ncclComm_t comm,
                const std::string& where) {
  const std::string said = nccl_error(library, status, comm);
  check(said.empty(), where, ": ", said);
}

struct Joining::State {
  std::mutex mutex;
  bool done = false, left = false;
  ncclComm_t comm = nullptr;
  std::string error;

  // False, and it is aborted, where nobody waits for it any more.
  bool keep(const Library& library, ncclComm_t made) {
    const std::lock_guard lock(mutex);
    comm = made;
    if (left) abort(library);
    return !left;
  }
  // Under the mutex. Calls of other threads into it come back.
  void abort(const Library& library) {
    if (comm != nullptr) library.CommAbort(std::exchange(comm, nullptr));
  }
};

Make by_id(const Library& library, const ncclUniqueId& id, int size, int rank) {
  return [&library, id, size, rank](ncclComm_t* comm) {
    ncclConfig_t how = config();
    return library.CommInitRankConfig(comm, size, id, rank, &how);
  };
}

Make by_split(const Library& library, ncclComm_t parent, int color, int key) {
  constexpr int kNone = -1;  // NCCL_SPLIT_NOCOLOR of newer headers
  return [&library, parent, color = color < 0 ? kNone : color, key](ncclComm_t* comm) {
    ncclConfig_t how = config();
    return library.CommSplit(parent, color, key, comm, &how);
  };
}

Joining::Joining(const Library& library, Make make, const std::string& where, First first)
    : library_(library), state_(std::make_shared<State>()) {
  const int device = cuda::current_cuda("nccl").index;
  // detached: nothing takes a thread back that waits in NCCL for a rank that never comes
  std::thread([state = state_, &library, make = std::move(make), first = std::move(first), where,
               device] {
    std::string error;
    try {
      const cuda::DeviceGuard guard(device);
      ncclComm_t comm = nullptr;
      check_nccl(library, make(&comm), nullptr, where);
      if (!state->keep(library, comm)) return;
      if (first) first(comm);
    } catch (const std::exception& caught) {
      error = caught.what();
    }
    const std::lock_guard lock(state->mutex);
    if (!error.empty()) state->abort(library);
    state->error = std::move(error);
    state->done = true;
  }).detach();
}

Joining::~Joining() {
  const std::lock_guard lock(state_->mutex);
  state_->left = true;
  state_->abort(library_);
}

bool Joining::ready() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->error.empty()) throw Error(state_->error);
  return state_->done;
}

ncclComm_t Joining::take() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->comm, nullptr);
}

ncclComm_t connect(const Library& library, const Make& make, const std::string& where,
                   double timeout, const Patience& patience) {
  Joining joining(library, make, where);
  await({.join = timeout}, Phase::join, where, patience, [&] { return joining.ready(); });
  return joining.take();
}

Comm::Comm(ncclComm_t handle, Name name, Terms terms, std::optional<cuda::Stream> stream)
    : library_(nccl::library()),
      name_(std::move(name)),
      terms_(watched(std::move(terms), name_)),
      stream_(std::move(stream)),
      handle_(handle) {
  terms_.watch->add(*this);
}

Comm::~Comm() { terms_.watch->remove(*this); }

const cuda::Stream& Comm::stream() {
  if (!stream_) stream_.emplace(terms_.device, cuda::Stream::Priority::high);
  return *stream_;
}

void Comm::finish_or_abort() noexcept {
  try {
    if (!*aborted_)
      finish([this] {
        check(!(terms_.failed && terms_.failed()), "nccl: another rank has failed");
        terms_.watch->check();
      });
  } catch (const std::exception&) {
    abort();
  }
  awaited_ = nullptr;
}

void Comm::destroy() noexcept {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  const cuda::DeviceGuard guard(terms_.device.index, std::nothrow);
  const cuda::Uncaptured uncaptured;
  const ncclComm_t handle = std::exchange(handle_, nullptr);
  Watch watch(library_, handle, terms_, Phase::step);
  const ncclResult_t status = library_.CommFinalize(handle);
  if (watch.come_back()) return;
  calls_.look();  // so that the flight recorder has their end
  if (status == ncclSuccess) {
    library_.CommDestroy(handle);
  } else {
    library_.CommAbort(handle);
  }
}

void Comm::group(const std::string& where, Phase phase, const std::function<void()>& calls) {
  if (!awaited_) {
    awaited_ = std::make_unique<cuda::AwaitedWork>(
        terms_.device.index, [aborted = aborted_] { return aborted->load(); });
  }
  const std::lock_guard lock(mutex_);
  terms_.watch->check();
  check(handle_ != nullptr, where, ": the communicator of ", name_.text(),
        " was given up after an error");
  Watch watch(library_, handle_, terms_, phase);
  ncclResult_t status = library_.GroupStart();
  std::exception_ptr thrown;
  if (status == ncclSuccess) {
    try {
      calls();
    } catch (...) {
      thrown = std::current_exception();
    }
    status = library_.GroupEnd();
  }
  if (watch.come_back()) {
    handle_ = nullptr;
    *aborted_ = true;
    terms_.watch->check();
    check(!terms_.failed || !terms_.failed(), where, ": another rank has failed");
    tell_late();
    fail(where, ": ", terms_.timeouts.text(phase), ": NCCL still waits for other ranks",
         timeout_advice(phase));
  }
  if (thrown) std::rethrow_exception(thrown);
  check_nccl(library_, status, handle_, where);
  connected_ = true;
}

void Comm::check_health(const std::string& where) {
  terms_.watch->check();
  const std::lock_guard lock(mutex_);
  if (handle_ != nullptr) check_nccl(library_, state_of(library_, handle_), handle_, where);
}

void Comm::finish(const Patience& patience) {
  await(terms_.timeouts, Phase::step, "nccl: the calls of " + name_.text(), patience,
        [&] { return !stream_ || stream_->query(); });
}

std::string Comm::async_error() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || handle_ == nullptr) return "";
  return nccl_error(library_, state_of(library_, handle_), handle_);
}

void Comm::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  library_.CommAbort(std::exchange(handle_, nullptr));
  *aborted_ = true;
}

namespace {

struct Retired {
  std::mutex mutex;
  std::deque<std::unique_ptr<Comm>> comms;
  std::atomic<size_t> count = 0;
};
Retired& retired() {
  static auto& only = *new Retired;
  return only;
}

}  // namespace

void Retire::operator()(Comm* comm) const noexcept {
  if (comm == nullptr) return;
  comm->finish_or_abort();
  Retired& all = retired();
  {
    const std::lock_guard lock(all.mutex);
    all.comms.emplace_back(comm);
    ++all.count;
  }
  destroy_retired();
}

void destroy_retired() noexcept {
  Retired& all = retired();
  while (all.count > 0) {
    std::unique_ptr<Comm> oldest;
    {
      // The gate before the list: whoever finds it closed leaves the list to whom it is closed by.
      const cuda::InFreeGate gate(-1);
      if (!gate) return;
      {
        const std::lock_guard lock(all.mutex);
        if (all.comms.empty()) return;
        oldest = std::move(all.comms.front());
        all.comms.pop_front();
        --all.count;
      }
      oldest->destroy();
    }
  }
}

}  // namespace hero::dist::nccl
