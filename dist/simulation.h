#pragma once
// Simulations: the ranks of a program run on shapes only, one after the other, and what they would
// do is recorded: how long they compute, which calls they make and wait for, and which memory they
// need. Replayed on the description of a cluster, the recording says how long a step takes there.
//
//   const auto program = [](dist::Communicator& world) {
//     const nn::DeviceScope meta(kMeta);
//     nn::GPT model(config);
//     dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
//     optim::AdamW adamw(model.parameters());
//     for (int step = 0; step < 2; ++step) {
//       dist::begin_simulated_step();  // the last one counts
//       model.loss(tokens, tokens).backward();
//       adamw.step();
//       adamw.zero_grad();
//     }
//   };
//   const dist::Simulation step = dist::simulate(1024, program, cluster);
//   std::cout << step.table();
#include <vector>

#include <hero/dist/launch.h>
#include <hero/dist/simulation/cluster.h>
#include <hero/dist/simulation/replay.h>
#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// Options of simulate().
struct SimulationOptions {
  /// Which ranks run; empty: all. The others are assumed to do what a rank does that shares a group
  /// with them. For a pipeline along the first axis of a mesh, one rank of each stage suffices; for
  /// everything else, rank 0 does.
  std::vector<int> ranks = {};
  /// True: keep what each rank did when, for write_trace().
  bool spans = false;
};

/// Records what simulate_ranks() runs, with kernels that take as long as they would on the devices
/// of the cluster. What simulate_ranks() says about programs is true here. Work that does not go
/// through a backend (solvers, and what a program computes itself) takes no time.
Recording record_ranks(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks = {});

/// Replays what record_ranks() recorded.
Simulation simulate(int size, const RankProgram& program, const Cluster& cluster,
                    const SimulationOptions& options = {});

/// \name For the program that is simulated; elsewhere they do nothing
/// \{
/// Drops what was recorded before, except for the peak of memory, so that the first steps, which
/// make optimizer states and learn an order, do not count. No call may be under way.
void begin_simulated_step();
/// From here to the next call of this function, the rank computes this part of a step, such as
/// "forward" or "optimizer".
void simulated_part(const std::string& name);
/// \}

}  // namespace hero::dist
