#include <cstdio>
#include <type_traits>

#include <hero/core/kernels/wrapping.h>
#include <hero/core/ledger.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

thread_local Ledger* thread_ledger = nullptr;
thread_local MemoryTag thread_tag = MemoryTag::activation;
[[maybe_unused]] const core::ThreadSlot<Ledger*> kLedgerSlot([] { return thread_ledger; },
                                                             [](Ledger* ledger) {
                                                               thread_ledger = ledger;
                                                             });
[[maybe_unused]] const core::ThreadSlot<MemoryTag> kTagSlot([] { return thread_tag; },
                                                            [](MemoryTag tag) {
                                                              thread_tag = tag;
                                                            });

// Without a destructor: storages of static lifetime are discharged after main.
static_assert(std::is_trivially_destructible_v<Ledger>);
constinit Ledger ledger_of_process, ledger_of_plans;

void raise_to(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (value > seen && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

const char* name(MemoryTag tag) {
  constexpr const char* names[kMemoryTagCount] = {"parameter",  "gradient",      "optimizer",
                                                  "activation", "communication", "other"};
  return names[static_cast<int>(tag)];
}

void Ledger::charge(DeviceType device, MemoryTag tag, int64_t bytes) {
  Account& account = accounts_[static_cast<int>(device)];
  const int index = static_cast<int>(tag);
  const int64_t before = account.live[index].fetch_add(bytes, std::memory_order_relaxed);
  const int64_t now = core::wrapping_add(before, bytes);  // of meta arrays there may be any number
  raise_to(account.peak[index], now);
  raise_to(account.peak_total, live(device));
}

void Ledger::discharge(DeviceType device, MemoryTag tag, int64_t bytes) {
  accounts_[static_cast<int>(device)].live[static_cast<int>(tag)].fetch_sub(
      bytes, std::memory_order_relaxed);
}

int64_t Ledger::live(MemoryTag tag, DeviceType device) const {
  return accounts_[static_cast<int>(device)].live[static_cast<int>(tag)].load(
      std::memory_order_relaxed);
}

int64_t Ledger::live(DeviceType device) const {
  int64_t total = 0;
  for (const auto& bytes : accounts_[static_cast<int>(device)].live) {
    total = core::wrapping_add(total, bytes.load(std::memory_order_relaxed));
  }
  return total;
}

int64_t Ledger::peak(MemoryTag tag, DeviceType device) const {
  return accounts_[static_cast<int>(device)].peak[static_cast<int>(tag)].load(
      std::memory_order_relaxed);
}

int64_t Ledger::peak(DeviceType device) const {
  return accounts_[static_cast<int>(device)].peak_total.load(std::memory_order_relaxed);
}

void Ledger::reset_peak() {
  for (int device = 0; device < kDeviceTypeCount; ++device) {
    Account& account = accounts_[device];
    for (int tag = 0; tag < kMemoryTagCount; ++tag) account.peak[tag] = account.live[tag].load();
    account.peak_total = live(static_cast<DeviceType>(device));
  }
}

std::string Ledger::table(DeviceType device) const {
  const auto line = [](const char* label, int64_t live, int64_t peak) {
    char text[128];
    std::snprintf(text, sizeof text, "%-14s %16lld %12s %16lld %12s\n", label,
                  static_cast<long long>(live), bytes_text(live).c_str(),
                  static_cast<long long>(peak), bytes_text(peak).c_str());
    return std::string(text);
  };
  char head[128];
  std::snprintf(head, sizeof head, "%-14s %16s %12s %16s %12s\n", "memory", "live bytes", "",
                "peak", "");
  std::string text = head;
  for (int i = 0; i < kMemoryTagCount; ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    text += line(name(tag), live(tag, device), peak(tag, device));
  }
  return text + line("total", live(device), peak(device));
}

Ledger& current_ledger() { return thread_ledger ? *thread_ledger : ledger_of_process; }

Ledger& planned_ledger() { return ledger_of_plans; }

LedgerScope::LedgerScope(Ledger& ledger) : previous_(thread_ledger) { thread_ledger = &ledger; }
LedgerScope::~LedgerScope() { thread_ledger = previous_; }

MemoryTag current_tag() { return thread_tag; }

MemoryScope::MemoryScope(MemoryTag tag) : previous_(thread_tag) { thread_tag = tag; }
MemoryScope::~MemoryScope() { thread_tag = previous_; }

std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024.0 && unit < 5) {
    value /= 1024.0;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

}  // namespace hero
