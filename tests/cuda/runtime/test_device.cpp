// What a device is to the rest of the library: arrays that lie there.
#include <functional>
#include <thread>
#include <vector>

#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/ledger.h>
#include <hero/core/threads/thread_state.h>
#include <hero/cuda/cuda.h>
#ifdef HERO_TEST_CUSIM
#include <hero/cuda/runtime/runtime.cuh>
#endif

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("arrays on the GPU are charged to its account and cannot be read by the host") {
  HERO_NEEDS_GPU();
  Ledger ledger;
  const LedgerScope scope(ledger);
  {
    const Array x = Array::full({3, 5}, 2.5, kFloat32, kGpu);
    CHECK(ledger.live(DeviceType::cuda) == 60);
    CHECK(ledger.live(DeviceType::cpu) == 0);
    CHECK_THROWS_WITH(x.data<float>(),
                      ContainsSubstring("[3, 5] lies on cuda:0") && ContainsSubstring("to(kCpu)"));
  }
  CHECK(ledger.live(DeviceType::cuda) == 0);
}

TEST_CASE("a device that is not there is an error that says what there is") {
  CHECK_THROWS_WITH(Array::empty({2}, kFloat32, {DeviceType::cuda, 9}),
                    ContainsSubstring("device cuda:9 is not available: "));
}

#ifdef HERO_TEST_CUSIM
TEST_CASE("a thread makes a context on the device of its arrays, and on no other") {
  const auto used = [](const std::function<void()>& work) {
    cusim::forget_contexts();
    std::thread(work).join();
    return cusim::contexts();
  };
  const Device third = {DeviceType::cuda, 2};
  const auto on_third = [&] {
    const Array x = Array::full({3}, 2.5, kFloat32, third);
    CHECK(cuda::pin_memory(x.to(kCpu)).to_vector<double>() == std::vector<double>(3, 2.5));
  };
  CHECK(used(on_third) == std::vector<int>{2});
  CHECK(used([&] {
          cuda::use_device(3);
          on_third();
          int current = -1;
          cudaGetDevice(&current);
          CHECK(current == 3);  // which it has gone back to
          const core::ThreadState state = core::ThreadState::of_waiting();
          std::thread([&] {
            const core::ThreadState::Scope use(state);
            cudaGetDevice(&current);
          }).join();
          CHECK(current == 3);  // of whoever works for it
        }) == std::vector<int>{2, 3});
}
#endif
