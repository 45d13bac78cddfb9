#include <cstring>
#include <thread>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/ledger.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/storage.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;  // the sanitizer must see every block come and go
#else
constexpr bool kCaching = true;
#endif

TEST_CASE("a storage keeps its identity while its bytes are away", "[core]") {
  const Array x = Array::full({4}, 1.5);
  const Array view = x.slice(0, 1, 3);
  Storage& storage = x.storage();
  storage.release();
  REQUIRE(storage.released());
  REQUIRE(storage.bytes() == 16);
  storage.release();  // harmless
  REQUIRE(error_of([&] { view.bytes(); }) ==
          "data: array [2] on cpu: its storage is released; refill it first");
  REQUIRE(error_of([&] { view.to_vector<float>(); }) != "");
  REQUIRE(error_of([&] { view.clone(); }) != "");
  storage.refill();
  storage.refill();  // harmless
  REQUIRE_FALSE(storage.released());
  REQUIRE(&x.storage() == &view.storage());
  backend(kCpu).run(call::Fill{x, 2.5});
  REQUIRE(view.to_vector<float>() == std::vector<float>{2.5f, 2.5f});
}

TEST_CASE("the ledger counts live and peak bytes by tag", "[core]") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  REQUIRE(ledger.live() == 0);
  {
    const Array a = Array::empty({100});  // activations unless told otherwise
    REQUIRE(ledger.live() == 400);
    REQUIRE(ledger.live(MemoryTag::activation) == 400);
    const MemoryScope tag(MemoryTag::parameter);
    const Array b = Array::empty({7}, kFloat64);
    const Array view = b.slice(0, 1);
    REQUIRE(ledger.live(MemoryTag::parameter) == 56);
    {
      const MemoryScope inner(MemoryTag::gradient);
      const Array c = Array::empty({3}, kUInt8);
      REQUIRE(ledger.live(MemoryTag::gradient) == 3);
      REQUIRE(ledger.live() == 459);
    }
    REQUIRE(ledger.live() == 456);
    REQUIRE(current_tag() == MemoryTag::parameter);
  }
  REQUIRE(ledger.live() == 0);
  REQUIRE(ledger.peak() == 459);
  REQUIRE(ledger.peak(MemoryTag::gradient) == 3);
  REQUIRE(current_tag() == MemoryTag::activation);
  ledger.reset_peak();
  REQUIRE(ledger.peak() == 0);
}

TEST_CASE("released bytes are not charged, and retagged ones move", "[core]") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Array x = Array::empty({10});
  x.storage().retag(MemoryTag::communication);
  REQUIRE(ledger.live(MemoryTag::activation) == 0);
  REQUIRE(ledger.live(MemoryTag::communication) == 40);
  REQUIRE(ledger.peak() == 40);  // moving bytes is not having them twice
  x.storage().release();
  REQUIRE(ledger.live() == 0);
  x.storage().retag(MemoryTag::parameter);
  REQUIRE(ledger.live() == 0);
  x.storage().refill();
  REQUIRE(ledger.live(MemoryTag::parameter) == 40);
}

TEST_CASE("a storage is charged to the ledger it was made under, wherever it ends", "[core]") {
  Ledger first, second;
  Array x;
  {
    const LedgerScope scope(first);
    x = Array::empty({5});
  }
  const LedgerScope scope(second);
  x.storage().release();
  x.storage().refill();
  REQUIRE(first.live() == 20);
  std::thread([&] { x = Array(); }).join();
  REQUIRE(first.live() == 0);
  REQUIRE(second.peak() == 0);
}

TEST_CASE("bytes that are moved to another ledger leave the first one", "[core]") {
  Ledger first, second;
  const LedgerScope scope(first);
  const Array x = Array::empty({5}), y = Array::empty({7});
  x.storage().charge_to(second);
  REQUIRE(first.live() == 28);
  REQUIRE(second.live() == 20);
  x.storage().charge_to(second);
  REQUIRE(second.peak() == 20);
  x.storage().release();
  y.storage().release();
  y.storage().charge_to(second);
  REQUIRE(second.live() == 0);
  x.storage().refill();
  y.storage().refill();
  REQUIRE(first.live() == 0);
  REQUIRE(second.live(MemoryTag::activation) == 48);
}

