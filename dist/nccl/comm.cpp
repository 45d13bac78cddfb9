#include <chrono>
#include <thread>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/nccl/comm.h>

namespace hero::dist::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// Most calls are queued within microseconds: the first looks at NCCL's state follow at once.
constexpr int kLooks = 200;
constexpr auto kPause = std::chrono::microseconds(50);  // between two of the later ones

// Looks again and again whether NCCL's own threads are done, with `ready`.
template <class Ready>
void await(double timeout, const std::string& where, const Patience& patience, const Ready& ready) {
  const Clock::time_point start = Clock::now();
  for (int looks = 0; !ready(); ++looks) {
    patience();
    const std::chrono::duration<double> waited = Clock::now() - start;
    check(waited.count() < timeout, where, ": time-out after ", timeout,
          " s: NCCL still waits for other ranks; set HERO_TIMEOUT to more seconds if they only "
          "need longer");
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

std::string text_of(const Name& name) {
  return "rank " + std::to_string(name.rank) + " of '" + name.axis + "'";
}

}  // namespace

void check_nccl(const Library& library, ncclResult_t status, ncclComm_t comm,
                const std::string& where) {
  // a call that goes on in NCCL's own threads has not failed
  if (status == ncclSuccess || status == ncclInProgress) return;
  const char* const last = library.GetLastError(comm);
  std::string said = library.GetErrorString(status);
  if (last != nullptr && *last != '\0') said += std::string(" (") + last + ")";
  fail(where, ": NCCL reports: ", said, "; NCCL_DEBUG=INFO prints more");
}

Joining::Joining(const Library& library, const ncclUniqueId& id, int size, const Name& name)
    : library_(library), where_("nccl: joining " + text_of(name)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t status = library_.CommInitRankConfig(&comm_, size, id, name.rank, &config);
  try {
    check_nccl(library_, status, comm_, where_);
  } catch (...) {
    if (comm_ != nullptr) library_.CommAbort(comm_);
    throw;
  }
}

Joining::~Joining() {
  if (comm_ != nullptr) library_.CommAbort(comm_);
}

bool Joining::ready() {
  const ncclResult_t state = state_of(library_, comm_);
  check_nccl(library_, state, comm_, where_);
  return state == ncclSuccess;
}

ncclComm_t Joining::take() { return std::exchange(comm_, nullptr); }

ncclComm_t connect(const Library& library, const ncclUniqueId& id, int size, const Name& name,
                   double timeout, const Patience& patience) {
  Joining joining(library, id, size, name);
  await(timeout, "nccl: joining " + text_of(name), patience, [&] { return joining.ready(); });
  return joining.take();
}

Comm::Comm(ncclComm_t handle, Name name, Device device, double timeout)
    : library_(nccl::library()),
      name_(std::move(name)),
      timeout_(timeout),
      stream_(device),
      handle_(handle) {}

Comm::~Comm() {
  if (handle_ != nullptr) library_.CommDestroy(handle_);
}

void Comm::group(const std::string& where, const std::function<void()>& calls) {
  check(handle_ != nullptr, where, ": the communicator of ", text_of(name_),
        " was given up after an error");
  check_nccl(library_, library_.GroupStart(), handle_, where);
  try {
    calls();
  } catch (...) {
    library_.GroupEnd();
    throw;
  }
  const ncclResult_t status = library_.GroupEnd();
  check_nccl(library_, status, handle_, where);
  if (status != ncclInProgress) return;
  await(
      timeout_, where, [] {},
      [&] {
        check_health(where);
        return state_of(library_, handle_) != ncclInProgress;
      });
}

void Comm::check_health(const std::string& where) {
  if (handle_ != nullptr) check_nccl(library_, state_of(library_, handle_), handle_, where);
}

void Comm::agreed(uint64_t number, std::shared_ptr<core::Point> done) {
  if (agreed_ && number < agreed_number_) return;
  agreed_number_ = number;
  agreed_ = std::move(done);
}

void Comm::abort(Clock::time_point deadline) noexcept {
  if (handle_ == nullptr) return;
  try {
    while (agreed_ && !agreed_->reached() && state_of(library_, handle_) == ncclSuccess &&
           Clock::now() < deadline) {
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception&) {
    // the GPU itself has failed, which the rank has heard or will
  }
  library_.CommAbort(std::exchange(handle_, nullptr));
}

}  // namespace hero::dist::nccl
