// A thread that works for another one has the modes of that one, whichever kind it is.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "dist/thread_modes.h"
#include "support/catch.h"

#include <hero/core/thread_pool.h>
#include <hero/core/threads/thread_state.h>
#include <hero/dist/dist.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/training/background_save.h>

using namespace hero;
using namespace hero_test;

namespace {

SeenModes seen_in_thread(const core::ThreadState* state) {
  SeenModes seen;
  std::thread([&] {
    std::optional<core::ThreadState::Scope> use;
    if (state != nullptr) use.emplace(*state);
    seen = seen_modes();
  }).join();
  return seen;
}

// What a worker of the pool sees while the caller has a chunk, too.
SeenModes seen_in_pool() {
  const ThreadLimit two(2);
  const auto caller = std::this_thread::get_id();
  SeenModes seen = {};
  std::atomic<int> inside = 0;
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++inside;
    // each waits for the other, so that both threads have a chunk
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (std::this_thread::get_id() != caller) seen = seen_modes();
  });
  return seen;
}

// A dataset that says what its samples are made under.
struct ModesDataset : nn::data::Dataset {
  std::shared_ptr<std::vector<SeenModes>> seen = std::make_shared<std::vector<SeenModes>>(1);
  int64_t size() const override { return 1; }
  nn::data::Example get(int64_t) const override {
    seen->front() = seen_modes();
    return {zeros({1})};
  }
};

SeenModes seen_in_loader(int workers) {
  const ModesDataset dataset;
  nn::data::DataLoader loader(dataset, {.workers = workers});
  for (const auto& batch : loader) REQUIRE(batch.size() == 1);
  return dataset.seen->front();
}

SeenModes seen_in_background() {
  SeenModes seen;
  nn::BackgroundWork work("save", [&](const auto&) { seen = seen_modes(); });
  REQUIRE(work.wait().empty());
  return seen;
}

std::vector<SeenModes> seen_in_ranks(int ranks) {
  std::vector<SeenModes> seen(static_cast<size_t>(ranks));
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    seen[static_cast<size_t>(world.rank())] = seen_modes();
  });
  return seen;
}

// A helper does not record into the caller's profiler, which observes one thread.
SeenModes without_profiler(SeenModes seen) {
  seen.profiled = false;
  return seen;
}

// What lies on the stack of a caller that goes on is not of use to a helper.
SeenModes beside(const SeenModes& caller) {
  SeenModes seen = without_profiler(caller);
  seen.error = "inner: broken";
  return seen;
}

}  // namespace

TEST_CASE("every mode reaches every kind of helper thread") {
  const SeenModes at_first = seen_modes();
  CHECK(seen_in_thread(nullptr) == [&] {
    SeenModes fresh = at_first;
    fresh.generator = {};  // each thread's own begins so
    return fresh;
  }());
  with_all_modes([&] {
    const SeenModes mine = seen_modes();
    // each of them differs from what it is otherwise
    CHECK(mine.recorded != at_first.recorded);
    CHECK(mine.training != at_first.training);
    CHECK(mine.hooks != at_first.hooks);
    CHECK(mine.refuses_infinity != at_first.refuses_infinity);
    CHECK(mine.may_be_saved != at_first.may_be_saved);
    CHECK(mine.product == kFloat16);
    CHECK(mine.norm == kFloat16);
    CHECK(mine.planned == DeviceType::cuda);
    CHECK(mine.tag == MemoryTag::communication);
    CHECK(mine.device == kMeta);
    CHECK(mine.ledger != at_first.ledger);
    CHECK(mine.generator == Generator::State{1234, 1});
    CHECK(mine.part == BatchPart{1, 2});
    CHECK(mine.phase == dist::Phase::checkpoint);
    CHECK(mine.error != at_first.error);
    CHECK_THAT(mine.error, Catch::Matchers::EndsWith(", in encoder.layer"));
    CHECK(mine.profiled);

    const core::ThreadState waiting = core::ThreadState::of_waiting();
    const core::ThreadState going_on = core::ThreadState::of_going_on();
    CHECK(seen_in_thread(&waiting) == without_profiler(mine));
    CHECK(seen_in_thread(&going_on) == beside(mine));
    CHECK(seen_in_pool() == without_profiler(mine));
    CHECK(seen_in_background() == beside(mine));
    // a batch is made without recording, from numbers of its own, and charged to `other`
    const SeenModes here = seen_in_loader(0), worker = seen_in_loader(2);
    CHECK(worker == beside(here));
    CHECK(worker.product == mine.product);
    CHECK(worker.ledger == mine.ledger);
    // a rank has a ledger of its own
    for (const int ranks : {1, 3}) {
      for (SeenModes seen : seen_in_ranks(ranks)) {
        INFO(ranks << " ranks");
        CHECK(seen.ledger != mine.ledger);
        seen.ledger = mine.ledger;
        seen.profiled = false;  // one rank runs on the caller's thread
        CHECK(seen == without_profiler(mine));
      }
    }
    CHECK(seen_modes() == mine);
  });
  CHECK(seen_modes() == at_first);
  // and the workers, which have gone on to live, have nothing of it
  SeenModes later = seen_in_pool();
  CHECK(later == at_first);
}

TEST_CASE("what a helper does within its scope leaves no trace on its thread") {
  std::thread([] {
    const SeenModes before = seen_modes();
    std::optional<core::ThreadState> state;
    with_all_modes([&] {
      state.emplace(core::ThreadState::of_going_on());
      // within the modes themselves, too
      const core::ThreadState::Scope use(*state);
    });
    {
      const core::ThreadState::Scope use(*state);
      const NoGrad inner;
      manual_seed(7);
      CHECK(seen_modes().product == kFloat16);
    }
    CHECK(seen_modes() == before);
  }).join();
}

TEST_CASE("ranks that are threads compute under the modes of their caller, as one rank does") {
  const auto products = [](int ranks) {
    std::vector<double> sums(static_cast<size_t>(ranks));
    const Autocast autocast;
    const NoGrad no_grad;
    manual_seed(5);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const Tensor x = randn({16, 16});
      const Tensor y = matmul(x, x);
      check(y.dtype() == kBFloat16, "a product of ", y.dtype());
      check(!y.requires_grad(), "a product was recorded");
      sums[static_cast<size_t>(world.rank())] = sum(y).item();
    });
    return sums;
  };
  const double alone = products(1).front();
  for (const double sum : products(3)) CHECK(sum == alone);
}

TEST_CASE("an error on a worker of the pool names its module as one on the caller does") {
  const ThreadLimit two(2);
  const std::string place = "encoder.embedding";
  const PlaceScope at(place);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> inside = 0;
  const auto body = [&](int64_t, int64_t) {
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    check(std::this_thread::get_id() == caller, "index: out of range");
  };
  CHECK_THROWS_WITH(parallel_for(2, 1, body), "index: out of range, in encoder.embedding");
}

TEST_CASE("what checkpoint() runs again is known to the threads that help it") {
  std::vector<bool> seen;
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = checkpoint(
      [&](const Tensor& in) {
        const ThreadLimit two(2);
        const auto caller = std::this_thread::get_id();
        std::atomic<int> inside = 0;
        parallel_for(2, 1, [&](int64_t, int64_t) {
          ++inside;
          const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
          while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
          if (std::this_thread::get_id() != caller) seen.push_back(recomputing());
        });
        return square(in);
      },
      x);
  sum(y).backward();
  CHECK(seen == std::vector<bool>{false, true});
}
