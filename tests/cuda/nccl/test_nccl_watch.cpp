// Calls that all ranks have asked for and that are not done: what the watch over them says, and
// that no host takes what the GPU then holds for a result.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/nccl/nccl_ranks.h"
#include "support/temp_dir.h"

#include <hero/core/io/file.h>
#include <hero/dist/backends/nccl/comm.h>
#include <hero/dist/flight_recorder.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

// While it lives another thread does something, after some seconds.
class Later {
 public:
  Later(double seconds, std::function<void()> what)
      : thread_([seconds, what = std::move(what)] {
          std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
          what();
        }) {}
  ~Later() { thread_.join(); }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

 private:
  std::thread thread_;
};

using Clock = std::chrono::steady_clock;

const CallOptions kFirst = {.order = Order::native, .unit = "fc1"};
const CallOptions kSecond = {.order = Order::native, .unit = "fc2"};

std::string late(int rank) {
  return "all_reduce (call 1 of 'world', unit 'fc1'): time-out after 1 s: all ranks have asked for "
         "it, but it does not end on cuda:" +
         std::to_string(rank) + "; set HERO_TIMEOUT to more seconds if they only need longer";
}

// What the programs of two ranks throw that do this behind a sum which one of their GPUs never
// does. The run ends with the line of a rank, whether or not its program has heard of it.
std::vector<std::string> stuck(const std::function<void(Communicator&, const Array&)>& then) {
  const Patience patience;
  const int open = cusim::open_communicators();
  cusim::hold_nccl("all_reduce", true, 1);
  std::vector<std::string> lines(2);
  const std::string whole = error_of([&] {
    run_ranks(
        2,
        [&](Communicator& world) {
          const Array x = Array::full({4}, 1.0 + world.rank(), kFloat32, world.device());
          world.barrier();
          world.all_reduce(x, kFirst);
          try {
            then(world, x);
          } catch (const Error& error) {
            lines[static_cast<size_t>(world.rank())] = error.what();
            throw;
          }
        },
        seconds_of_step(1));
  });
  CHECK((whole == late(0) || whole == late(1)));
  CHECK(cusim::open_communicators() == open);
  return lines;
}

}  // namespace

TEST_CASE("nccl: where a GPU never does a call, each rank names its oldest after the time-out") {
  const auto reads = [](Communicator& world, const Array& x) {
    world.all_reduce(x, kSecond);
    x.to(kCpu);
  };
  CHECK(stuck(reads) == std::vector<std::string>{late(0), late(1)});
  const auto ends = [](Communicator&, const Array&) {};
  CHECK(stuck(ends) == std::vector<std::string>(2));
}

TEST_CASE("nccl: whoever has waited for a call that was given up hears of it, and gets no values") {
  const auto looks = [](Communicator&, const Array& x) {
    const Array there = cuda::pinned({4}, kFloat32);
    const cuda::Event copied = cuda::copy_async(x, there);
    while (!copied.query()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    FAIL_CHECK("the copy is there");
  };
  CHECK(stuck(looks) == std::vector<std::string>{late(0), late(1)});
  std::string heard[2];
  const auto lends = [&](Communicator& world, const Array& x) {  // a thread that is no rank's
    const Array there = cuda::pinned({4}, kFloat32);
    const cuda::Event copied = cuda::copy_async(x, there);
    std::thread([&] { heard[world.rank()] = error_of([&] { copied.synchronize(); }); }).join();
  };
  CHECK(stuck(lends) == std::vector<std::string>(2));
  CHECK(heard[0] == late(0));
  CHECK(heard[1] == late(1));
  const auto goes_on = [](Communicator& world, const Array& x) {
    const std::string first = error_of([&] { x.to(kCpu); });
    CHECK(first == late(world.rank()));
    CHECK(error_of([&] { x.to(kCpu); }) == first);
    CHECK(error_of([&] { world.all_reduce(x, kSecond); }) == first);
  };
  CHECK(stuck(goes_on) == std::vector<std::string>(2));
}

TEST_CASE("nccl: an error of NCCL's own threads ends what the host waits for") {
  const Patience patience;
  const int open = cusim::open_communicators();
  cusim::hold_nccl("all_reduce", true, 0);
  const std::vector<std::string> lines = errors_of(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, 1.0, kFloat32, world.device());
        world.barrier();
        if (world.rank() == 0) world.all_reduce(x, kFirst);
        if (world.rank() == 1) {
          world.all_reduce(x, kFirst);
          const Later error(0.2, [] { cusim::break_nccl("Async", 1, ncclRemoteError); });
          x.to(kCpu);
        }
        x.to(kCpu);
      },
      kNccl);
  const std::string call = "all_reduce (call 1 of 'world', unit 'fc1'): ";
  CHECK_THAT(lines[1], StartsWith(call + "NCCL reports: remote process error (told to fail in "
                                         "Async)"));
  CHECK(lines[0] == call + "another rank has failed");  // some seconds later
  CHECK(cusim::open_communicators() == open);
}

