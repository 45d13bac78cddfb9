// Grades answers to exercise 12.
#include <atomic>
#include <chrono>
#include <thread>

#include "exercises/12_ddp/exercise.h"
#include "exercises/support/ranks.h"
#include "exercises/support/under_way.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Network, exercise::require, exercise::Run, exercise::Wrong;
using hero::Tensor;
using hero::dist::Communicator;

namespace {

constexpr int64_t kBucketBytes = 16 << 10;
enum Note : size_t { kCalls, kEarly, kHeld, kMostHeld };

// Training under the answer. Every rank begins with other values.
std::vector<Run> train(int ranks) {
  return exercise::run_ranks(ranks, [](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1 + static_cast<uint64_t>(world.rank()));
    const auto parallel = exercise::data_parallel(net, world, kBucketBytes);
    require(parallel != nullptr, "data_parallel() returns no object.");
    run.values.push_back(values_of(net));
    hero::optim::SGD sgd(net.parameters(), exercise::kSGD);
    int64_t early = 0;
    net.first.register_full_backward_pre_hook([&](auto&...) { early = world.traffic().calls(); });
    for (int step = 0; step < exercise::kSteps; ++step) {
      world.traffic().reset();
      sgd.zero_grad();
      hero::current_ledger().reset_peak();
      const exercise::UnderWay under_way;
      try {
        loss_of(net, step, world.rank()).backward();
        parallel->finish();
      } catch (const hero::Error& error) {
        require(step == 0 || std::string(error.what()).find("pack: ") == std::string::npos,
                "Step 1 goes well, and then a bucket is packed too soon or never, because it still "
                "counts the gradients of the step before (",
                error.what(), "). The last lines of finish() empty it: bucket.ready = 0.");
        throw;
      }
      const int64_t calls = world.traffic().calls(), left = under_way.count();
      require(
          left == 0 || left == calls, "finish() returns, and ", left, " of ", calls,
          " calls have not been waited for, so what it unpacks may be a mean that is half done. A "
          "Work waits for its own call and for no other: every bucket keeps one, bucket.work.");
      const int64_t most_held = exercise::most_held_bytes();
      sgd.step();
      const int64_t held = exercise::held_bytes();
      run.values.push_back(values_of(net));
      run.sent = world.traffic().bytes();
      run.notes = {calls, early, held, most_held};
    }
  });
}

std::string bits(int ranks) {
  try {
    exercise::compare(train(ranks), exercise::train_alone(ranks));
  } catch (const Wrong& wrong) {
    const std::string text = wrong.what();
    require(text.find("is stale") == std::string::npos, text,
            " A bucket that keeps its count and what it has packed unpacks the same again: "
            "finish() empties it, bucket.packed = {} and bucket.ready = 0.");
    throw;
  }
  return "after 3 steps all parameters are bitwise those of one process.";
}

// Bytes of the buckets of the answer's constructor.
std::vector<int64_t> buckets() {
  std::vector<int64_t> bytes;
  const std::vector<Tensor> parameters = exercise::make_network(1).parameters();
  for (size_t i = parameters.size(); i > 0; --i) {
    if (bytes.empty() || bytes.back() >= kBucketBytes) bytes.push_back(0);
    bytes.back() += parameters[i - 1].array().nbytes();
  }
  return bytes;
}

std::string traffic() {
  constexpr int kRanks = 4;
  const std::vector<Run> runs = train(kRanks);
  const std::vector<int64_t> sizes = buckets();
  const auto wanted = static_cast<int64_t>(sizes.size());
  int64_t psi = 0;
  for (const int64_t size : sizes) psi += size;
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    int64_t formula = 0;
    for (const int64_t size :
         sizes) {  // a reduce_scatter and an all_gather, in parts of whole numbers
      const auto cut = hero::dist::ChunkCounts::balanced(size / 4, kRanks);
      const int64_t own = 4 * cut.count(static_cast<int>(rank));
      formula += size - own + (kRanks - 1) * own;
    }
    const int64_t calls = runs[rank].notes[kCalls];
    require(calls == wanted, "Rank ", rank, " makes ", calls, " calls in a step, and ", wanted,
            " buckets of 16 KiB or more need one each.",
            calls > wanted ? " A message has a fixed cost, however short it is: send whole buckets."
                           : "");
    require(runs[rank].sent == formula, "Rank ", rank, " sends ", grouped(runs[rank].sent),
            " bytes in a step, and by the formula ", grouped(formula), ".");
  }
  return "4 ranks make " + std::to_string(wanted) + " calls in a step; rank 0 sends " +
         grouped(runs[0].sent) + " bytes, by the formula 2 Psi (N - 1) / N " +
         grouped(2 * psi * (kRanks - 1) / kRanks) + ".";
}

