#include <new>

#include <hero/core/accelerator.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/storage.h>

namespace hero::core {
namespace {

// Whose memory the bytes take.
DeviceType account_of(Device device) {
  return device == kPlannedHost ? DeviceType::cpu : device.type;
}

}  // namespace

Storage::Storage(int64_t bytes, Device device)
    : bytes_(bytes), ledger_(&current_ledger()), device_(device), tag_(current_tag()) {}

Storage::~Storage() { release(); }

Ref<Storage> Storage::create(int64_t bytes, Device device) {
  Ref<Storage> storage = create_released(bytes, device);
  storage->refill();
  return storage;
}

Ref<Storage> Storage::create_released(int64_t bytes, Device device) {
  if (device.type == DeviceType::cuda) accelerator("storage", device);
  return Ref<Storage>::adopt(new (allocate(sizeof(Storage))) Storage(bytes, device));
}

Ref<Storage> Storage::borrow(void* data, int64_t bytes, Device device, std::function<void()> done) {
  Ref<Storage> storage = create_released(bytes, device);
  storage->lender_ = std::make_unique<std::function<void()>>(std::move(done));
  storage->data_ = static_cast<std::byte*>(data);
  storage->released_ = false;
  return storage;
}

void Storage::destroy(Storage* storage) {
  if (Fetcher* const fetcher = fetcher_of(*storage)) {
    set_fetcher(*storage, nullptr);
    fetcher->ended();
  }
  storage->~Storage();
  deallocate(storage, sizeof(Storage));
}

void Storage::retag(MemoryTag tag) {
  if (!released_) {
    ledger_->discharge(account_of(device_), tag_, charged());
    ledger_->charge(account_of(device_), tag, charged());
  }
  tag_ = tag;
}

void Storage::charge_to(Ledger& ledger) {
  if (&ledger == ledger_) return;
  if (!released_) {
    ledger_->discharge(account_of(device_), tag_, charged());
    ledger.charge(account_of(device_), tag_, charged());
  }
  ledger_ = &ledger;
}

void Storage::release() {
  if (released_) return;
  if (lender_) {
    data_ = nullptr;
    released_ = true;
    const std::unique_ptr<std::function<void()>> lender = std::move(lender_);
    if (*lender) (*lender)();
    return;
  }
  if (bytes_ > 0) {
    if (device_.type == DeviceType::cpu) deallocate(data_, bytes_);
    if (device_.type == DeviceType::cuda) {
      accelerator("storage", device_).deallocate(data_, bytes_, device_.index);
    }
  }
  data_ = nullptr;
  ledger_->discharge(account_of(device_), tag_, bytes_);
  released_ = true;
}

void Storage::refill() {
  if (!released_) return;
  if (bytes_ > 0) {
    if (device_.type == DeviceType::cpu) data_ = static_cast<std::byte*>(allocate(bytes_));
    if (device_.type == DeviceType::cuda) {
      void* const block = accelerator("storage", device_).allocate(bytes_, device_.index);
      data_ = static_cast<std::byte*>(block);
    }
  }
  ledger_->charge(account_of(device_), tag_, bytes_);
  released_ = false;
}

}  // namespace hero::core