TEST_CASE("nccl: all communicators of a rank are aborted at once") {
  // each abort waits for the device, and so for the call of the other communicator
  const Patience patience;
  const int aborted = cusim::aborted_communicators();
  cusim::hold_nccl("all_reduce", true, 1);
  cusim::hold_nccl("all_gather", true, 1);
  const std::vector<std::string> lines = errors_of(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, 1.0, kFloat32, world.device());
        const Array all = Array::zeros({8}, kFloat32, world.device());
        world.barrier();
        dist::Work sum =
            world.all_reduce(x, {.order = Order::native, .async = true, .unit = "fc1"});
        dist::Work gather = world.all_gather(all, x.slice(0, 0, 4).contiguous(), {.async = true});
        gather.wait();
        sum.wait();
        all.to(kCpu);
      },
      seconds_of_step(1));
  CHECK(lines == std::vector<std::string>{late(0), late(1)});
  CHECK(cusim::aborted_communicators() == aborted + 4);
}

TEST_CASE("nccl: a lane that still joins is aborted at once with a rank's other communicators") {
  // its abort waits for the device, and so for the sum, for which rank 1 never asks
  const Patience patience;
  const int open = cusim::open_communicators();
  for (const char* kind : {"send", "recv"}) cusim::hold_nccl(kind, true);  // also the first byte
  double seconds = 0.0;
  for (int run = 0; run < 3; ++run) {  // a busy machine may be late
    std::atomic<bool> throws = false;
    Clock::time_point thrown;
    cusim::take_nccl_log();
    const std::vector<std::string> lines = errors_of(
        2,
        [&](Communicator& world) {
          const Array x = Array::full({4}, 1.0, kFloat32, world.device());
          const Array y = Array::full({4}, 2.0, kFloat32, world.device());
          world.barrier();
          Work sum, message;
          if (world.rank() == 0) sum = world.all_reduce(x, {.order = Order::native, .async = true});
          if (world.rank() == 0) message = world.send(y, 1, {.async = true});
          if (world.rank() == 1) message = world.recv(y, 0, {.async = true});
          expect(comes([&] {
                   message.test();
                   return world.rank() == 0 ? is_logged("rank 0 asks for send") : throws.load();
                 }),
                 "the lane joins");
          if (world.rank() == 0) {
            thrown = Clock::now();
            throws = true;
            fail("no more data");
          }
          message.wait();
        },
        kNccl);
    seconds = std::chrono::duration<double>(Clock::now() - thrown).count();
    CHECK(lines[0] == "no more data");
    CHECK_THAT(lines[1], ContainsSubstring("rank 0 failed"));
    CHECK(cusim::open_communicators() == open);
    if (seconds < 5.0) break;
  }
  CHECK(seconds < 5.0);  // the watchdog aborts after 6 s what is left of a rank that has failed
}

