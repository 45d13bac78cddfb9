// What goes wrong on a device, and what the errors say.
#include "cuda/deferred.h"
#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/device/backend.h>

#if defined(HERO_TEST_CUSIM)
#include <cstdlib>
#include <string>

#include <unistd.h>
#endif

using namespace hero;
using namespace hero_test;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("more memory than there is is an error that says what is held, and nothing is lost") {
  HERO_NEEDS_GPU();
  const MemoryStats before = memory_stats();
  const int64_t too_much = device_properties().memory + 1;
  CHECK_THROWS_WITH(Array::empty({too_much}, kUInt8, kGpu),
                    ContainsSubstring("allocate: out of memory on cuda:0 (") &&
                        ContainsSubstring("asked for; arrays hold") &&
                        ContainsSubstring("use smaller batches or release tensors"));
  CHECK(memory_stats().retries == before.retries + 1);
  CHECK(memory_stats().allocated == before.allocated);
  CHECK(Array::full({10}, 1, kFloat32, kGpu).defined());
  synchronize();
}

#if defined(HERO_TEST_CUSIM)

TEST_CASE("an error that a kernel leaves behind comes with the names of those that ran") {
  const Deferred deferred;
  synchronize();
  cusim::break_next("fill");
  const Array x = Array::full({5}, 1, kFloat32, kGpu);
  CHECK_THROWS_WITH(synchronize(),
                    "synchronize: CUDA reports: cudaErrorIllegalAddress; it is an error of one of "
                    "fill; HERO_CUDA_SYNC=1 names the very operation");
  // it stays, as on a GPU: nothing after it is done
  CHECK_THROWS_WITH(cuda::Stream::current().query(), ContainsSubstring("cudaErrorIllegalAddress"));
  cusim::break_next(nullptr);
  synchronize();
}

TEST_CASE("an error of a launch names its operation") {
  const Deferred at_once(false);
  const Array x = Array::zeros({5}, kFloat32, kGpu);
  cusim::break_next("fill");
  CHECK_THROWS_WITH(core::backend(kGpu).run(core::call::Fill{x, 1}),
                    ContainsSubstring("fill: CUDA reports: cudaErrorIllegalAddress"));
}

TEST_CASE("memory runs out where cusim says so, and cached memory is given back first") {
  empty_cache();
  const int64_t held = memory_stats().reserved;
  cusim::set_memory(static_cast<size_t>(held) + (8 << 20));
  { const Array x = Array::empty({6 << 20}, kUInt8, kGpu); }
  {
    const MemoryStats before = memory_stats();
    const Array y = Array::empty({8 << 20}, kUInt8, kGpu);
    CHECK(memory_stats().retries == before.retries + (before.cached() > 0 ? 1 : 0));
    CHECK_THROWS_WITH(Array::empty({3 << 20}, kUInt8, kGpu),
                      ContainsSubstring("(0 B free of ") && ContainsSubstring("3.00 MiB asked"));
  }
  cusim::set_memory(size_t{80} << 30);
}

TEST_CASE("arrays leave no block behind") {
  empty_cache();
  const size_t before = cusim::live_blocks();
  for (int i = 0; i < 3; ++i) {
    const Array x = Array::full({100 + i}, 1, kFloat64, kGpu);
    const Array y = Array::full({7 << 20}, 0, kUInt8, kGpu);
  }
  empty_cache();
  CHECK(cusim::live_blocks() <= before);
}

TEST_CASE("copies that go the other way than they say are refused by cusim") {
  float host[4] = {};
  void* device = nullptr;
  CHECK(cudaMalloc(&device, 16) == cudaSuccess);
  CHECK(cudaMemcpyAsync(host, device, 16, cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(device, host, 20, cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidValue);  // beyond the block
  CHECK(cudaMemcpyAsync(device, host, 16, cudaMemcpyHostToDevice, nullptr) == cudaSuccess);
  CHECK(cudaFreeHost(device) == cudaErrorInvalidValue);
  CHECK(cudaFree(device) == cudaSuccess);
  cudaGetLastError();
}

namespace {

// The exit status of this program running one test case with a variable in its environment.
int status_with(const std::string& variable, const std::string& test_case) {
  char path[4096] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) <= 0) return -1;
  return std::system((variable + " '" + path + "' '" + test_case + "' >/dev/null").c_str());
}

}  // namespace

TEST_CASE("run with HERO_CUDA_SYNC=1: the error names the very operation", "[.]") {
  const Deferred deferred;
  cusim::break_next("fill");
  CHECK_THROWS_WITH(Array::full({5}, 1, kFloat32, kGpu),
                    "fill: CUDA reports: cudaErrorIllegalAddress");
}

TEST_CASE("run with HERO_CUDA_CACHE=0: nothing is kept", "[.]") {
  { const Array x = Array::full({5}, 1, kFloat32, kGpu); }
  CHECK(memory_stats().reserved == 0);
  CHECK(memory_stats().device_frees == 1);
}

TEST_CASE("variables of the environment choose how errors and memory are looked for") {
  CHECK(status_with("HERO_CUDA_SYNC=1",
                    "run with HERO_CUDA_SYNC=1: the error names the very operation") == 0);
  CHECK(status_with("HERO_CUDA_CACHE=0", "run with HERO_CUDA_CACHE=0: nothing is kept") == 0);
  CHECK(status_with("HERO_CUDA_SYNC=0",
                    "run with HERO_CUDA_SYNC=1: the error names the very operation") != 0);
}

#endif
