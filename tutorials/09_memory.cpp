// What lies in memory during a step, and how to need less of it
#include <cmath>
#include <cstdio>

#include "support/lessons/memory.h"
#include "support/options/device.h"
#include "support/options/program.h"

#include <hero/optim/optim.h>

namespace optim = hero::optim;
using hero::Ledger, hero::LedgerScope, hero::MemoryTag, hero::Tensor;
using tutorial::Batch, tutorial::Cost, tutorial::device, tutorial::MemoryTable, tutorial::Network;

namespace {

template <class Optimizer, class Options>
void measure_step(const char* title, int64_t states, const Options& options) {
  MemoryTable::head(title);
  // [snippet: step]
  Ledger ledger;  // counts every byte that this thread allocates from here on
  const LedgerScope scope(ledger);
  const MemoryTable table(ledger);
  Network net;
  Optimizer optimizer(net.parameters(), options);
  const Batch batch = tutorial::random_batch(64);
  table.line("built");
  Tensor logits = net(batch.images);
  table.line("forward");
  cross_entropy(logits, batch.labels).backward();
  logits = {};
  table.line("backward");
  optimizer.step();
  table.line("step");
  // [end]
  const int64_t n = net.parameter_count();
  MemoryTable::line("formula", {4 * n, 4 * n, 4 * n * states, 4 * 64 * (512 + 512 + 10)});
  optimizer.zero_grad();
  table.line("zero_grad");
}

// [snippet: accumulate]
// The gradients of one batch, `rows` of it at a time.
std::vector<Tensor> gradients(Network& net, const Batch& batch, int64_t rows) {
  net.zero_grad();
  const int64_t all = batch.images.size(0);
  for (int64_t at = 0; at < all; at += rows) {
    const Tensor logits = net(batch.images.slice(0, at, at + rows));
    const Tensor loss = cross_entropy(logits, batch.labels.slice(0, at, at + rows));
    (loss * (static_cast<double>(rows) / static_cast<double>(all))).backward();
  }
  std::vector<Tensor> list;
  for (const Tensor& p : net.parameters()) list.push_back(p.grad());
  return list;
}
// [end]

void accumulate() {
  std::printf("\n# gradient accumulation: bits of the sum beside those of the whole batch\n");
  std::printf("batch  in parts of    weights   biases\n");
  Network net;
  for (const auto& [all, rows] : {std::pair{512, 256}, {1024, 256}, {1000, 100}}) {
    const Batch batch = tutorial::random_batch(all);
    const auto whole = gradients(net, batch, all), parts = gradients(net, batch, rows);
    bool weights = true, biases = true;
    for (size_t i = 0; i < whole.size(); ++i) {
      bool& same = whole[i].ndim() == 2 ? weights : biases;
      same = same && tutorial::same_bits(whole[i], parts[i]);
    }
    std::printf("%5d  %2d x %4d      %7s  %7s\n", all, all / rows, rows,
                weights ? "same" : "differ", biases ? "same" : "differ");
  }
}

// [snippet: checkpoint]
using Layer = std::function<Tensor(const Tensor&)>;
Tensor run_chain(const std::vector<Layer>& chain, const std::string& keep, const Tensor& x) {
  const int n = static_cast<int>(chain.size()), block = 4;
  if (keep == "all") return checkpoint_sequential(chain, 1, x);  // one piece: no checkpoint
  if (keep == "sqrt(n)") return checkpoint_sequential(chain, static_cast<int>(std::sqrt(n)), x);
  Tensor y = x;
  for (int at = 0; at < n; at += block) {
    const std::vector<Layer> layers(chain.begin() + at, chain.begin() + at + block);
    y = hero::checkpoint([layers](const Tensor& z) { return checkpoint_sequential(layers, 1, z); },
                         y);
  }
  return y;
}
// [end]

// The largest memory for activations, in those of one layer, and the calls of a layer.
Cost measure_chain(int n, const std::string& keep) {
  Ledger ledger;
  const LedgerScope scope(ledger);
  int forwards = 0;
  std::vector<Layer> chain;
  for (int i = 0; i < n; ++i) {
    const Tensor weight = hero::rand({16, 16}, {.device = device(), .requires_grad = true});
    chain.push_back([&forwards, weight](const Tensor& x) {
      ++forwards;
      return tanh(matmul(x, weight));
    });
  }
  const int64_t weights = ledger.live(device().type);
  const Tensor x = hero::rand({512, 16}, {.device = device()});
  sum(run_chain(chain, keep, x)).backward();
  const int64_t activations = ledger.peak(MemoryTag::activation, device().type) - weights;
  const int64_t outputs = activations / x.array().nbytes();  // a layer's output is as large as x
  return {n, static_cast<double>(outputs), forwards};
}

void checkpoints(const std::string& folder) {
  std::printf("\n# a chain of n layers: most activations held at once (calls of a layer)\n");
  std::printf("   n    keep all      a block of 4    sqrt(n) pieces  2 sqrt(n)\n");
  // Two layers hold three activations: the rest is what one layer's backward has in flight.
  const double in_flight = measure_chain(2, "all").units - 3.0;
  std::vector<std::vector<Cost>> curves(3);
  for (const int n : {4, 16, 36, 64, 100, 144}) {
    std::printf("%4d", n);
    for (size_t i = 0; i < 3; ++i) {
      const char* keep[] = {"all", "blocks", "sqrt(n)"};
      Cost cost = measure_chain(n, keep[i]);
      cost.units -= in_flight;
      curves[i].push_back(cost);
      std::printf("  %6.0f (%3d) ", cost.units, cost.forwards);
    }
    std::printf("  %6.0f\n", 2.0 * std::sqrt(n));
  }
  draw_checkpoints(curves[0], curves[1], curves[2], folder);
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program = {
      .title = "What lies in memory during a step, measured, and how to need less.",
      .descends = false};
  return tutorial::run(argc, argv, program, [](const tutorial::Options& options) {
    std::printf("# bytes during a step of the slides' network, batch 64\n");
    measure_step<optim::SGD, optim::SGDOptions>("SGD", 0, {});
    measure_step<optim::SGD, optim::SGDOptions>("momentum", 1, {.momentum = 0.9});
    measure_step<optim::Adam, optim::AdamOptions>("Adam", 2, {});
    tutorial::draw_step(options.out);
    accumulate();
    checkpoints(options.out);
  });
}
