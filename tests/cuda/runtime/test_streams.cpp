// Streams and events as values, and the order of work that they make.
#include <thread>

#include "cuda/deferred.h"
#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/matmul.h>

using namespace hero;
using namespace hero_test;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("every thread has a stream of its own until a scope chooses another") {
  HERO_NEEDS_GPU();
  const cuda::Stream mine = cuda::Stream::current();
  CHECK(mine == cuda::Stream::current());
  CHECK(mine.device() == kGpu);
  bool other = false;
  std::thread([&] { other = !(cuda::Stream::current() == mine); }).join();
  CHECK(other);
  {
    const cuda::Stream stream;
    CHECK_FALSE(stream == mine);
    const StreamScope scope(stream);
    CHECK(cuda::Stream::current() == stream);
    {
      const StreamScope back(mine);
      CHECK(cuda::Stream::current() == mine);
    }
    CHECK(cuda::Stream::current() == stream);
  }
  CHECK(cuda::Stream::current() == mine);
}

TEST_CASE("streams and events can be waited for and asked") {
  HERO_NEEDS_GPU();
  const cuda::Stream stream;
  const Event never;
  CHECK(never.query());
  never.synchronize();
  Event start(true), end(true);
  {
    const StreamScope scope(stream);
    start.record(stream);
    const Array x = Array::full({1000}, 3, kFloat32, kGpu);
    end.record(stream);
  }
  end.synchronize();
  CHECK(end.query());
  CHECK(end.elapsed_ms(start) >= 0);
  stream.synchronize();
  CHECK(stream.query());
  CHECK_THROWS_WITH(stream.record().elapsed_ms(start), ContainsSubstring("without timing"));
  CHECK_THROWS_WITH(end.elapsed_ms(Event(true)), ContainsSubstring("was not recorded"));
}

TEST_CASE("memory that another stream uses is not handed out before that stream is done with it") {
  HERO_NEEDS_GPU();
#if !defined(__SANITIZE_ADDRESS__)
  const cuda::Stream stream;
  std::byte* at = nullptr;
  {
    const Array x = Array::full({3000}, 1, kFloat32, kGpu);
    at = x.storage().data();
    stream.wait(cuda::Stream::current());
    const StreamScope scope(stream);
    const Array y = Array::full({3000}, 2, kFloat32, kGpu);
    CHECK(y.storage().data() != at);
    record_use(x, stream);
  }
  stream.synchronize();
  const Array again = Array::empty({3000}, kFloat32, kGpu);
  CHECK(again.storage().data() == at);
  synchronize();
#endif
  CHECK_THROWS_WITH(record_use(Array::zeros({2}), cuda::Stream()),
                    ContainsSubstring("lies on cpu"));
}

TEST_CASE("what a device is can be asked") {
  HERO_NEEDS_GPU();
  const DeviceProperties said = device_properties();
  CHECK_FALSE(said.name.empty());
  CHECK(said.memory > 0);
  CHECK(said.multiprocessors > 0);
  CHECK(said.major >= 9);
  CHECK(said.uuid.size() == 32);
  for (int8_t i = 1; i < device_count(); ++i) {
    CHECK(device_properties({DeviceType::cuda, i}).uuid != said.uuid);
  }
}

#if defined(HERO_TEST_CUSIM)

TEST_CASE("events measure the time between them") {
  const Deferred at_once(false);  // events pass when they are recorded
  const cuda::Stream stream;
  Event start(true), end(true);
  start.record(stream);
  cusim::advance(2.5);
  end.record(stream);
  CHECK(end.elapsed_ms(start) == 2.5);
}

TEST_CASE("cusim: a stream's work takes no time of another stream's") {
  const Deferred at_once(false);
  const cuda::Stream mine, other;
  const Array x = Array::full({4, 4}, 1.0, kFloat32, kGpu);
  Event start(true), between(true), end(true);
  start.record(mine);
  {
    const StreamScope scope(other);
    core::matmul(x, x);
  }
  between.record(mine);
  {
    const StreamScope scope(mine);
    core::matmul(x, x);
  }
  end.record(mine);
  CHECK(between.elapsed_ms(start) == 0.0);
  CHECK(end.elapsed_ms(between) > 0.0);
}

namespace {

// The first element as the device has it now, whatever still has to be done.
float now(const Array& x) { return *reinterpret_cast<const float*>(x.bytes()); }

}  // namespace

TEST_CASE("cusim does deferred work when something waits for it, and only that stream's") {
  const Deferred deferred;
  const Array x = Array::zeros({4}, kFloat32, kGpu), y = Array::zeros({4}, kFloat32, kGpu);
  synchronize();
  const cuda::Stream a, b;
  {
    const StreamScope scope(a);
    core::backend(kGpu).run(core::call::Fill{x, 1});
  }
  {
    const StreamScope scope(b);
    core::backend(kGpu).run(core::call::Fill{y, 2});
  }
  CHECK(now(x) == 0);
  SECTION("the host waits for a stream") {
    a.synchronize();
    CHECK(now(x) == 1);
    CHECK(now(y) == 0);
    CHECK(a.query());
  }
  SECTION("the host waits for an event, not for what comes after it") {
    const Event event = a.record();
    {
      const StreamScope scope(a);
      core::backend(kGpu).run(core::call::Fill{x, 5});
    }
    event.synchronize();
    CHECK(now(x) == 1);
    CHECK(now(y) == 0);
  }
  SECTION("a stream waits for another") {
    b.wait(a);
    CHECK(now(x) == 0);
    b.synchronize();
    CHECK(now(x) == 1);
  }
  SECTION("a wait that is missing shows") {
    b.synchronize();
    CHECK(now(x) == 0);
  }
  SECTION("who asks again and again sees an end") {
    CHECK_FALSE(b.query());
    while (!b.query()) {
    }
    CHECK(now(y) == 2);
    CHECK(now(x) == 0);
  }
}

TEST_CASE("a stream of the driver is used again, with the memory that belongs to it") {
  void* handle = nullptr;
  {
    const cuda::Stream stream;
    handle = stream.handle();
    const cuda::Stream copy = stream;
  }
  CHECK(cuda::Stream().handle() == handle);
}

TEST_CASE("a stream of high priority is one, and none that was given back as another") {
  const auto priority_of = [](const cuda::Stream& stream) {
    int priority = 1;
    CHECK(cudaStreamGetPriority(static_cast<cudaStream_t>(stream.handle()), &priority) ==
          cudaSuccess);
    return priority;
  };
  int least = 0, greatest = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  REQUIRE(greatest < least);
  for (int i = 0; i < 2; ++i) {
    CHECK(priority_of(cuda::Stream(kGpu, cuda::Stream::Priority::high)) == greatest);
    CHECK(priority_of(cuda::Stream(kGpu)) == least);
  }
}

#endif
