#include <cstring>

#include <hero/autograd/offload/host_copy.h>
#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/exchange.h>
#include <hero/core/swap_file.h>

namespace hero::detail {
namespace {

Array bytes_of(const core::Ref<core::Storage>& storage) {
  return Array(storage, {storage->bytes()}, {1}, 0, kUInt8);
}

// Whether the storage lies in the host's memory, or in one that is planned as such.
bool is_of_host(const core::Storage& storage) {
  return core::host_of(storage.device()) == storage.device();
}

// All bytes of one storage to another one, at least one of which is the host's; it waits.
void copy_bytes(const core::Ref<core::Storage>& from, const core::Ref<core::Storage>& to) {
  if (core::is_host_memory(from->device()) && core::is_host_memory(to->device())) {
    std::memcpy(to->data(), from->data(), static_cast<size_t>(from->bytes()));
    return;
  }
  const Device device = is_of_host(*from) ? to->device() : from->device();
  core::backend(device).run(core::call::Copy{bytes_of(from), bytes_of(to)});
}

// Copies run in streams of their own beside the thread's, which joins what comes back.
class PinnedCopy final : public HostCopy {
 public:
  PinnedCopy(const core::Ref<core::Storage>& storage, OffloadTraffic& traffic)
      : device_(storage->device()), traffic_(traffic) {
    core::Accelerator& accelerator = core::accelerator("offload", device_);
    host_ = accelerator.pinned({storage->bytes()}, kUInt8);
    const auto guard = accelerator.copy_stream(core::CopyDirection::to_host, device_.index);
    accelerator.copy_async(bytes_of(storage), host_);
    event_ = accelerator.exchange(device_.index).record_event();
    storage->release();  // in the stream that still reads it
    traffic_.to_host += host_.nbytes();
  }
  ~PinnedCopy() override = default;

  std::string wait_out() override {
    event_->wait();
    return {};
  }
  void begin_back() override {
    core::Accelerator& accelerator = core::accelerator("offload", device_);
    const MemoryScope tag(MemoryTag::activation);
    coming_ = Array::empty(host_.shape(), kUInt8, device_);
    const auto guard = accelerator.copy_stream(core::CopyDirection::to_device, device_.index);
    accelerator.copy_async(host_, coming_);
    event_ = accelerator.exchange(device_.index).record_event();
    traffic_.to_device += host_.nbytes();
  }
  void end_back(const core::Ref<core::Storage>& storage) override {
    event_->join();
    storage->refill();
    core::backend(device_).run(core::call::Copy{coming_, bytes_of(storage)});
    coming_ = {};
  }
  void drop() override { coming_ = {}; }

 private:
  Device device_;
  OffloadTraffic& traffic_;
  Array host_, coming_;
  std::shared_ptr<core::DeviceEvent> event_;  // behind the last copy
};

// What is on its way lies in a second storage, so nobody writes to it or sees half of it.
class DiskCopy final : public HostCopy {
 public:
  DiskCopy(const core::Ref<core::Storage>& storage, core::SwapFile& disk, OffloadTraffic& traffic)
      : travelling_(made_for(*storage)),
        swapped_(disk, travelling_),
        on_device_(!is_of_host(*storage)),
        traffic_(traffic) {
    travelling_->refill();
    copy_bytes(storage, travelling_);
    storage->release();
    swapped_.begin_write();
    traffic_.to_disk += whole_blocks();
    if (on_device_) traffic_.to_host += travelling_->bytes();
  }
  ~DiskCopy() override = default;

  std::string wait_out() override {
    try {
      swapped_.wait();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  void begin_back() override {
    swapped_.begin_read();
    traffic_.from_disk += whole_blocks();
  }
  void end_back(const core::Ref<core::Storage>& storage) override {
    swapped_.wait();
    storage->refill();
    copy_bytes(travelling_, storage);
    travelling_->release();
    if (on_device_) traffic_.to_device += storage->bytes();
  }
  void drop() override {
    swapped_.wait();
    travelling_->release();
  }

 private:
  static core::Ref<core::Storage> made_for(const core::Storage& storage) {
    const MemoryScope tag(MemoryTag::activation);
    return core::Storage::create_released(storage.bytes(), core::host_of(storage.device()));
  }
  int64_t whole_blocks() const {
    constexpr int64_t kBlock = core::SwapFile::kBlock;
    return (travelling_->bytes() + kBlock - 1) / kBlock * kBlock;
  }

  core::Ref<core::Storage> travelling_;
  core::Swapped swapped_;  // of travelling_
  bool on_device_;
  OffloadTraffic& traffic_;
};

}  // namespace

std::unique_ptr<HostCopy> HostCopy::make(const core::Ref<core::Storage>& storage,
                                         core::SwapFile* disk, OffloadTraffic& traffic) {
  if (disk != nullptr) return std::make_unique<DiskCopy>(storage, *disk, traffic);
  return std::make_unique<PinnedCopy>(storage, traffic);
}

}  // namespace hero::detail
