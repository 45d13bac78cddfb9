// Offload on simulated ranks: the memory by tag, the file and the bytes moved of real ranks.
#include <filesystem>

#include "dist/data_parallel/offloaded.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using core::SwapFile;

namespace {

void check_as_real(OffloadedRun run) {
  run.folder = std::filesystem::temp_directory_path().string();
  for (const ShardingStrategy strategy : kOffloadedStrategies) {
    if (strategy == ShardingStrategy::hybrid && run.climb.ranks % 2 != 0) continue;
    run.climb.strategy = strategy;
    CAPTURE(name(strategy), run.climb.ranks, run.on_disk, run.paged);
    CHECK(offloaded_difference(run, kCpu) == "");
  }
}

Climb two_steps(Subject subject, int ranks) {
  return {.subject = subject, .method = Method::adamw, .ranks = ranks, .steps = 2, .clip = 0.5};
}

Climb halves(Subject subject, int ranks) {
  Climb c = two_steps(subject, ranks);
  c.dtype = kBFloat16;
  c.masters = true;
  return c;
}

}  // namespace

TEST_CASE("simulated ranks on disk hold, read and write what real ones do", "[simulated]") {
  for (const int ranks : {1, 2, 3, 8}) {
    check_as_real({.climb = two_steps(Subject::mlp, ranks), .on_disk = true});
    check_as_real({.climb = two_steps(Subject::gpt_loss, ranks), .on_disk = true, .paged = true});
  }
  for (const int ranks : {2, 4}) {
    check_as_real({.climb = halves(Subject::gpt_untied, ranks), .on_disk = true});
    check_as_real({.climb = halves(Subject::gpt_untied, ranks), .on_disk = true, .paged = true});
    check_as_real({.climb = two_steps(Subject::mlp, ranks), .paged = true});
  }
}

TEST_CASE("simulated ranks move and hold the activations of real ones", "[simulated]") {
  for (const int ranks : {1, 2, 4}) {
    for (const Subject subject : {Subject::gpt_loss, Subject::gpt_untied}) {  // checkpoints, too
      check_as_real({.climb = two_steps(subject, ranks), .on_disk = true, .activations = true});
    }
    check_as_real({.climb = halves(Subject::gpt_loss, ranks),
                   .on_disk = true,
                   .paged = true,
                   .activations = true});
  }
}

TEST_CASE("simulated stages on disk hold, send, read and write what real ones do", "[simulated]") {
  for (const dist::Schedule& schedule :
       {dist::Schedule::one_f_one_b(), dist::Schedule::gpipe(), dist::Schedule::interleaved(2)}) {
    for (const bool activations : {false, true}) {
      OffloadedRun run{.climb = two_steps(Subject::gpt_untied, 4),
                       .on_disk = true,
                       .paged = activations,
                       .activations = activations,
                       .stages = 2,
                       .schedule = schedule};
      run.folder = std::filesystem::temp_directory_path().string();
      for (const ShardingStrategy strategy :
           {ShardingStrategy::zero1, ShardingStrategy::zero2, ShardingStrategy::zero3,
            ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept}) {
        if (strategy < ShardingStrategy::zero3 && schedule.chunks() > 1)
          continue;  // buckets of several chunks
        run.climb.strategy = strategy;
        CAPTURE(name(strategy), schedule.name(), activations);
        CHECK(offloaded_difference(run, kCpu) == "");
      }
    }
  }
}

TEST_CASE("on ranks that are planned for the cpu the host's memory is theirs", "[simulated]") {
  Climb c = two_steps(Subject::gpt_loss, 4);
  c.offload = {.optimizer = true};
  check_as_real({.climb = c});
}

TEST_CASE("a planned file has room as it says, and takes no bytes") {
  SwapFile file("/no/such/folder", {.bytes = 3 * SwapFile::kBlock, .planned = true});
  CHECK(file.bytes() == 3 * SwapFile::kBlock);
  CHECK(file.descriptor() == -1);
  const Array large = Array::empty({SwapFile::kBlock}, kFloat32, kMeta);
  CHECK_THROWS_WITH(
      core::Swapped(file, large.storage_ref()),
      ContainsSubstring("swap file in /no/such/folder: there is no room for 16.00 K"));
  const Array here = Array::zeros({4});
  CHECK_THROWS_WITH(core::Swapped(file, here.storage_ref()),
                    ContainsSubstring("swap file: a planned one has no room for bytes on cpu"));
  const Array small = Array::empty({5}, kFloat32, kMeta);
  core::Swapped swapped(file, small.storage_ref());
  CHECK(file.used() == SwapFile::kBlock);
  CHECK_THROWS_WITH(swapped.drop(), ContainsSubstring("holds nothing; write it first"));
  swapped.begin_write();
  swapped.wait();
  CHECK(small.storage().released());
  CHECK(file.written_bytes() == SwapFile::kBlock);
  swapped.begin_read();
  swapped.wait();
  CHECK_FALSE(small.storage().released());
  CHECK(file.read_bytes() == SwapFile::kBlock);
}
