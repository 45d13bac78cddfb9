// Storages in a file: the same bytes come back, and what the disk does wrong is one named error.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/io/swap_slots.h>
#include <hero/core/ledger.h>
#include <hero/core/swap_file.h>

using Catch::Matchers::ContainsSubstring;
using hero::core::Ref;
using hero::core::Storage;
using hero::core::SwapFile;
using hero::core::Swapped;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::string swap_folder() { return std::filesystem::temp_directory_path().string(); }

void fill_swapped(Storage& storage, uint32_t seed) {
  for (int64_t i = 0; i < storage.bytes(); ++i) {
    seed = seed * 1664525 + 1013904223;
    storage.data()[i] = static_cast<std::byte>(seed >> 24);
  }
}

Ref<Storage> filled_storage(int64_t bytes, uint32_t seed) {
  Ref<Storage> storage = Storage::create(bytes, hero::kCpu);
  fill_swapped(*storage, seed);
  return storage;
}

bool holds(const Storage& storage, uint32_t seed) {
  const Ref<Storage> same = filled_storage(storage.bytes(), seed);
  const std::byte* const bytes = storage.data();
  return std::equal(bytes, bytes + storage.bytes(), same->data());
}

void write_out(Swapped& swapped) {
  swapped.begin_write();
  swapped.wait();
}

void read_in(Swapped& swapped) {
  swapped.begin_read();
  swapped.wait();
}

// The file as others see it, without O_DIRECT.
class OpenedAgain {
 public:
  explicit OpenedAgain(const SwapFile& file)
      : fd_(::open(("/proc/self/fd/" + std::to_string(file.descriptor())).c_str(), O_RDWR)) {
    REQUIRE(fd_ >= 0);
  }
  ~OpenedAgain() { ::close(fd_); }
  void flip_bit(int64_t at) const {
    char byte = 0;
    REQUIRE(::pread(fd_, &byte, 1, at) == 1);
    byte = static_cast<char>(byte ^ 4);
    REQUIRE(::pwrite(fd_, &byte, 1, at) == 1);
    REQUIRE(::fsync(fd_) == 0);
  }
  void end_at(int64_t bytes) const { REQUIRE(::ftruncate(fd_, bytes) == 0); }

 private:
  int fd_;
};

}  // namespace

TEST_CASE("slots never overlap and free neighbours are joined", "[swap]") {
  uint64_t state = 7;
  const auto draw = [&](uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state >> 33) % below);
  };
  for (int round = 0; round < 50; ++round) {
    hero::core::SwapSlots slots(1000);
    std::map<int64_t, int64_t> taken;
    for (int step = 0; step < 300; ++step) {
      if (taken.empty() || draw(2) == 0) {
        const int64_t bytes = 1 + draw(120);
        const int64_t largest = slots.largest();
        const auto first = slots.take(bytes);
        REQUIRE(first.has_value() == (bytes <= largest));
        if (!first) continue;
        const auto after = taken.lower_bound(*first);
        REQUIRE((after == taken.end() || *first + bytes <= after->first));
        if (after != taken.begin()) {
          REQUIRE(std::prev(after)->first + std::prev(after)->second <= *first);
        }
        REQUIRE((*first >= 0 && *first + bytes <= 1000));
        taken[*first] = bytes;
      } else {
        const auto chosen = std::next(taken.begin(), draw(taken.size()));
        slots.give_back(chosen->first, chosen->second);
        taken.erase(chosen);
      }
      int64_t sum = 0;
      for (const auto& part : taken) sum += part.second;
      REQUIRE(slots.used() == sum);
    }
    for (const auto& [first, bytes] : taken) slots.give_back(first, bytes);
    REQUIRE(slots.largest() == 1000);
  }
}

