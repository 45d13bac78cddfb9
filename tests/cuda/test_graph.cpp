// What a capture is over tests/cusim.
#include "cuda/gpu.h"

#if defined(HERO_TEST_CUSIM)
#include <cuda_runtime.h>

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
