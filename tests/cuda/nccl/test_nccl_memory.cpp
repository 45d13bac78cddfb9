// Memory that goes back to the driver, which waits for a device: whoever gives it back, the device
// waits for no rank that could not come meanwhile. cusim ends the program where it would.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/nccl/nccl_ranks.h"
#include "cuda/nccl/queues.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

namespace {

constexpr int64_t kLarge = 1 << 24;  // bytes of a block that has a segment of its own

// While it lives, messages do not begin on any rank.
class HeldMessages {
 public:
  HeldMessages() { hold(true); }
  ~HeldMessages() { release(); }
  HeldMessages(const HeldMessages&) = delete;
  HeldMessages& operator=(const HeldMessages&) = delete;
  void release() { hold(false); }

 private:
  static void hold(bool held) {
    for (const char* kind : {"send", "recv"}) cusim::hold_nccl(kind, held);
  }
};

// A block of the device that no array holds.
bool has_free_block(Device device) { return cuda::memory_stats(device).cached() >= kLarge; }

// A device has so much memory while it lives.
class Memory {
 public:
  explicit Memory(int64_t bytes) { cusim::set_memory(static_cast<size_t>(bytes)); }
  ~Memory() { cusim::set_memory(size_t{80} << 30); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

Array large_on(Device device) { return Array::empty({kLarge}, kUInt8, device); }

}  // namespace

TEST_CASE("nccl: a thread that is no rank's leaves memory where a GPU waits for another rank") {
  const NcclDevices devices;
  std::atomic<bool> went_on = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        Array large = large_on(world.device());
        world.barrier();
        if (world.rank() == 1) expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
        Work sum = world.all_reduce(x, {.async = true});
        large = {};
        if (world.rank() == 0) {
          std::thread([] { cuda::empty_cache(); }).join();
          expect(has_free_block(world.device()), "the block stays");
        }
        went_on = true;
        sum.wait();
        expect(same_values(x, Array::full({4}, 3.0)), "the sum");
        world.barrier();
        std::thread([] { cuda::empty_cache(); }).join();
        expect(!has_free_block(world.device()), "the block is gone");
      },
      kNccl);
}

TEST_CASE("nccl: a thread that is no rank's waits for memory until the other ranks have come") {
  const NcclDevices devices;
  const dist::RunOptions options = seconds_of_step(2);
  std::atomic<bool> went_on = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Device device = world.device();
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, device);
        Array large = large_on(device);
        world.barrier();
        if (world.rank() == 1) expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
        Work sum = world.all_reduce(x, {.async = true});
        large = {};
        if (world.rank() == 0) {
          const Memory full(cuda::memory_stats(device).reserved + kLarge);
          std::string error;
          const auto allocate = [&] {
            try {
              Array::empty({2 * kLarge}, kUInt8, device);
            } catch (const Error& caught) {
              error = caught.what();
            }
          };
          std::thread(allocate).join();  // as long as a step may take, if rank 1 does not come
          expect(error.find("out of memory") != std::string::npos, "there is none: " + error);
          error.clear();
          std::thread late(allocate);
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          went_on = true;
          late.join();
          expect(error.empty(), "there is some: " + error);
        }
        sum.wait();
        expect(same_values(x, Array::full({4}, 3.0)), "the sum");
      },
      options);
}

TEST_CASE("nccl: a rank leaves memory of another rank's GPU that waits for a third") {
  const NcclDevices devices;
  std::atomic<bool> asked = false, went_on = false;
  run_ranks(
      3,
      [&](Communicator& world) {
        const int me = world.rank();
        const Array x = Array::full({4}, me, kFloat32, world.device());
        const Communicator pair = world.split(me == 0 ? -1 : 0, 0);
        Array large = large_on(world.device());
        world.barrier();
        if (me == 0) {
          large = {};
          expect(comes([&] { return asked.load(); }), "rank 1 asks for the sum");
          cuda::empty_cache();
          expect(!has_free_block(world.device()), "its own block is gone");
          expect(has_free_block({DeviceType::cuda, 1}), "rank 1's stays");
          went_on = true;
        } else {
          if (me == 2) expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
          Work sum = pair.all_reduce(x, {.async = true});
          large = {};
          asked = true;
          sum.wait();
          expect(same_values(x, Array::full({4}, 3.0)), "the sum");
        }
        world.barrier();
      },
      kNccl);
}

