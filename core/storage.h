#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <hero/core/device.h>
#include <hero/core/ledger.h>
#include <hero/core/memory/ref.h>

namespace hero::core {

/// The memory of arrays. It can be released and refilled without changing its identity: views and
/// saved tensors keep referring to the storage while its bytes are released. Every byte is charged
/// to a tag of the ledger that was current when the storage was made, until retag() or charge_to()
/// moves it.
class Storage : public Counted {
 public:
  /// Allocates uninitialised bytes on `device`; on meta only their number is kept and charged.
  /// Throws an Error if the device is not available.
  static Ref<Storage> create(int64_t bytes, Device device);
  /// Like create(), but without bytes until refill().
  static Ref<Storage> create_released(int64_t bytes, Device device);
  /// Makes a storage over memory that the program owns, which no ledger counts. `done`, if given,
  /// is called once, when the storage is destroyed or releases the memory; refill() then allocates
  /// bytes as for any other storage.
  static Ref<Storage> borrow(void* data, int64_t bytes, Device device, std::function<void()> done);
  static void destroy(Storage* storage);

  /// The address of the first byte; on cuda, an address of the device.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  MemoryTag tag() const { return tag_; }
  /// Moves the bytes to another tag of the ledger.
  void retag(MemoryTag tag);
  /// The ledger to which the bytes are charged.
  Ledger& ledger() const { return *ledger_; }
  /// Moves the bytes to another ledger.
  void charge_to(Ledger& ledger);

  /// Frees the bytes, whose values are lost; does nothing if they are already released.
  void release();
  /// Allocates the bytes again, uninitialised; does nothing if they are there.
  void refill();
  bool released() const { return released_; }

  /// Counts the writes through any array of this storage; saved tensors compare it.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// Sets the version back, for a caller that has restored the values that the storage had at
  /// `version`, so that what was saved for backward at that version is valid again.
  void restore_version(uint32_t version) { version_.store(version, std::memory_order_relaxed); }
  /// Counts recorded in-place operations, after which the history of older views is out of date.
  uint32_t history() const { return history_.load(std::memory_order_relaxed); }
  void bump_history() { history_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Storage(int64_t bytes, Device device);
  ~Storage();
  int64_t charged() const { return lender_ ? 0 : bytes_; }

  std::byte* data_ = nullptr;
  std::unique_ptr<std::function<void()>> lender_;  // `done` of borrowed bytes
  int64_t bytes_;
  Ledger* ledger_;
  // Counted without loss when threads write to different parts of one storage.
  std::atomic<uint32_t> version_ = 0;
  std::atomic<uint32_t> history_ = 0;
  Device device_;
  MemoryTag tag_;
  bool released_ = true;
};

}  // namespace hero::core