TEST_CASE("a swapped storage comes back with its bytes", "[swap]") {
  const bool direct = GENERATE(true, false);
  SwapFile file(swap_folder(), {.bytes = 40 * kMiB, .threads = 3, .direct = direct});
  CHECK((direct || !file.direct()));
  const std::vector<int64_t> sizes = {0,    1,        4095,         4096,     4097,
                                      8192, 4 * kMiB, 4 * kMiB + 1, 9 * kMiB, 13 * kMiB - 5};
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  std::vector<std::unique_ptr<Swapped>> all;
  int64_t moved = 0, held = 0;
  for (const int64_t bytes : sizes) {
    all.push_back(
        std::make_unique<Swapped>(file, filled_storage(bytes, static_cast<uint32_t>(bytes))));
    moved += (bytes + 4095) / 4096 * 4096;
    held += bytes;
  }
  CHECK(file.used() == moved);
  CHECK(ledger.live() == held);
  for (int round = 0; round < 2; ++round) {
    for (const auto& each : all) each->begin_write();
    for (const auto& each : all) each->wait();
    CHECK(ledger.live() == 0);
    for (const auto& each : all) each->begin_read();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i]->wait();
      const Storage& storage = *all[i]->storage();
      INFO(sizes[i] << " bytes");
      REQUIRE_FALSE(storage.released());
      CHECK(holds(storage, static_cast<uint32_t>(sizes[i] + (round == 0 ? 0 : 1))));
      fill_swapped(*all[i]->storage(), static_cast<uint32_t>(sizes[i] + 1));
    }
  }
  CHECK(file.written_bytes() == 2 * moved);
  CHECK(file.read_bytes() == 2 * moved);
  all.clear();
  CHECK(file.used() == 0);
}

