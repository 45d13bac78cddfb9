#pragma once
// A function that is called before the host waits for a device.

namespace hero::cuda {

/// Called when the calling thread is about to wait for work of streams of a device (-1: of any
/// device). It may wait itself, and throws an Error if the wait would never end.
using BeforeWait = void (*)(int device);
void set_before_wait(BeforeWait tell);
/// Every function in which the host waits for a stream or an event calls this first.
void before_wait(int device);

}  // namespace hero::cuda
