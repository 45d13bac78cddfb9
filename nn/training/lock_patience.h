#pragma once
// How long the lock of a folder is waited for if another host has it; internal to what starts
// programs again after a host was lost.

namespace hero::nn {

/// Seconds after which a network file system has let go of the locks of a host that was lost: the
/// lease of NFSv4 is 90 s.
inline constexpr double kLostHostSeconds = 120;

/// From now on FolderLock::take() waits for at least this many seconds if the process that has the
/// lock is on another host. Before the first call it waits no longer for such a process than for
/// any other.
void wait_for_other_hosts(double seconds);
/// The seconds that were set; 0 before the first call.
double patience_for_other_hosts();

}  // namespace hero::nn
