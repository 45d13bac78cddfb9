#pragma once
// Ranks with a GPU each, joined by NCCL, or by tests/cusim/nccl.cpp.
#include <chrono>
#include <functional>
#include <thread>

#include "cuda/deferred.h"
#include "cuda/gpu.h"
#include "dist/backends/collective_checks.h"
#ifdef HERO_TEST_CUSIM
#include <nccl.h>
#endif

namespace hero_test {

#ifdef HERO_TEST_CUSIM
/// Over tests/cusim streams work late, as real ones do.
using NcclDevices = Deferred;
#else
struct [[maybe_unused]] NcclDevices {};
#endif

inline const hero::dist::RunOptions kNccl = {.backend = hero::dist::BackendKind::nccl,
                                             .timeout_join = 600.0};

/// Numbers of ranks from 1 to 4 for which there are GPUs.
inline std::vector<int> nccl_worlds() {
  std::vector<int> worlds;
  for (int ranks = 1; ranks <= 4 && ranks <= hero::cuda::device_count(); ++ranks) {
    worlds.push_back(ranks);
  }
  return worlds;
}

/// What each rank's program threw on the nccl backend.
inline std::vector<std::string> nccl_errors(int ranks, const hero::dist::RankProgram& program) {
  return hero::test::errors_of(ranks, program, kNccl);
}

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
  if (hero::cuda::device_count() < (count)) {                          \
    std::cout << "skipped: needs " << (count) << " GPUs" << std::endl; \
    SUCCEED("skipped: too few GPUs");                                  \
    return;                                                            \
  }                                                                    \
  static_assert(true)
