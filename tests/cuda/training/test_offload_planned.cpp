// Ranks that are only planned for a GPU: the memory by tag of real ones, on the device and on its
// host, what is moved and what is sent.
#include <filesystem>

#include "cuda/gpu.h"
#include "dist/data_parallel/offloaded.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

namespace {

void check_planned(OffloadedRun run) {
  run.folder = std::filesystem::temp_directory_path().string();
  for (const ShardingStrategy strategy : kOffloadedStrategies) {
    if (strategy == ShardingStrategy::hybrid && (run.climb.ranks % 2 != 0 || run.stages > 1))
      continue;
    if (strategy < ShardingStrategy::zero3 && run.schedule.chunks() > 1)
      continue;  // buckets of several chunks
    run.climb.strategy = strategy;
    CAPTURE(name(strategy), run.climb.ranks, run.stages, run.schedule.name(), run.on_disk,
            run.paged, run.activations);
    CHECK(offloaded_difference(run, kGpu) == "");
  }
}

Climb offloaded(Subject subject, int ranks, bool halves = false) {
  Climb c{.subject = subject, .method = Method::adamw, .ranks = ranks, .steps = 2, .clip = 0.5};
  c.offload = {.optimizer = true};
  if (halves) c.dtype = kBFloat16, c.masters = true;
  return c;
}

}  // namespace

TEST_CASE("planned GPUs hold and move what real ones do whose shards lie on the host") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 4}) {
    check_planned({.climb = offloaded(Subject::mlp, ranks)});
    check_planned({.climb = offloaded(Subject::gpt_loss, ranks)});
    check_planned({.climb = offloaded(Subject::gpt_untied, ranks, true)});
  }
}

TEST_CASE("planned GPUs hold and move what real ones do whose shards lie on disk") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2}) {
    check_planned({.climb = offloaded(Subject::gpt_loss, ranks), .on_disk = true});
    check_planned(
        {.climb = offloaded(Subject::gpt_untied, ranks, true), .on_disk = true, .paged = true});
  }
}

TEST_CASE("planned GPUs hold and move what real ones do that offload activations") {
  HERO_NEEDS_GPU();
  for (const bool on_disk : {false, true}) {
    for (const Subject subject : {Subject::gpt_loss, Subject::gpt_untied}) {
      check_planned({.climb = offloaded(subject, 2), .on_disk = on_disk, .activations = true});
    }
    check_planned(
        {.climb = offloaded(Subject::gpt_loss, 1, true), .on_disk = on_disk, .activations = true});
  }
}

TEST_CASE("planned stages hold, move and send what real ones on GPUs do that offload") {
  HERO_NEEDS_GPU();
  // Each of the choices beside the others in turn; attention takes a simulated GPU most of the
  // time.
  const auto stages = [](bool on_disk, bool activations, const dist::Schedule& schedule) {
    check_planned({.climb = offloaded(Subject::gpt_untied, 4),
                   .on_disk = on_disk,
                   .activations = activations,
                   .stages = 2,
                   .schedule = schedule,
                   .micro_rows = 2});
  };
  stages(false, false, dist::Schedule::one_f_one_b());
  stages(false, true, dist::Schedule::interleaved(2));
  stages(true, true, dist::Schedule::one_f_one_b());
}
