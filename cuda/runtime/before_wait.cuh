#pragma once
// Functions that are called before the host waits for a device, and after it has.

namespace hero::cuda {

/// Called when the calling thread is about to wait for work of streams of a device (-1: of any
/// device). It may wait itself, and throws an Error if the wait would never end.
using BeforeWait = void (*)(int device);
void set_before_wait(BeforeWait tell);
/// Every function in which the host waits for a stream or an event calls this first.
void before_wait(int device);

/// Told that the wait is over; throws where the device was let go of its work without having done
/// it, so that what it holds is no result.
using AfterWait = void (*)(int device);
void set_after_wait(AfterWait tell);
/// Whoever has waited calls this, also where it has only seen that the work is done.
void after_wait(int device);

}  // namespace hero::cuda
