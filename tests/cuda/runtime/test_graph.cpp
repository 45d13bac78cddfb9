// Steps captured as graphs do what they do without.
#include "cuda/deferred.h"
#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/device/backend.h>
#include <hero/core/random.h>
#include <hero/cuda/graph.h>

using namespace hero;
using namespace hero_test;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<float> host(const Array& array) { return array.to(kCpu).to_vector<float>(); }

Array on_gpu(const std::vector<float>& values) {
  return Array::from(values, {static_cast<int64_t>(values.size())}).to(kGpu);
}

// state = state copied beside the input: what a step changes in place and what it returns.
struct Shift {
  Array state = Array::zeros({4}, kFloat32, kGpu);
  int runs = 0;

  std::vector<Array> operator()(const std::vector<Array>& in) {
    ++runs;
    const Array before = state.clone();  // memory of the step's own
    core::backend(kGpu).run(core::call::Copy{in[0], state});
    return {before};
  }
};

}  // namespace

TEST_CASE("a graphed step gives what the step gives, call by call, and its host code rests") {
  HERO_NEEDS_GPU();
  Shift eager, graphed;
  GraphedStep step([&](const std::vector<Array>& in) { return graphed(in); });
  for (int i = 0; i < 6; ++i) {
    const float x = static_cast<float>(i);
    const Array input = on_gpu({x, x + 0.25f, -x, 3});
    const auto expected = eager({input});
    const auto got = step({input});
    CHECK(host(got[0]) == host(expected[0]));
    CHECK(host(graphed.state) == host(eager.state));
    CHECK(step.captured() == (i >= 2));
  }
  CHECK(graphed.runs == 3);
  CHECK(step.nodes() >= 2);
}

TEST_CASE("with recapture the host code runs in every call and its numbers are those of the call") {
  HERO_NEEDS_GPU();
  const Array state = Array::zeros({3}, kFloat32, kGpu);
  int runs = 0;
  const auto fill = [&](const std::vector<Array>&) {
    core::backend(kGpu).run(core::call::Fill{state, ++runs});
    return std::vector<Array>{state.clone()};
  };
  GraphedStep step(fill, {.recapture = true});
  std::vector<Array> all;
  for (int i = 1; i <= 5; ++i) all.push_back(step({})[0]);
  CHECK(runs == 5);
  for (int i = 1; i <= 5; ++i) {
    CHECK(host(all[static_cast<size_t>(i - 1)]) == std::vector<float>(3, static_cast<float>(i)));
  }
  SECTION("a step of another form gets another graph") {
    GraphedStep grows(
        [&](const std::vector<Array>&) {
          ++runs;
          for (int k = 0; k < runs; ++k)
            core::backend(kGpu).run(core::call::Fill{state, 10 * runs + k});
          return std::vector<Array>{};
        },
        {.warmup = 1, .recapture = true});
    for (int i = 0; i < 4; ++i) {
      grows({});
      CHECK(host(state)[0] == static_cast<float>(11 * runs - 1));
    }
  }
}

TEST_CASE("a number of the host that changes is an error of a step that would repeat it") {
  HERO_NEEDS_GPU();
  const Array state = Array::zeros({3}, kFloat32, kGpu);
  int runs = 0;
  GraphedStep step([&](const std::vector<Array>&) {
    core::backend(kGpu).run(core::call::Fill{state, ++runs});
    return std::vector<Array>{};
  });
  step({});
  step({});
  CHECK_THROWS_WITH(step({}), ContainsSubstring("fill takes a number from the host that changes "
                                                "from call to call (2, then 3)") &&
                                  ContainsSubstring("use recapture"));
  CHECK_FALSE(step.captured());
  CHECK(host(state)[0] == 2);
}

