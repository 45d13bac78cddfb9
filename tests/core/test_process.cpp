// The library in a forked child, and at the end of a process.
#include <atomic>
#include <thread>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/fork.h"

#include <hero/core/error.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::test;
using hero_test::Child, hero_test::run_forked;

// Work that threads share and that takes memory of every kind.
double work() {
  const Array x = Array::ones({300, 300});
  const Array y = core::map<core::kernels::Exp>(core::map<core::kernels::Mul>(x, Scalar(0.0)));
  return core::matmul(x, y).slice(0, 7, 8).to_vector<double>()[5];
}

void check_work() { check(work() == 300.0, "the product is wrong"); }

TEST_CASE("a forked child that does nothing can exit", "[core][process]") {
  const ThreadLimit limit(3);
  check_work();
  REQUIRE(run_forked([] {}) == 0);
}

TEST_CASE("a forked child computes, on as many threads", "[core][process]") {
  const ThreadLimit limit(3);
  check_work();
  const auto child = [] {
    check(num_threads() == 3, "threads: ", num_threads());
    check_work();
    std::atomic<int> present{0};
    parallel_for(3, 1, [&](int64_t, int64_t) {  // ends when three threads are there
      ++present;
      while (present < 3) std::this_thread::yield();
    });
    set_num_threads(2);
    check_work();
    const ThreadLimit one(1);
    check_work();
  };
  REQUIRE(run_forked(child) == 0);
  REQUIRE(run_forked([&] { check(run_forked(child) == 0, "a child's child"); }) == 0);
  REQUIRE(num_threads() == 3);
  check_work();
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose own locks a child may inherit held
TEST_CASE("a child may be forked while other threads compute", "[core][process]") {
  const ThreadLimit limit(2);
  check_work();  // what is made once is there: a child could not wait for a thread that makes it
  std::atomic<bool> stop{false};
  const auto busy = [&] {
    while (!stop) {
      check_work();
      const ThreadLimit other(3);
      core::empty_cache();
    }
  };
  std::thread first(busy), second(busy);
  int failed = 0;
  for (int round = 0; round < 20; ++round) failed += run_forked(check_work) != 0;
  stop = true;
  first.join();
  second.join();
  REQUIRE(failed == 0);
}
#endif

// Computes when it is destroyed, long after all statics that its work made have ended.
struct Late {
  bool armed = false;
  ~Late() {
    if (!armed) return;
    for (int i = 0; i < 3; ++i) check_work();
    parallel_for(100, 1, [](int64_t, int64_t) {});
    core::empty_cache();
    set_num_threads(2);
    check_work();
  }
};

constexpr auto kLate = "the program whose statics compute";

TEST_CASE(kLate, "[.child]") {
  if (Child::argument() == nullptr) return;
  static Late early;  // made before the pool: destroyed after whatever the work below makes
  early.armed = true;
  const ThreadLimit limit(3);
  std::thread(check_work).join();
  check_work();
  static Late late;
  late.armed = true;
}

TEST_CASE("destructors of statics may compute", "[core][process]") {
  for (int round = 0; round < 5; ++round) {
    Child child(kLate, "1");
    REQUIRE(child.wait() == 0);
  }
}

}  // namespace