TEST_CASE("nccl: a lane whose other end never joins ends with the time-out, on both ranks") {
  const Patience patience;
  const int open = cusim::open_communicators();
  int aborted = 0;
  std::vector<std::string> lines(2);
  std::string said;
  for (const std::string seconds : {"1", "10", "60"}) {  // for the ranks to meet on a busy machine
    aborted = cusim::aborted_communicators();
    lines = errors_of(
        2,
        [&](Communicator& world) {
          const Array x = Array::full({4}, 1.0, kFloat32, world.device());
          world.barrier();
          if (world.rank() == 1) cusim::hold_nccl("CommInitRankConfig", true, 1);
          if (world.rank() == 0) world.send(x, 1);
          if (world.rank() == 1) world.recv(x, 0);
        },
        seconds_of_step(std::stod(seconds)));
    cusim::hold_nccl("CommInitRankConfig", false, 1);
    said = " (call 0 of 'world'): time-out after " + seconds + " s: NCCL still waits for rank ";
    const auto is_said = [&](const std::string& line) { return line.find(said) != line.npos; };
    if (std::all_of(lines.begin(), lines.end(), is_said)) break;
  }
  CHECK_THAT(lines[0], ContainsSubstring(said));  // its own, or the other's behind "rank 1 failed"
  CHECK_THAT(lines[1], ContainsSubstring(said));
  // those who come late meet nobody who takes what they make
  CHECK(comes([&] { return cusim::aborted_communicators() >= aborted + 2; }));
  CHECK(comes([&] { return cusim::open_communicators() == open; }));
}

TEST_CASE("nccl: the time of a call counts from when it could be done") {
  const Patience patience;
  for (const char* kind : {"reduce_scatter", "all_reduce"}) cusim::hold_nccl(kind, true);
  std::atomic<int> come = 0;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, 1.0 + world.rank(), kFloat32, world.device());
        const Array half = Array::zeros({2}, kFloat32, world.device());
        world.barrier();
        world.reduce_scatter(half, x, kFirst);
        world.all_reduce(x, kSecond);
        ++come;
        if (world.rank() == 1) return void(x.to(kCpu));
        expect(comes([&] { return come == 2; }), "rank 1 comes");
        const Later first(2, [] { cusim::hold_nccl("reduce_scatter", false); });
        const Later second(4, [] { cusim::hold_nccl("all_reduce", false); });
        expect(same_values(x, Array::full({4}, 3.0)), "the sum");
        expect(same_values(half, Array::full({2}, 3.0)), "the parts");
      },
      seconds_of_step(3));
}

TEST_CASE("nccl: the flight recorder has when the GPU came to a call, and when it was done") {
  const Patience patience;
  const TempDir folder;
  cusim::hold_nccl("all_reduce", true);
  std::atomic<int> come = 0;
  std::atomic<bool> seen = false;
  run_ranks(
      2,
      [&](Communicator& world) {
        const Array x = Array::full({4}, 1.0, kFloat32, world.device());
        world.barrier();
        world.all_reduce(x, kFirst);
        ++come;
        expect(comes([&] { return come == 2; }), "both come");
        // the last two columns of the last line
        const auto ends = [&](bool begun, bool done) {
          const cuda::Stream stream = cuda::Stream::current(world.device());
          if (!seen) stream.query();
          if (world.rank() == 1) return true;
          dist::write_flight_records(folder / "flight");
          const std::string text = read_file_text(folder / "flight/rank-00000.txt");
          const std::string last = text.substr(text.size() - 25);
          return (last.substr(0, 12).back() != '-') == begun && (last[23] != '-') == done;
        };
        if (world.rank() == 0) {
          expect(comes([&] { return ends(true, false); }), "it has begun");
          seen = true;
          cusim::hold_nccl("all_reduce", false);
        }
        expect(comes([&] { return seen.load(); }), "rank 0 has seen it");
        x.to(kCpu);
        expect(comes([&] { return ends(true, true); }), "it is done");
      },
      kNccl);
}

TEST_CASE("nccl: calls run on streams of high priority") {
  const NcclDevices devices;
  const dist::nccl::Library& library = dist::nccl::library();
  ncclUniqueId id = {};
  REQUIRE(library.GetUniqueId(&id) == ncclSuccess);
  dist::nccl::Comm comm(
      dist::nccl::connect(library, dist::nccl::by_id(library, id, 1, 0), "joining", 60, [] {}),
      {"alone", 0}, {kGpu});
  int least = 0, greatest = 0, priority = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  CHECK(cudaStreamGetPriority(comm.queue(), &priority) == cudaSuccess);
  CHECK(priority == greatest);
}

#endif