TEST_CASE("what cannot be captured is an error that names it, and the stream stays usable") {
  HERO_NEEDS_GPU();
  const Array state = Array::zeros({3}, kFloat32, kGpu);
  bool faulty = false;
  int which = 0;
  GraphedStep step([&](const std::vector<Array>& in) {
    core::backend(kGpu).run(core::call::Copy{in[0], state});
    if (faulty && which == 0) host(state);
    if (faulty && which == 1) core::backend(kGpu).run(core::call::Copy{Array::ones({3}), state});
    if (faulty && which == 2) synchronize();
    if (faulty && which == 3) fail("a step that throws");
    return std::vector<Array>{};
  });
  const Array input = on_gpu({1, 2, 3});
  step({input});
  step({input});
  faulty = true;
  const int64_t allocated = memory_stats().allocated;
  const char* expected[] = {"copy: ", "copy: ", "synchronize: the host waits",
                            "a step that throws"};
  for (which = 0; which < 4; ++which) {
    CHECK_THROWS_WITH(step({input}),
                      ContainsSubstring(expected[which]) &&
                          ContainsSubstring(which == 3 ? "" : "captured step cannot"));
    CHECK(memory_stats().allocated == allocated);
    CHECK_FALSE(step.captured());
    CHECK(host(Array::full({2}, 5, kFloat32, kGpu)) == std::vector<float>{5, 5});
  }
  faulty = false;
  step({on_gpu({4, 5, 6})});
  CHECK(step.captured());
  CHECK(host(state) == std::vector<float>{4, 5, 6});
}

TEST_CASE("memory of a graph serves nobody else, and goes back with the step") {
  HERO_NEEDS_GPU();
  synchronize();
  empty_cache();
  const MemoryStats before = memory_stats();
  Array outlives;
  {
    GraphedStep step([](const std::vector<Array>& in) {
      const Array temporary = in[0].clone();  // freed within the step
      return std::vector<Array>{temporary.clone()};
    });
    const Array input = on_gpu(std::vector<float>(1000, 2));
    for (int i = 0; i < 3; ++i) outlives = step({input})[0];
    // blocks of all sizes around: none may lie in what the graph writes
    std::vector<Array> others;
    for (int i = 0; i < 50; ++i) others.push_back(Array::full({1000}, i, kFloat32, kGpu));
    const auto out = step({input})[0];
    CHECK(host(out) == std::vector<float>(1000, 2));
    for (int i = 0; i < 50; ++i) {
      CHECK(host(others[static_cast<size_t>(i)])[999] == static_cast<float>(i));
    }
  }
  CHECK(host(outlives) == std::vector<float>(1000, 2));
  outlives = Array();
  synchronize();
  empty_cache();
  CHECK(memory_stats().allocated == before.allocated);
  CHECK(memory_stats().reserved <= before.reserved);
}

TEST_CASE("inputs keep their number, shapes and dtypes") {
  HERO_NEEDS_GPU();
  CHECK_THROWS_WITH(GraphedStep({}, {.warmup = 0}), ContainsSubstring("use at least 1"));
  GraphedStep step([](const std::vector<Array>&) { return std::vector<Array>{}; });
  step({Array::zeros({3})});  // inputs may lie on the host
  CHECK_THROWS_WITH(step({Array::zeros({4})}),
                    ContainsSubstring("input 0 is float32 [4] where the first call had float32 "
                                      "[3]"));
  CHECK_THROWS_WITH(step({}), ContainsSubstring("0 inputs where the first call had 1"));
}

TEST_CASE("values come out of a graph through pinned memory") {
  HERO_NEEDS_GPU();
  const Array seen = pinned({3});
  GraphedStep step([&](const std::vector<Array>& in) {
    copy_async(in[0], seen);
    return std::vector<Array>{};
  });
  for (int i = 0; i < 4; ++i) {
    const float x = static_cast<float>(i);
    step({on_gpu({x, x, x})});
    synchronize();
    CHECK(seen.to_vector<float>() == std::vector<float>(3, x));
  }
}

namespace {

// Steps that copy from pinned memory of their own.
void check_pinned_steps(int64_t size) {
  for (const bool recapture : {false, true}) {
    const Array state = Array::zeros({size}, kFloat32, kGpu);
    GraphedStep step(
        [&](const std::vector<Array>&) {
          copy_async(pin_memory(Array::full({size}, 8)), state);
          return std::vector<Array>{};
        },
        {.recapture = recapture});
    for (int i = 0; i < 5; ++i) {
      core::backend(kGpu).run(core::call::Fill{state, 0});
      step({});
      // whoever gets the block now must not be read instead
      const Array other = pinned({size});
      core::cpu_backend().run(core::call::Fill{other, -1});
      CHECK(host(state) == std::vector<float>(static_cast<size_t>(size), 8));
    }
  }
}

}  // namespace

TEST_CASE("pinned memory that a step makes and frees stays what its graph copies from") {
  HERO_NEEDS_GPU();
  check_pinned_steps(3);
}

