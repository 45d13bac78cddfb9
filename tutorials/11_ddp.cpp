// Data parallelism: average the gradients, by hand and by the library
#include "support/ladder.h"

#include <hero/nn/nn.h>

using hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp, hero::dist::Work;
using tutorial::bits_of, tutorial::kAdam, tutorial::kSteps, tutorial::loss_of, tutorial::Network,
    tutorial::Report, tutorial::say;
namespace optim = hero::optim;

namespace {

// [snippet: by_hand]
uint64_t train_by_hand(const Communicator& world, Report& report) {
  Network net = tutorial::make_network();
  for (const Tensor& p : net.parameters()) world.broadcast(p.array(), 0);  // all begin alike
  optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    report.step();
    adam.zero_grad();
    loss_of(net, step, world.rank()).backward();  // this rank's images
    for (const Tensor& p : net.parameters()) {
      world.all_reduce(p.grad().array(), {.op = ReduceOp::mean});
    }
    report.note("backward");
    adam.step();
    report.note("step");
    report.note_peak();
  }
  return bits_of(net.parameters());
}
// [end]

// [snippet: overlap]
uint64_t train_overlapped(const Communicator& world, Report& report, std::string& ready) {
  Network net = tutorial::make_network();
  for (const Tensor& p : net.parameters()) world.broadcast(p.array(), 0);
  std::vector<Work> under_way;
  for (const auto& [name, p] : net.named_parameters()) {
    p.register_leaf_hook([&, name = name](const Tensor& leaf) {  // its gradient is complete
      under_way.push_back(
          world.all_reduce(leaf.grad().array(), {.op = ReduceOp::mean, .async = true}));
      ready += " " + name;
    });
  }
  optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    report.step();
    ready.clear();
    adam.zero_grad();
    loss_of(net, step, world.rank()).backward();
    for (Work& work : under_way) work.wait();
    under_way.clear();
    report.note("backward");
    adam.step();
    report.note("step");
    report.note_peak();
  }
  return bits_of(net.parameters());
}
// [end]

// [snippet: library]
hero::dist::DDP library_ddp(hero::nn::Module& net, const Communicator& world) {
  return hero::dist::DDP(net, world, {.bucket_bytes = 1 << 20, .first_bucket_bytes = 1 << 16});
}
// [end]

int64_t all_reduce_bytes(const Communicator& world, int64_t numel) {
  return tutorial::reduce_scatter_bytes(world, numel) + tutorial::all_gather_bytes(world, numel);
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Data parallelism: the gradients of all ranks, averaged.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto&) {
    const uint64_t alone = tutorial::train_alone(world);
    int64_t n = 0, sent = 0;
    for (const Tensor& p : tutorial::make_network().parameters()) {
      n += p.array().nbytes();
      sent += all_reduce_bytes(world, p.numel());
    }
    Report by_hand(world, "by hand");
    by_hand.print({n, n, 2 * n}, sent, train_by_hand(world, by_hand), alone);

    std::string ready;
    Report overlapped(world, "overlapped");
    overlapped.print({n, n, 2 * n}, sent, train_overlapped(world, overlapped, ready), alone);
    say(world, "  each all_reduce begins when its gradient is ready:%s\n", ready.c_str());

    Report library(world, "dist::DDP");
    const auto [bits, buckets] = tutorial::train(library_ddp, world, library);
    sent = 0;
    for (const auto& bucket : buckets) sent += all_reduce_bytes(world, bucket.numel);
    library.print({n, n, 2 * n}, sent, bits, alone);
    for (const auto& bucket : buckets) {
      say(world, "  %s, %lld bytes:", bucket.name.c_str(), 4LL * bucket.numel);
      for (const std::string& name : bucket.parameters) say(world, " %s", name.c_str());
      say(world, "\n");
    }
  });
}
