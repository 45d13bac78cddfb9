#pragma once
// The calling thread's streams.
#include <memory>
#include <string>

#include <hero/core/exchange.h>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

/// The thread's current stream of a device; null if the thread never had work for that device.
cudaStream_t known_stream(int index);
/// The thread, which never had work for that device, joins the event when it first has.
void join_with_first_stream(int index, std::shared_ptr<core::DeviceEvent> event);
/// The device of a stream; for one that this library did not make, the current one.
int stream_device(cudaStream_t stream);
/// How many streams of a device this library has made that something uses now.
int streams_in_use(int index);
/// The queues that a GPU has for the streams of this process: CUDA_DEVICE_MAX_CONNECTIONS, at
/// most 32, or 8.
int hardware_queues();
/// What to do where they are too few, for errors.
std::string queue_remedy();
/// A rank of this process has its work on that device (1), or no longer (-1). While several have,
/// an Error of Stream where more streams would be in use than the device has queues
/// ([note: streams of ranks that share a GPU] in streams.cpp).
void count_rank(int index, int by);

}  // namespace hero::cuda
