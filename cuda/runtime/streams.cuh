#pragma once
// The calling thread's streams.
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

/// The thread's current stream of a device; null if the thread never had work for that device.
cudaStream_t known_stream(int index);
/// The device of a stream; for one that this library did not make, the current one.
int stream_device(cudaStream_t stream);
/// How many streams of a device this library has made that something uses now.
int streams_in_use(int index);

}  // namespace hero::cuda
