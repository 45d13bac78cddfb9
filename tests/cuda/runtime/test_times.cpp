// Where the GPU's time goes: events around launches, ranges for profilers, and what a launch costs
// only once.
#include <map>
#include <thread>

#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/autograd/autograd.h>
#include <hero/core/device/backend.h>
#include <hero/cuda/graph.h>
#include <hero/nn/linear.h>

#ifdef HERO_TEST_CUSIM
#include <hero/cuda/runtime/times.cuh>
#endif

using namespace hero;
using namespace hero_test;
using test::noise;

namespace {

// Operations are timed while it lives, from nothing.
struct Timing {
  Timing() {
    cuda::time_operations(true);
    cuda::reset_operation_times();
  }
  ~Timing() {
    cuda::time_operations(false);
    cuda::reset_operation_times();
  }
};

std::map<std::pair<std::string, std::string>, int64_t> launches() {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const cuda::OperationTime& time : cuda::operation_times()) {
    counts[{time.op, time.module}] = time.launches;
  }
  return counts;
}

struct Net : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 8, 8);
  Tensor forward(const Tensor& x) override { return relu(first(x)); }
};

}  // namespace

TEST_CASE("launches are counted by operation and by the module of forward and backward") {
  HERO_NEEDS_GPU();
  Net net;
  net.to(kGpu);
  const Tensor x(noise({4, 8}).to(kGpu));
  sum(net(x)).backward();  // what is made at first use is no part of it
  const Timing timing;
  sum(net(x)).backward();
  const auto counts = launches();
  int64_t of_layer = 0, backward = 0;
  for (const auto& [key, count] : counts) {
    if (key.second == "first") of_layer += count;
    if (key.first == "linear_backward" || key.first == "matmul") {
      backward += key.second == "first" ? count : 0;
    }
  }
  CHECK(of_layer > backward);
  CHECK(backward > 0);
  const std::string text = cuda::operation_times_text();
  CHECK(text.find("\nlinear ") != std::string::npos);
  CHECK(text.find("\nfirst ") != std::string::npos);
}

TEST_CASE("nothing is timed unless it is asked for, and a reset forgets") {
  HERO_NEEDS_GPU();
  const Array x = on_gpu(noise({4}));
  core::backend(kGpu).run(core::call::Fill{x, 1});
  CHECK(cuda::operation_times_text().empty());
  {
    const Timing timing;
    core::backend(kGpu).run(core::call::Fill{x, 2});
    CHECK(launches().at({"fill", ""}) == 1);
    cuda::reset_operation_times();
    CHECK(cuda::operation_times().empty());
  }
  core::backend(kGpu).run(core::call::Fill{x, 3});
  CHECK(cuda::operation_times().empty());
}

TEST_CASE("a graph's replay is one operation, and its capture none") {
  HERO_NEEDS_GPU();
  const Array x = on_gpu(noise({64}));
  cuda::GraphedStep step([](const std::vector<Array>& in) {
    return std::vector<Array>{(Tensor(in[0]) * 2.0).array()};
  });
  while (!step.captured()) step({x});
  const Timing timing;
  for (int i = 0; i < 3; ++i) step({x});
  CHECK(launches().at({"graphed step", ""}) == 3);
}

#ifdef HERO_TEST_CUSIM

namespace {

std::vector<std::string>& drawn() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

TEST_CASE("operations and modules are ranges, which close in order") {
  const Array x = on_gpu(noise({4}));
  drawn().clear();
  cuda::set_ranges(
      {[](const char* name) { drawn().push_back(name); }, [] { drawn().push_back("close"); }});
  {
    const std::string path = "h.3.mlp";
    const PlaceScope place(path);
    core::backend(kGpu).run(core::call::Fill{x, 1});
  }
  core::backend(kGpu).run(core::call::Fill{x, 2});
  cuda::set_ranges({});
  core::backend(kGpu).run(core::call::Fill{x, 3});
  CHECK(drawn() == std::vector<std::string>{"h.3.mlp", "fill", "close", "close", "fill", "close"});
}

TEST_CASE("a launch's time is that between its events") {
  const Timing timing;
  for (const double milliseconds : {1.5, 2.5}) {
    const cuda::Launching launching("slow");
    cusim::advance(milliseconds);
  }
  { const cuda::Launching launching("quick"); }
  const auto times = cuda::operation_times();
  REQUIRE(times.size() == 2);
  CHECK(times[0].op == "slow");
  CHECK(times[0].launches == 2);
  CHECK(times[0].milliseconds == 4.0);
  CHECK(times[1].op == "quick");
  CHECK(times[1].milliseconds == 0.0);
  CHECK(cuda::operation_times_text().find("slow                                                 2  "
                                          "     4.0000  100.0%") != std::string::npos);
}

TEST_CASE("the driver is asked once for a kernel's large shared memory") {
  // attention of float64 takes more than 48 KB
  const Tensor q(noise({1, 1, 8, 64}, kFloat64).to(kGpu));
  std::thread([&] { scaled_dot_product_attention(q, q, q); }).join();
  const int64_t before = cusim::attributes_set();
  std::thread([&] {
    scaled_dot_product_attention(q, q, q);
    const int64_t once = cusim::attributes_set();
    CHECK(once > before);
    for (int i = 0; i < 3; ++i) scaled_dot_product_attention(q, q, q);
    CHECK(cusim::attributes_set() == once);
  }).join();
}

TEST_CASE("the first index of a device may be checked within a capture") {
  const Device other{DeviceType::cuda, 2};
  const cuda::DeviceGuard guard(other.index);
  const Array index = Array::from(std::vector<int64_t>{1, 0, 4}, {3}).to(other);
  cuda::synchronize(other);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(cuda::current_stream(), cudaStreamCaptureModeGlobal) ==
          cudaSuccess);
  Array checked;
  CHECK_NOTHROW(checked = core::backend(other).run(core::call::CheckedIndex{"gather", index, 5}));
  CHECK(cudaStreamEndCapture(cuda::current_stream(), &graph) == cudaSuccess);
  cudaGraphDestroy(graph);
}

#endif
