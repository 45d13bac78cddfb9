// Arrays whose bytes are away when a kernel asks for them.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/device/backend.h>
#include <hero/core/functions/recurrence.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::test;

// Has the values 0, 1, 2, .. of a storage, which it restores slowly.
class SlowFetcher final : public core::Fetcher {
 public:
  explicit SlowFetcher(const Array& array) : array_(array) {
    array_.storage().release();
    core::set_fetcher(array_.storage(), this);
  }
  ~SlowFetcher() override { core::set_fetcher(array_.storage(), nullptr); }
  void fetch() override {
    const std::lock_guard lock(mutex_);
    if (!array_.storage().released()) return;
    ++fetches;
    array_.storage().refill();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (int64_t i = 0; i < array_.numel(); ++i) array_.data<float>()[i] = static_cast<float>(i);
  }
  void fetch_next() override { fetch(); }
  void put_back() override {}

  int fetches = 0;

 private:
  const Array array_;
  std::mutex mutex_;
};

Array counted(const Shape& shape) {
  const Array x = Array::empty(shape);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i);
  return x;
}

// A family whose threads find the addresses of their parts themselves.
Array columns_of(const Array& x) {
  const core::Window window{.kernel = {3, 3}};
  const Array out = Array::empty({x.size(0), x.size(1) * 9, (x.size(2) - 2) * (x.size(3) - 2)});
  core::backend(kCpu).run(core::call::Im2col{x, window, out});
  return out;
}

TEST_CASE("a kernel on several threads waits for the bytes that a fetcher restores", "[core]") {
  const ThreadLimit limit(3);
  const Shape shape{6, 4, 40, 40};
  const Array expected = columns_of(counted(shape));
  for (int round = 0; round < 3; ++round) {
    const Array x = counted(shape);
    SlowFetcher fetcher(x);
    CHECK(core::has_fetchers());
    CHECK(columns_of(x).to_vector<float>() == expected.to_vector<float>());
    CHECK(fetcher.fetches == 1);
  }
  CHECK_FALSE(core::has_fetchers());
}

TEST_CASE("kernels that only the CPU has fetch their arrays, too", "[core]") {
  const Shape shape{3, 5};
  const auto results = [](const Array& x, const Array& y) {
    using namespace core;
    return std::vector{recurrence(x, y, 1, Direction::forward),
                       running_extremes(ArgOp::max, x, 1).values,
                       kth_positions(x, 2, 1).to(kFloat32)};
  };
  const std::vector<Array> expected = results(counted(shape), counted(shape));
  for (size_t i = 0; i < expected.size(); ++i) {
    const Array x = counted(shape), y = counted(shape);
    SlowFetcher fetch_x(x), fetch_y(y);
    CHECK(results(x, y)[i].to_vector<float>() == expected[i].to_vector<float>());
    CHECK(fetch_x.fetches == 1);
    CHECK(fetch_y.fetches == 1);
  }
}

}  // namespace
