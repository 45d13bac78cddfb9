#pragma once
// Profiles of several ranks as one.
#include <string>
#include <vector>

#include <hero/autograd/profiler.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// The profiles of all ranks on rank 0, in their order, each with its rank as number and label;
/// none on the others. A call of all ranks of the group, whose own traffic is not counted. Ranks
/// that are threads share a clock. Those that are processes meet in a barrier, and the instants at
/// which they leave it are taken for one: between hosts times are right within tens of
/// microseconds.
std::vector<Profile> gather_profiles(const Communicator& world, Profile mine);

/// Writes them on rank 0 into one file, as save_trace() does: a process a rank.
void save_profiles(const std::string& path, const Communicator& world, const Profile& mine);

}  // namespace hero::dist