std::string memory() {
  const std::vector<Run> runs = train(4);
  const int64_t psi = 4 * exercise::make_network(1).parameter_count();
  const int64_t alone = exercise::most_without_gradients(exercise::Gone::with_parameter);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const int64_t held = runs[rank].notes[kHeld];
    require(held <= 3 * psi, "Rank ", rank, " of 4 holds ", grouped(held),
            " bytes after a step. Parameters, gradients and momentum have ", grouped(3 * psi), ".",
            held >= 4 * psi
                ? " As much as all gradients lies beside them: packed gradients that have been "
                  "unpacked are needed no more, bucket.packed = {}."
                : " Something that has travelled is kept: bucket.packed = {} gives it back.");
    const int64_t most = runs[rank].notes[kMostHeld], enough = alone + 3 * psi;
    require(most <= enough, "Rank ", rank, " of 4 holds up to ", grouped(most),
            " bytes in backward and finish(). One process that keeps no gradient holds ",
            grouped(alone), "; with all gradients, the packed ones and the momentum that are ",
            grouped(enough), ". Something is copied that need not be: gradients are packed once.");
  }
  return "after a step rank 0 of 4 holds " + grouped(runs[0].notes[kHeld]) +
         " bytes, by the formula 3 Psi " + grouped(3 * psi) + ": nothing that has travelled stays.";
}

// Whether rank 0 comes back from backward while rank 1 has not begun its own.
bool comes_back() {
  std::atomic<bool> back = false;
  const std::vector<Run> runs = exercise::run_ranks(2, [&](const Communicator& world, Run& run) {
    Network net = exercise::make_network(1);
    const auto parallel = exercise::data_parallel(net, world, kBucketBytes);
    const Tensor loss = loss_of(net, 0, world.rank());
    for (int i = 0; world.rank() == 1 && !back && i < 2000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    run.notes = {back ? 1 : 0};
    loss.backward();
    if (world.rank() == 0) back = true;
    parallel->finish();
  });
  return runs[1].notes[0] == 1;
}

std::string overlap() {
  const Run run = train(2)[0];
  const int64_t calls = run.notes[kCalls], early = run.notes[kEarly];
  require(early >= calls - 2, early, " of ", calls,
          " calls begin before backward has reached the first layer. A bucket should leave as soon "
          "as its last "
          "gradient is complete: begin its all_reduce in the hook.");
  require(
      comes_back(),
      "Rank 0 does not come back from backward() before rank 1 begins its own: a hook waits for "
      "the mean, and this rank computes nothing until it has come. Begin the all_reduce with "
      ".async = true, keep the Work that it returns in bucket.work, and wait for it in finish().");
  return std::to_string(early) + " of " + std::to_string(calls) +
         " calls begin before backward has reached the first layer, and no hook waits.";
}

}  // namespace

int main() {
  const auto on = [](int ranks) { return [ranks] { return bits(ranks); }; };
  return exercise::grade("Exercise 12. DDP: hooks and buckets",
                         {{"1 rank", on(1), exercise::kRanksHang},
                          {"2 ranks", on(2), exercise::kRanksHang},
                          {"3 ranks", on(3), exercise::kRanksHang},
                          {"4 ranks", on(4), exercise::kRanksHang},
                          {"bytes", traffic, exercise::kRanksHang},
                          {"memory", memory, exercise::kRanksHang},
                          {"overlap", overlap, exercise::kRanksHang}});
}
