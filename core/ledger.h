#pragma once
// The memory ledger: every byte of every storage is charged to a tag, per device kind.
#include <atomic>
#include <cstdint>
#include <string>

#include <hero/core/device.h>

namespace hero {

/// What bytes are for.
enum class MemoryTag : uint8_t { parameter, gradient, optimizer, activation, communication, other };
inline constexpr int kMemoryTagCount = 6;

const char* name(MemoryTag tag);

/// Counts live and peak bytes by tag. One ledger stands for one rank; threads charge the ledger
/// that is current on them. A ledger must outlive the storages charged to it.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void charge(DeviceType device, MemoryTag tag, int64_t bytes);
  void discharge(DeviceType device, MemoryTag tag, int64_t bytes);

  /// Bytes now held under `tag`.
  int64_t live(MemoryTag tag, DeviceType device = DeviceType::cpu) const;
  /// Bytes now held under all tags.
  int64_t live(DeviceType device = DeviceType::cpu) const;
  /// The most bytes ever held under `tag` since the last reset.
  int64_t peak(MemoryTag tag, DeviceType device = DeviceType::cpu) const;
  /// The most bytes ever held in all; at most the sum of the tags' peaks.
  int64_t peak(DeviceType device = DeviceType::cpu) const;
  /// Peaks restart from what is live now.
  void reset_peak();
  /// A printed table: tag, live, peak, in bytes and in readable units.
  std::string table(DeviceType device = DeviceType::cpu) const;

 private:
  struct Account {
    std::atomic<int64_t> live[kMemoryTagCount] = {};
    std::atomic<int64_t> peak[kMemoryTagCount] = {};
    std::atomic<int64_t> peak_total = 0;
  };
  Account accounts_[kDeviceTypeCount];
};

/// The ledger charged by this thread (the process's own unless a LedgerScope is open).
Ledger& current_ledger();

/// The ledger of values that are only planned, nobody's: those of modules made on meta, which take
/// memory when somebody gives them bytes, not before. See core::Storage::charge_to().
Ledger& planned_ledger();

/// Charges this thread's allocations to `ledger` while it lives.
class LedgerScope {
 public:
  explicit LedgerScope(Ledger& ledger);
  ~LedgerScope();
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  Ledger* previous_;
};

/// The tag given to this thread's new storages: activation unless a MemoryScope is open.
MemoryTag current_tag();

/// Tags this thread's new storages while it lives.
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
