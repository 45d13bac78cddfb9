#include <array>
#include <optional>
#include <span>
#include <utility>

#include <hero/core/array.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/exchange.h>
#include <hero/core/meta/planned_accelerator.h>
#include <hero/core/profile/transfers.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {
namespace {

constexpr const char* kNoBytes = "planned device: it has no bytes";

// Copies of this thread: the last one in each direction, and the direction of the guard that is
// alive.
struct PlannedCopies {
  std::array<int64_t, 2> last = {-1, -1};
  std::optional<CopyDirection> direction = {};
};
thread_local PlannedCopies planned_copies;

int64_t& last_copy(CopyDirection direction) {
  return planned_copies.last[static_cast<size_t>(direction)];
}

// Behind a copy; of the thread's own stream, where all is done at once, behind nothing.
class PlannedEvent final : public DeviceEvent {
 public:
  explicit PlannedEvent(int64_t copy) : copy_(copy) {}
  void join() override { wait(); }
  void join_before_use() override { join(); }
  bool reached() override { return true; }
  void wait() override {
    if (copy_ >= 0 && transfer_meter != nullptr) transfer_meter->wait_transfer(copy_);
  }

 private:
  int64_t copy_;
};

class PlannedStreamGuard final : public StreamGuard {
 public:
  explicit PlannedStreamGuard(CopyDirection direction)
      : previous_(std::exchange(planned_copies.direction, direction)) {}
  ~PlannedStreamGuard() override {
    planned_copies.direction = previous_;
    if (transfer_meter != nullptr) transfer_meter->call_behind(-1);
  }

 private:
  std::optional<CopyDirection> previous_;
};

class PlannedExchange final : public Exchange {
 public:
  std::shared_ptr<DeviceEvent> record_event() override {
    return std::make_shared<PlannedEvent>(
        planned_copies.direction ? last_copy(*planned_copies.direction) : -1);
  }
  void copy(const std::byte*, std::byte*, int64_t) override { fail(kNoBytes); }
  void combine(const Fold&, std::span<const std::byte* const>, std::byte*, int64_t) override {
    fail(kNoBytes);
  }
};

class PlannedAccelerator final : public Accelerator {
 public:
  int device_count() override { return 1; }
  std::string reason() override { return {}; }
  Backend& backend(int) override { return core::backend(kMeta); }
  void* allocate(int64_t, int) override { fail(kNoBytes); }
  void deallocate(void*, int64_t, int) noexcept override {}
  HostMemory& host_memory() override { fail(kNoBytes); }
  Exchange& exchange(int) override { return exchange_; }
  Array pinned(const Shape& shape, DType dtype) override {
    return Array::empty(shape, dtype, kPlannedHost);
  }
  void copy_async(const Array& src, const Array& dst) override {
    if (transfer_meter == nullptr) return;
    const bool up = dst.device() != kPlannedHost;
    const int64_t copy =
        transfer_meter->begin_transfer(up ? Transfer::to_device : Transfer::to_host, src.nbytes());
    last_copy(up ? CopyDirection::to_device : CopyDirection::to_host) = copy;
    if (planned_copies.direction) transfer_meter->call_behind(copy);
  }
  std::unique_ptr<StreamGuard> copy_stream(CopyDirection direction, int) override {
    return std::make_unique<PlannedStreamGuard>(direction);
  }
  std::vector<std::shared_ptr<DeviceEvent>> record_events() override { return {}; }

 private:
  PlannedExchange exchange_;
};

}  // namespace

Accelerator& planned_accelerator() {
  static auto* const accelerator = new PlannedAccelerator;  // leaked, as the backends
  return *accelerator;
}

namespace {

[[maybe_unused]] const bool kPlannedAcceleratorAtFork =
    at_fork([] { planned_accelerator(); });  // see [note: forks]

}  // namespace

}  // namespace hero::core