TEST_CASE("nccl: memory stays while a GPU waits for the other end of a lane to connect") {
  const NcclDevices devices;
  std::atomic<bool> went_on = false;
  HeldMessages messages;
  cusim::take_nccl_log();
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, world.rank() + 1.0, kFloat32, world.device());
        Array large = large_on(world.device());
        Work message = world.rank() == 0 ? world.send(x, 1, {.async = true})
                                         : world.recv(x, 0, {.async = true});
        if (world.rank() == 0) {
          expect(comes([&] {
                   message.test();
                   return is_logged("rank 0 asks for send");
                 }),
                 "the lane connects");
          large = {};
          cuda::empty_cache();
          expect(has_free_block(world.device()), "the block stays");
          messages.release();
          went_on = true;
        } else {
          expect(comes([&] {
                   message.test();
                   return went_on.load();
                 }),
                 "rank 0 goes on");
        }
        message.wait();
        expect(same_values(x, Array::full({4}, 1.0)), "the message");
        world.barrier();
        cuda::empty_cache();
        expect(!has_free_block(world.device()), "the block is gone");
      },
      kNccl);
}

TEST_CASE("nccl: ranks that wait for each other before they give memory back send messages") {
  const NcclDevices devices;
  const dist::RunOptions options = seconds_of_step(20);
  std::atomic<bool> asked = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const int me = world.rank();
        const Array x = Array::full({4}, me + 1.0, kFloat32, world.device());
        const Array y = Array::full({4}, me + 1.0, kFloat32, world.device());
        Array large = large_on(world.device());
        world.barrier();
        const auto begin = [&] {
          return me == 0 ? world.send(x, 1, {.async = true}) : world.recv(x, 0, {.async = true});
        };
        begin().wait();  // the lane is there
        world.barrier();
        if (me == 0) cusim::take_nccl_log();
        world.barrier();
        // Rank 0 asks for a message, for which rank 1 has not asked, and rank 1 for a sum.
        Work message = begin(), sum;
        if (me == 1) sum = world.all_reduce(y, {.async = true});
        if (me == 0) {
          expect(comes([&] { return message.test() || is_logged("rank 0 asks for send"); }),
                 "rank 0 asks");
          asked = true;
        }
        expect(comes([&] { return asked.load(); }), "rank 1 goes on");
        large = {};
        cuda::empty_cache();
        expect(!has_free_block(world.device()), "the block is gone");
        if (me == 0) sum = world.all_reduce(y, {.async = true});
        message.wait();
        sum.wait();
        expect(same_values(x, Array::full({4}, 1.0)), "the message");
        expect(same_values(y, Array::full({4}, 3.0)), "the sum");
      },
      options);
}

// Ranks 0 and 4 of 5 share one of four GPUs.
TEST_CASE("nccl: a rank that lets go of a group does not wait for the work of a rank on its GPU") {
  const NcclDevices devices;
  const SharedGPUs shared;
  const int ranks = cuda::device_count() + 1, last = ranks - 1;
  const int open = cusim::open_communicators();
  const dist::RunOptions options = seconds_of_step(2);
  std::atomic<bool> went_on = false;
  std::atomic<int> begun = 0;
  cusim::take_nccl_log();
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const int me = world.rank();
        Communicator pair = world.split(me < 2 ? 0 : -1, 0, "pair");
        const Array x = Array::full({4}, me, kFloat32, world.device());
        world.barrier();
        if (me == last) expect(comes([&] { return begun == last; }), "the others begin the sum");
        Work sum = world.all_reduce(x, {.async = true});  // the last one asks for it at once
        ++begun;
        if (me == 0) {
          expect(comes([&] { return begun == ranks; }), "the last rank begins the sum");
          pair = {};  // its GPU waits for this rank's part of the sum
          expect(!is_logged("CommFinalize: rank 0 of 2"), "its communicators are put by");
          went_on = true;
        }
        expect(comes([&] { return went_on.load(); }), "rank 0 goes on");
        sum.wait();
        expect(same_values(x, Array::full({4}, last * ranks / 2)), "the sum");
        world.barrier();
        world.barrier();  // begins when all ranks have their sums
        if (me == 0) expect(is_logged("CommDestroy: rank 0 of 2"), "the communicators are gone");
      },
      options);
  CHECK(cusim::open_communicators() == open);
}

#endif
