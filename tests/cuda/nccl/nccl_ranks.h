#pragma once
// Ranks with a GPU each, joined by NCCL, or by tests/cusim/nccl.cpp.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/deferred.h"
#include "cuda/gpu.h"
#include "dist/backends/collective_checks.h"
#ifdef HERO_TEST_CUSIM
#include <cusim_device.h>
#endif
#if __has_include(<nccl.h>)
#include <hero/dist/backends/nccl/library.h>
#endif

namespace hero_test {

#ifdef HERO_TEST_CUSIM
/// Over tests/cusim streams work late, as real ones do.
using NcclDevices = Deferred;
#else
struct [[maybe_unused]] NcclDevices {};
#endif

/// While it lives, a variable of the environment has this value.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value, 1);
  }
  ~EnvironmentVariable() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    if (!before_) ::unsetenv(name_);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline const hero::dist::RunOptions kNccl = {.backend = hero::dist::BackendKind::nccl,
                                             .timeout_join = 600.0};

/// Whether ranks share GPUs: where the environment says so, and to an NCCL that lets them.
inline bool share_gpus() {
#if __has_include(<nccl.h>)
  const char* const said = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return said != nullptr && std::string(said) == "1" &&
         hero::dist::nccl::library().version >= 23000;
#else
  return false;
#endif
}

/// How many ranks there may be.
inline int most_ranks() {
  constexpr int kSharing = 8;
  return share_gpus() ? kSharing : hero::cuda::device_count();
}

/// Numbers of ranks from 1 to 4 for which there are GPUs.
inline std::vector<int> nccl_worlds() {
  std::vector<int> worlds;
  for (int ranks = 1; ranks <= 4 && ranks <= most_ranks(); ++ranks) worlds.push_back(ranks);
  return worlds;
}

/// What each rank's program threw on the nccl backend.
inline std::vector<std::string> nccl_errors(int ranks, const hero::dist::RankProgram& program) {
  return hero::test::errors_of(ranks, program, kNccl);
}

inline hero::dist::RunOptions seconds_of_step(double seconds) {
  hero::dist::RunOptions options = kNccl;
  options.timeout = seconds;
  return options;
}

#ifdef HERO_TEST_CUSIM
/// While it lives a host waits for what does not come, as over a real GPU. Then nothing is held
/// back any more, and memory comes at once.
class Patience {
 public:
  Patience() { cusim::wait_patiently(true); }
  ~Patience() {
    cusim::allocate_late(false);
    for (const char* kind :
         {"all_reduce", "all_gather", "reduce_scatter", "send", "recv", "CommSplit"}) {
      for (const int rank : {-1, 0, 1}) cusim::hold_nccl(kind, false, rank);
    }
    cusim::wait_patiently(false);
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  const NcclDevices devices_;
};

/// Whether that is among what NCCL has done since the last such question.
inline bool is_logged(const std::string& line) {
  const std::vector<std::string> log = cusim::take_nccl_log();
  return std::find(log.begin(), log.end(), line) != log.end();
}
#endif

/// Until something has come, or half a minute is over.
inline bool comes(const std::function<bool()>& something) {
  for (int i = 0; i < 30'000; ++i) {
    if (something()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace hero_test

/// Ends a test case where there is no backend: without NCCL's header, or without a GPU.
#define HERO_NEEDS_NCCL()                                       \
  HERO_NEEDS_GPU();                                             \
  try {                                                         \
    hero::dist::require_backend(hero::dist::BackendKind::nccl); \
  } catch (const hero::Error& error) {                          \
    std::cout << "skipped: " << error.what() << std::endl;      \
    SUCCEED("skipped: no NCCL");                                \
    return;                                                     \
  }                                                             \
  [[maybe_unused]] const hero_test::NcclDevices devices

/// Ends a test case that has too few GPUs.
#define HERO_NEEDS_GPUS(count)                                         \
  HERO_NEEDS_NCCL();                                                   \
  if (hero_test::most_ranks() < (count)) {                             \
    std::cout << "skipped: needs " << (count) << " GPUs" << std::endl; \
    SUCCEED("skipped: too few GPUs");                                  \
    return;                                                            \
  }                                                                    \
  static_assert(true)