TEST_CASE("threads charge one ledger without losing a byte", "[core][threads]") {
  Ledger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger, t] {
      const LedgerScope scope(ledger);
      for (int i = 0; i < 1000; ++i) Array::empty({1 + (i + t) % 50}).clone();
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(ledger.live() == 0);
  REQUIRE(ledger.peak() > 0);
  REQUIRE(ledger.peak() <= 4 * 2 * 50 * 4);  // two arrays of at most 200 bytes a thread
}

TEST_CASE("meta arrays are charged apart and have no bytes", "[core]") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Array x = Array::empty({1000, 1000, 1000}, kFloat32, kMeta);
  REQUIRE(ledger.live(DeviceType::meta) == 4000000000);
  REQUIRE(ledger.live() == 0);
  REQUIRE(error_of([&] { x.bytes(); }) != "");
}

TEST_CASE("the ledger prints a table of every tag", "[core]") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Array x = Array::empty({1536}, kUInt8);
  const std::string table = ledger.table();
  for (const char* tag : {"parameter", "gradient", "optimizer", "activation", "communication",
                          "other", "total", "1536", "1.50 KiB"}) {
    REQUIRE_THAT(table, Catch::Matchers::ContainsSubstring(tag));
  }
  REQUIRE(bytes_text(0) == "0 B");
  REQUIRE(bytes_text(int64_t{3} << 30) == "3.00 GiB");
}

TEST_CASE("freed blocks are handed out again and can be returned to the system", "[core]") {
  empty_cache();
  REQUIRE(cached_bytes() == 0);
  for (const int64_t bytes : {100, 5000, 1 << 20, 9 << 20}) {
    void* block = allocate(bytes);
    REQUIRE(reinterpret_cast<uintptr_t>(block) % static_cast<uintptr_t>(kAlignment) == 0);
    std::memset(block, 1, static_cast<size_t>(bytes));
    deallocate(block, bytes);
    if (!kCaching) continue;
    if (bytes > 4096) REQUIRE(cached_bytes() >= bytes);
    void* again = allocate(bytes);
    REQUIRE(again == block);
    deallocate(again, bytes);
  }
  empty_cache();
  REQUIRE(cached_bytes() == 0);
}

TEST_CASE("borrowed bytes are not charged, and whoever lent them hears once that they are free",
          "[core]") {
  std::vector<float> memory = {1, 2, 3};
  int ends = 0;
  Ledger first, second;
  {
    const LedgerScope scope(first);
    Array x(Storage::borrow(memory.data(), 12, kCpu, [&ends] { ++ends; }), {3}, {1}, 0, kFloat32);
    const Array view = x.slice(0, 1);
    REQUIRE(first.live() == 0);
    x.storage().retag(MemoryTag::parameter);
    x.storage().charge_to(second);
    x = Array();
    REQUIRE(ends == 0);
    REQUIRE(view.to_vector<float>() == std::vector<float>{2, 3});
  }
  REQUIRE(ends == 1);
  // Released bytes are not taken back: a refill allocates.
  const Array y(Storage::borrow(memory.data(), 12, kCpu, [&ends] { ++ends; }), {3}, {1}, 0,
                kFloat32);
  y.storage().charge_to(second);
  y.storage().release();
  REQUIRE(ends == 2);
  y.storage().refill();
  REQUIRE(y.data<float>() != memory.data());
  REQUIRE(first.peak() == 0);
  REQUIRE(second.live() == 12);
}

TEST_CASE("writes are counted so that saved values can be checked", "[core]") {
  const Array x = Array::zeros({2});
  const uint32_t before = x.storage().version();
  x.slice(0, 1).storage().bump_version();
  REQUIRE(x.storage().version() == before + 1);
}

}  // namespace
