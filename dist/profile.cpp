#include <chrono>
#include <cstring>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/profile.h>

namespace hero::dist {

namespace {

double seconds_now() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

void shift(Profile& profile, double seconds) {
  profile.begin += seconds;
  for (Profile::Event& event : profile.events) event.begin += seconds;
  for (Profile::Memory& sample : profile.memory) sample.time += seconds;
  for (Profile::Call& call : profile.calls) {
    call.begin += seconds;
    if (call.end >= 0.0) call.end += seconds;
  }
}

// Gathers every rank's bytes on rank 0, concatenated in the order of ranks, and their numbers.
std::pair<std::string, std::vector<int64_t>> gather_bytes(const Communicator& world,
                                                          const std::string& mine) {
  const auto size = static_cast<int64_t>(mine.size());
  const Array sizes = Array::empty({world.size()}, kInt64);
  world.all_gather(sizes, Array::full({1}, size, kInt64));
  const std::vector<int64_t> counts = sizes.to_vector<int64_t>();
  const Array own = Array::empty({size}, kUInt8);
  std::memcpy(own.bytes(), mine.data(), mine.size());
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const Array all = world.rank() == 0 ? Array::empty({total}, kUInt8) : Array();
  world.gather(all, own, 0, {.counts = counts});
  if (world.rank() != 0) return {};
  return {std::string(reinterpret_cast<const char*>(all.bytes()), static_cast<size_t>(total)),
          counts};
}

}  // namespace

std::vector<Profile> gather_profiles(const Communicator& world, Profile mine) {
  check(world.backend_kind() != BackendKind::simulated,
        "profile: simulated ranks take no time; record them with record_ranks()");
  const Traffic counted = world.traffic();
  mine.rank = world.rank();
  mine.label = "rank " + std::to_string(world.rank());
  double zero = 0.0;
  if (world.backend_kind() != BackendKind::local) {
    world.barrier();
    zero = seconds_now();
  }
  shift(mine, -zero);
  const auto [bytes, counts] = gather_bytes(world, mine.encode());
  world.traffic() = counted;
  std::vector<Profile> profiles;
  std::string_view left = bytes;
  for (const int64_t count : counts) {
    profiles.push_back(Profile::decode(left.substr(0, static_cast<size_t>(count))));
    left.remove_prefix(static_cast<size_t>(count));
  }
  return profiles;
}

void save_profiles(const std::string& path, const Communicator& world, const Profile& mine) {
  const std::vector<Profile> profiles = gather_profiles(world, mine);
  if (world.rank() == 0) save_trace(path, profiles);
}

}  // namespace hero::dist
