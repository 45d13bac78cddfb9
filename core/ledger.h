#pragma once
// The memory ledger: every byte of every storage is charged to a tag, for each kind of device.
#include <atomic>
#include <cstdint>
#include <string>

#include <hero/core/device.h>

namespace hero {

/// What memory is used for.
enum class MemoryTag : uint8_t { parameter, gradient, optimizer, activation, communication, other };
inline constexpr int kMemoryTagCount = 6;

const char* name(MemoryTag tag);

/// Counts live and peak bytes by tag. A ledger stands for one rank; each thread charges its current
/// ledger. A ledger must outlive the storages that are charged to it.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void charge(DeviceType device, MemoryTag tag, int64_t bytes);
  void discharge(DeviceType device, MemoryTag tag, int64_t bytes);

  /// The bytes now in memory under `tag`.
  int64_t live(MemoryTag tag, DeviceType device = DeviceType::cpu) const;
  /// The bytes now in memory under all tags.
  int64_t live(DeviceType device = DeviceType::cpu) const;
  /// The most bytes that were in memory under `tag` since the last reset.
  int64_t peak(MemoryTag tag, DeviceType device = DeviceType::cpu) const;
  /// The most bytes that were in memory under all tags together; at most the sum of the tags'
  /// peaks.
  int64_t peak(DeviceType device = DeviceType::cpu) const;
  /// Sets the peaks to the bytes that are live now.
  void reset_peak();
  /// A table of live and peak bytes by tag, in bytes and in readable units.
  std::string table(DeviceType device = DeviceType::cpu) const;

 private:
  struct Account {
    std::atomic<int64_t> live[kMemoryTagCount] = {};
    std::atomic<int64_t> peak[kMemoryTagCount] = {};
    std::atomic<int64_t> peak_total = 0;
  };
  Account accounts_[kDeviceTypeCount];
};

/// The ledger that this thread charges: the process's own, unless a LedgerScope is open.
Ledger& current_ledger();

/// The ledger of values that are only planned and belong to no rank: those of modules made on meta,
/// which need no memory until they are allocated. See core::Storage::charge_to().
Ledger& planned_ledger();

/// While it lives, charges this thread's allocations to `ledger`.
class LedgerScope {
 public:
  explicit LedgerScope(Ledger& ledger);
  ~LedgerScope();
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  Ledger* previous_;
};

/// The tag of this thread's new storages: activation, unless a MemoryScope is open.
MemoryTag current_tag();

/// While it lives, this thread's new storages have this tag.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryTag tag);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryTag previous_;
};

/// "1.50 MiB".
std::string bytes_text(int64_t bytes);

}  // namespace hero
