#include <algorithm>
#include <mutex>
#include <optional>

#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/random.h>
#include <hero/dist/backends/rank_frame.h>
#include <hero/dist/backends/simulated/backend.h>
#include <hero/dist/simulation.h>
#include <hero/dist/simulation/recorder.h>

namespace hero::dist {
namespace {

// simulate_ranks(); the events of the ranks are recorded in `recorder` if there is one.
void simulate(const char* what, int size, const RankProgram& program, const std::vector<int>& ranks,
              Recorder* recorder) {
  check(static_cast<bool>(program), what, ": there is no function for the ranks to run");
  check(size >= 1, what, ": not a positive number of ranks: ", size);
  std::vector<int> chosen;
  for (int rank = 0; rank < size && ranks.empty(); ++rank) chosen.push_back(rank);
  for (const int rank : ranks) {  // each once, in the order in which they are named
    check(rank >= 0 && rank < size, what, ": not a rank: ", rank, " of ", size);
    if (std::find(chosen.begin(), chosen.end(), rank) == chosen.end()) chosen.push_back(rank);
  }
  const int per_host = recorder ? recorder->cluster().per_host : 0;
  check(!recorder || per_host >= 1, what, ": ", per_host,
        " ranks per host; a cluster has at least one");
  const auto world = make_simulated_world(size, per_host);
  const Generator::State generator = default_generator().state();
  std::mutex output;
  for (const int rank : chosen) {
    // the first of them prints
    const RankFrame frame(rank == chosen.front() ? 0 : 1, false, generator, output);
    std::optional<core::PlannedDevice> planned;
    if (recorder) planned.emplace(recorder->cluster().device);
    std::optional<RankRecorder> recording;
    if (recorder) recording.emplace(*recorder, rank, frame.state()->traffic);
    const std::shared_ptr<Backend> backend = make_simulated_backend(world, rank);
    Communicator communicator(backend, frame.state(), "world");
    program(communicator);
    backend->drain();
    if (recording) recording->end();
  }
}

}  // namespace

void simulate_ranks(int size, const RankProgram& program, const std::vector<int>& ranks) {
  simulate("simulate_ranks", size, program, ranks, nullptr);
}

Recording record_ranks(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks) {
  Recorder recorder(size, cluster);
  simulate("simulate", size, program, ranks, &recorder);
  return recorder.finish();
}

Recording record_parts(int size, const RankProgram& program, const Cluster& cluster,
                       const std::vector<int>& ranks) {
  Recorder recorder(size, cluster, true);
  simulate("simulate", size, program, ranks, &recorder);
  return recorder.finish();
}

}  // namespace hero::dist
