#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <hero/core/device.h>
#include <hero/core/ledger.h>
#include <hero/core/ref.h>

namespace hero::core {

/// The bytes behind arrays. They can be released and refilled without changing identity: views and
/// saved tensors keep pointing at the storage while its bytes are away. Every byte is charged to a
/// tag of the ledger that was current when the storage was made, until it is moved to another.
class Storage : public Counted {
 public:
  /// Uninitialised bytes on `device`; on meta only their number is kept (and charged). Throws where
  /// the device is not available.
  static Ref<Storage> create(int64_t bytes, Device device);
  /// As create, but without bytes until refill().
  static Ref<Storage> create_released(int64_t bytes, Device device);
  static void destroy(Storage* storage);

  /// The first byte; on cuda an address that only the device may read.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  MemoryTag tag() const { return tag_; }
  /// Moves the bytes to another tag of the ledger.
  void retag(MemoryTag tag);
  /// The ledger that the bytes are charged to.
  Ledger& ledger() const { return *ledger_; }
  /// Moves the bytes to another ledger.
  void charge_to(Ledger& ledger);

  /// Gives the bytes back; harmless when already released. Values are lost.
  void release();
  /// Allocates the bytes again, uninitialised; harmless when present.
  void refill();
  bool released() const { return released_; }

  /// Counts writes made through any array over this storage; saved tensors compare it.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// For one who wrote back the very values that were here at `version`: what was saved then is
  /// good again.
  void restore_version(uint32_t version) { version_.store(version, std::memory_order_relaxed); }
  /// Counts recorded in-place operations: a view made before one no longer knows its history.
  uint32_t history() const { return history_.load(std::memory_order_relaxed); }
  void bump_history() { history_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Storage(int64_t bytes, Device device);
  ~Storage();

  std::byte* data_ = nullptr;
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