TEST_CASE("slots that outlive their swap file keep its bytes", "[swap]") {
  auto file = std::make_unique<SwapFile>(swap_folder(), hero::core::SwapOptions{.bytes = kMiB});
  Swapped first(*file, filled_storage(70'000, 3));
  auto second = std::make_unique<Swapped>(*file, filled_storage(4096, 4));
  write_out(first);
  second->begin_write();
  file.reset();
  second.reset();
  read_in(first);
  CHECK(holds(*first.storage(), 3));
  write_out(first);
  read_in(first);
  CHECK(holds(*first.storage(), 3));
}

TEST_CASE("what was only read is dropped without a write", "[swap]") {
  SwapFile file(swap_folder(), {.bytes = kMiB});
  Swapped swapped(file, filled_storage(10000, 3));
  CHECK_THROWS_WITH(swapped.drop(), ContainsSubstring("holds nothing; write it first"));
  CHECK(holds(*swapped.storage(), 3));
  write_out(swapped);
  read_in(swapped);
  const int64_t before = file.written_bytes();
  swapped.drop();
  CHECK(swapped.storage()->released());
  read_in(swapped);
  CHECK(holds(*swapped.storage(), 3));
  CHECK(file.written_bytes() == before);
  // to read what is in memory, or to write what is not, is nothing
  read_in(swapped);
  CHECK(holds(*swapped.storage(), 3));
  write_out(swapped);
  write_out(swapped);
  CHECK(swapped.storage()->released());
}

TEST_CASE("a full swap file names the sizes and takes what fits", "[swap]") {
  SwapFile file(swap_folder(), {.bytes = 10 * SwapFile::kBlock});
  auto first = std::make_unique<Swapped>(file, filled_storage(6 * SwapFile::kBlock, 1));
  CHECK_THROWS_WITH(Swapped(file, filled_storage(5 * SwapFile::kBlock, 2)),
                    ContainsSubstring("there is no room for 20.00 KiB: 24.00 KiB of 40.00 "
                                      "KiB are in use"));
  Swapped second(file, filled_storage(4 * SwapFile::kBlock, 2));
  first.reset();
  Swapped third(file, filled_storage(5 * SwapFile::kBlock, 3));
  write_out(second);
  write_out(third);
  read_in(second);
  read_in(third);
  CHECK(holds(*second.storage(), 2));
  CHECK(holds(*third.storage(), 3));
}

TEST_CASE("a swap file that cannot be made is one line", "[swap]") {
  CHECK_THROWS_WITH(SwapFile("/no/such/folder", {.bytes = 1}),
                    ContainsSubstring("cannot make a file in /no/such/folder"));
  CHECK_THROWS_WITH(SwapFile(swap_folder(), {.bytes = 0}),
                    ContainsSubstring("its size is 1 byte to 2^60: 0"));
  CHECK_THROWS_WITH(SwapFile(swap_folder(), {.bytes = 1, .threads = 65}),
                    ContainsSubstring("1 to 64 threads: 65"));
  CHECK_THROWS_WITH(
      SwapFile(swap_folder(), {.bytes = int64_t{1} << 59}),
      ContainsSubstring("does not give 512.00 PiB") || ContainsSubstring("does not give"));
  SwapFile file(swap_folder(), {.bytes = 1, .planned = true});
  CHECK_THROWS_WITH(Swapped(file, Storage::create(8, hero::kCpu)),
                    ContainsSubstring("a planned one has no room for bytes on cpu"));
}

TEST_CASE("a bit that the disk flipped is found", "[swap]") {
  SwapFile file(swap_folder(), {.bytes = 12 * kMiB});
  Swapped swapped(file, filled_storage(9 * kMiB + 17, 5));
  Swapped other(file, filled_storage(5000, 6));
  for (const int64_t at : {int64_t{0}, 5 * kMiB + 3, 9 * kMiB + 16}) {
    write_out(swapped);
    write_out(other);
    OpenedAgain(file).flip_bit(at);
    swapped.begin_read();
    CHECK_THROWS_WITH(swapped.wait(), ContainsSubstring("other bytes than were written came back"));
    CHECK(swapped.storage()->released());
    CHECK_THROWS_WITH(swapped.begin_read(), ContainsSubstring("holds nothing"));
    read_in(other);
    CHECK(holds(*other.storage(), 6));
    // it goes on with new bytes
    swapped.storage()->refill();
    fill_swapped(*swapped.storage(), 5);
  }
  // what lies behind the last byte of a slot is nobody's
  write_out(swapped);
  OpenedAgain(file).flip_bit(9 * kMiB + 17);
  read_in(swapped);
  CHECK(holds(*swapped.storage(), 5));
}

TEST_CASE("a swap file that ends early or is full is a named error", "[swap]") {
  SwapFile file(swap_folder(), {.bytes = 12 * kMiB});
  Swapped swapped(file, filled_storage(9 * kMiB, 5));
  write_out(swapped);
  OpenedAgain(file).end_at(6 * kMiB);
  swapped.begin_read();
  CHECK_THROWS_WITH(swapped.wait(), ContainsSubstring("the file ends before"));
  CHECK(swapped.storage()->released());

  // a disk that takes nothing: the bytes stay in memory
  swapped.storage()->refill();
  fill_swapped(*swapped.storage(), 8);
  const int kept = ::dup(file.descriptor());
  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE((kept >= 0 && full >= 0));
  REQUIRE(::dup2(full, file.descriptor()) >= 0);
  swapped.begin_write();
  CHECK_THROWS_WITH(swapped.wait(), ContainsSubstring("No space left on device"));
  CHECK_FALSE(swapped.storage()->released());
  CHECK(holds(*swapped.storage(), 8));
  REQUIRE(::dup2(kept, file.descriptor()) >= 0);
  write_out(swapped);
  read_in(swapped);
  CHECK(holds(*swapped.storage(), 8));
  ::close(kept);
  ::close(full);
}

TEST_CASE("a swap file leaves no name behind", "[swap]") {
  const hero_test::TempDir folder;
  {
    SwapFile file(folder / "", {.bytes = kMiB});
    CHECK(folder.entries() == 0);
    struct stat info {};
    REQUIRE(::fstat(file.descriptor(), &info) == 0);
    CHECK(info.st_size == kMiB);
    CHECK(info.st_blocks * 512 >= kMiB);  // the space is taken, not promised
  }
  CHECK(folder.entries() == 0);
}
