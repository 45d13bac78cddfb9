#pragma once
// Who is asked before the host waits for a device.

namespace hero::cuda {

/// Told that the calling thread is about to wait for what streams of a device (-1: of any) were
/// asked for; may wait itself, and throws where that wait would be in vain.
using BeforeWait = void (*)(int device);
void set_before_wait(BeforeWait tell);
/// Whoever lets the host wait for a stream or an event calls this first.
void before_wait(int device);

}  // namespace hero::cuda
