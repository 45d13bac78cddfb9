#pragma once
// Simulations: the ranks of a program run one after the other on meta arrays, and are recorded: how
// long they would compute, which calls they make and wait for, and how much memory they need.
// Replaying the recording on the description of a cluster tells how long a step takes there.
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
  /// Which ranks run; empty: all. The others are assumed to behave like a rank that shares a group
  /// with them. For a pipeline along the first axis of a mesh, one rank of each stage is enough;
  /// for everything else, rank 0 is.
  std::vector<int> ranks = {};
  /// True: keep the spans of each rank, for write_trace().
  bool spans = false;
};

/// Runs a program as simulate_ranks() does, with the same limits, and records it; kernels take as
/// long as they would on the devices of the cluster. Work without a kernel of a backend (solvers,
/// and the program's own code) takes no time.
Recording record_ranks(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks = {});

/// Records a program by record_ranks() and replays the recording.
Simulation simulate(int size, const RankProgram& program, const Cluster& cluster,
                    const SimulationOptions& options = {});

/// \name For the program that is simulated; elsewhere they do nothing
/// \{
/// Drops what was recorded before, except for the peak of memory, so that the first steps, which
/// allocate optimizer states and record the order of units, do not count. No call may be under way.
void begin_simulated_step();
/// Names the part of the step, such as "forward" or "optimizer", that the rank computes until the
/// next call of this function.
void simulated_part(const std::string& name);
/// \}

}  // namespace hero::dist