TEST_CASE("random numbers of a replayed step are those of a step that was not captured") {
  HERO_NEEDS_GPU();
  // the second draw is of a stream of its own, which every call repeats
  const auto draw = [](Device device) {
    Array normal = Array::empty({37}, kFloat32, device), fixed = normal.empty_like();
    const auto stream = default_generator().next();
    core::backend(device).run(core::call::Random{
        {.kind = core::RandomFill::Kind::normal, .seed = stream.key, .stream = stream.id},
        0,
        normal});
    core::backend(device).run(core::call::Random{{.seed = 5, .stream = 1}, 0, fixed});
    const auto kept = default_generator().next();
    const Array masked = Array::empty({50}, kFloat32, device);
    core::backend(device).run(core::call::RandomMask{
        {.kind = core::RandomFill::Kind::bernoulli, .seed = kept.key, .stream = kept.id, .a = 0.5},
        0,
        2,
        Array::ones({50}, kFloat32, device),
        masked});
    return std::vector<Array>{normal, fixed, masked};
  };
  for (const bool recapture : {false, true}) {
    manual_seed(3);
    GraphedStep step([&](const std::vector<Array>&) { return draw(kGpu); },
                     {.recapture = recapture});
    std::vector<std::vector<float>> got;
    for (int i = 0; i < 5; ++i) {
      if (i == 4) manual_seed(11);
      for (const Array& array : step({})) got.push_back(host(array));
    }
    CHECK(default_generator().state() == Generator::State{11, 2});
    manual_seed(3);
    for (int i = 0; i < 5; ++i) {
      if (i == 4) manual_seed(11);
      const auto expected = draw(kCpu);
      for (size_t k = 0; k < 3; ++k) {
        CHECK(got[static_cast<size_t>(i) * 3 + k] == expected[k].to_vector<float>());
      }
    }
  }
  manual_seed(0);
}

TEST_CASE("a stream of another generator that moves on is an error of a replayed step") {
  HERO_NEEDS_GPU();
  Generator own(9);
  const Array x = Array::empty({3}, kFloat32, kGpu);
  GraphedStep step([&](const std::vector<Array>&) {
    const auto stream = own.next();
    core::backend(kGpu).run(core::call::Random{{.seed = stream.key, .stream = stream.id}, 0, x});
    return std::vector<Array>{};
  });
  step({});
  step({});
  CHECK_THROWS_WITH(step({}), ContainsSubstring("random takes a number from the host") &&
                                  ContainsSubstring("use recapture"));
}

#if defined(HERO_TEST_CUSIM)

TEST_CASE("a capture asks the driver for pinned memory where copies still use what is kept") {
  const Deferred deferred;
  check_pinned_steps(1 << 20);
}

TEST_CASE("steps come in the order of the caller's stream though nothing waits for them") {
  const Deferred deferred;
  {
    Shift shift;
    GraphedStep step([&](const std::vector<Array>& in) { return shift(in); });
    std::vector<Array> seen;
    for (int i = 0; i < 5; ++i) {
      const Array input = Array::full({4}, i, kFloat32, kGpu);  // freed before the step is done
      seen.push_back(step({input})[0].clone());
    }
    for (int i = 1; i < 5; ++i) {
      CHECK(host(seen[static_cast<size_t>(i)])[3] == static_cast<float>(i - 1));
    }
    CHECK(host(shift.state)[0] == 4);
  }
}

TEST_CASE("cusim refuses what a real capture refuses") {
  cudaStream_t a = nullptr, b = nullptr;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaGraph_t graph = nullptr;
  int done = 0;
  cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
  SECTION("waiting for the stream") {
    CHECK(cudaStreamSynchronize(a) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("memory of the driver, but in the relaxed mode") {
    void* block = nullptr;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    CHECK(cudaMalloc(&block, 8) == cudaSuccess);
    CHECK(cudaFree(block) == cudaSuccess);
    cudaThreadExchangeStreamCaptureMode(&mode);
    CHECK(cudaMalloc(&block, 8) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("a stream that joined and was not waited for") {
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    cusim::enqueue("work", b, [&] { ++done; });
    CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  SECTION("but takes one that was") {
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    cusim::enqueue("work", b, [&] { ++done; });
    cudaEventRecord(event, b);
    cudaStreamWaitEvent(a, event, 0);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaSuccess);
    CHECK(done == 0);
    cudaGraphExec_t exec = nullptr;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, b);
    cudaGraphLaunch(exec, b);
    cudaStreamSynchronize(b);
    CHECK(done == 2);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();
  cudaEventDestroy(event);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

#endif
