#pragma once
// Rehearsals: a program's ranks run on shapes alone, one after the other, and what they would do is
// written down: how long they compute, which calls they make and wait for, what memory they hold.
// Played on the description of a cluster it says how long a step takes there.
//
//   const auto program = [](dist::Communicator& world) {
//     const nn::DeviceScope meta(kMeta);
//     nn::GPT model(config);
//     dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
//     optim::AdamW adamw(model.parameters());
//     for (int step = 0; step < 2; ++step) {
//       dist::begin_rehearsed_step();  // the last one counts
//       model.loss(tokens, tokens).backward();
//       adamw.step();
//       adamw.zero_grad();
//     }
//   };
//   const dist::Rehearsal step = dist::rehearse(1024, program, cluster);
//   std::cout << step.table();
#include <vector>

#include <hero/dist/launch.h>
#include <hero/dist/rehearsal/cluster.h>
#include <hero/dist/rehearsal/replay.h>
#include <hero/dist/rehearsal/timeline.h>

namespace hero::dist {

struct RehearsalOptions {
  /// Which ranks run; empty: all. Others are taken to do what those do that share a group with
  /// them. Of a pipeline along the first axis of a mesh one rank of each stage will do, of all else
  /// rank 0.
  std::vector<int> ranks = {};
  /// Keeps what each rank did when, for write_trace().
  bool spans = false;
};

/// simulate_ranks(), written down, with kernels that take as long as they would on the cluster's
/// devices. What it says there of programs holds here. Work that does not go through a backend
/// (solvers, what a program computes itself) takes no time.
Recording record_ranks(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks = {});

/// replay() of record_ranks().
Rehearsal rehearse(int size, const RankProgram& program, const Cluster& cluster,
                   const RehearsalOptions& options = {});

/// \name For the program that is rehearsed; elsewhere they do nothing
/// \{
/// What was recorded before is dropped, but for the memory's peak: so the first steps, which make
/// optimizer states and learn an order, do not count. No call may be under way.
void begin_rehearsed_step();
/// From here on until the next one the rank computes this part of a step: "forward", "optimizer".
void rehearsed_part(const std::string& name);
/// \}

}  // namespace hero::dist
