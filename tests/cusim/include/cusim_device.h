#pragma once
// What a test tells the simulated device to do as some real ones do.

namespace cusim {

/// Streams of a device take turns in so many hardware queues from now on, in the order in which
/// they were made; 0: each has one of its own. What a queue was asked for begins in that order,
/// whatever the stream: behind an event that is waited for, or work of the same stream that is not
/// done, all streams of the queue wait. At first there are as many as CUDA_DEVICE_MAX_CONNECTIONS
/// says, or 0. Returns how many there were.
int set_hardware_queues(int count);

/// From now on memory, page-locked memory of the host and NCCL's own, too, is allocated, and a
/// stream made, when the current device has done all that it was asked for.
void allocate_late(bool late);

}  // namespace cusim
