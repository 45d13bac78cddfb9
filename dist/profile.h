#pragma once
// Profiles of several ranks together.
#include <string>
#include <vector>

#include <hero/autograd/profile/profiler.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// Gathers the profiles of all ranks on rank 0, in the order of ranks, each with its rank as number
/// and label; other ranks get none. A collective, whose own traffic is not counted. Ranks that are
/// threads share a clock. Ranks that are processes make a barrier, and the moments at which they
/// leave it are taken as the same time: between hosts, times are accurate within tens of
/// microseconds.
std::vector<Profile> gather_profiles(const Communicator& world, Profile mine);

/// Writes the profiles of all ranks on rank 0 into one file, as save_trace() does, with each rank
/// as a process. A collective.
void save_profiles(const std::string& path, const Communicator& world, const Profile& mine);

}  // namespace hero::dist
