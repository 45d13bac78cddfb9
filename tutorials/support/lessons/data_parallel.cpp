#include "support/lessons/data_parallel.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "support/options/device.h"
#include "support/options/page.h"
#include "support/options/program.h"

#include <hero/core/ledger.h>

namespace tutorial {

using hero::MemoryTag, hero::Tensor;
using hero::dist::ChunkCounts;

// [snippet: batch]
Tensor loss_of(hero::nn::Module& net, int rank) {
  hero::manual_seed(1000 + static_cast<uint64_t>(rank));
  const Tensor images = hero::rand({kRows, 256}, {.device = device()}) - 0.5;
  const Tensor labels = hero::randint(0, 10, {kRows}, {.device = device()});
  return cross_entropy(net(images), labels);
}
// [end]

DeepNetwork make_network() {
  hero::manual_seed(1);
  return DeepNetwork();
}

uint64_t train_alone(const Communicator& world) {
  say(world,
      "10 layers of 256, a head of 10 classes, %d steps of Adam, %d ranks with %d images each\n",
      kSteps, world.size(), static_cast<int>(kRows));
  std::vector<double> losses;
  // [snippet: alone]
  DeepNetwork net = make_network();
  hero::optim::Adam adam(net.parameters(), kAdam);
  hero::optim::Accumulator gradients(net.parameters());
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    double sum = 0.0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const Tensor loss = loss_of(net, rank);
      loss.backward();
      gradients.add();
      sum += loss.item();
    }
    gradients.mean();
    adam.step();
    losses.push_back(sum / world.size());
  }
  // [end]
  say(world, "  one process, its loss in each step: %s\n", means_of(world, losses).c_str());
  return bits_of(net.parameters());
}

uint64_t bits_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const Tensor& tensor : tensors) {
    const hero::Array values = tensor.array().to(hero::kCpu);
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.bytes());
    for (int64_t i = 0; i < values.nbytes(); ++i) {
      hash = (hash ^ bytes[i]) * 0x100000001b3;
    }
  }
  return hash;
}

namespace {

// Calls visit(tensor, window) for every parameter and its place in the flat parameter.
template <class Visit>
void each_window(const hero::nn::Module& net, const hero::Array& flat, const Visit& visit) {
  int64_t at = 0;
  for (const Tensor& p : net.parameters()) {
    visit(p, Tensor(flat.slice(0, at, at + p.numel()).reshape(p.shape())));
    at += p.numel();
  }
}

}  // namespace

// [snippet: flat]
hero::Array flat_parameter_of(const hero::nn::Module& net) {
  const hero::MemoryScope scope(MemoryTag::parameter);
  const auto flat = hero::Array::empty({net.parameter_count()}, hero::kFloat32, device());
  each_window(net, flat, [](const Tensor& p, const Tensor& window) {
    window.copy_(p.detach());
    p.set_data(window.array());  // the same parameter, its values now lie in it
  });
  return flat;
}

hero::Array flat_gradient_of(const hero::nn::Module& net) {
  const hero::MemoryScope scope(MemoryTag::gradient);
  const auto flat = hero::Array::zeros({net.parameter_count()}, hero::kFloat32, device());
  each_window(net, flat, [](const Tensor& p, const Tensor& window) { p.set_grad(window); });
  return flat;
}
// [end]

Cut::Cut(const Communicator& world, int64_t numel) {
  const auto cut = ChunkCounts::balanced(numel, world.size());
  counts = cut.to_vector();
  begin = cut.first(world.rank());
  end = begin + cut.count(world.rank());
}

hero::Array Cut::mine(const hero::Array& flat) const { return flat.slice(0, begin, end); }

int64_t reduce_scatter_bytes(const Communicator& world, int64_t numel) {
  return 4 * (numel - ChunkCounts::balanced(numel, world.size()).count(world.rank()));
}

int64_t all_gather_bytes(const Communicator& world, int64_t numel) {
  return 4 * (world.size() - 1) * ChunkCounts::balanced(numel, world.size()).count(world.rank());
}

Trained train(const Strategy& strategy, const Communicator& world, Report& report) {
  DeepNetwork net = make_network();
  const hero::dist::DataParallel shared = strategy(net, world);
  report.watch(net);
  hero::optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    const Tensor loss = loss_of(net, world.rank());
    loss.backward();
    adam.step();
    report.end(loss);
  }
  const auto whole = shared.summon_full_parameters();
  return {bits_of(net.parameters()), shared.units()};
}

namespace {

// What this rank holds now.
int64_t live_sum() { return hero::current_ledger().live(device().type); }
Bytes live_bytes() {
  const auto live = [](MemoryTag tag) { return hero::current_ledger().live(tag, device().type); };
  return {live(MemoryTag::parameter), live(MemoryTag::gradient), live(MemoryTag::optimizer),
          live(MemoryTag::communication), live(MemoryTag::activation)};
}

}  // namespace

Report::Report(const Communicator& world, std::string title)
    : world_(world), title_(std::move(title)) {}

void Report::watch(hero::nn::Module& net) {
  net.register_forward_pre_hook([this](auto&...) { begin(); }, {.prepend = true});
  net.register_forward_hook([this](auto&...) { line("after forward", live_bytes(), live_sum()); });
}

void Report::begin() {
  begin_ = std::chrono::steady_clock::now();
  lines_.clear();
  hero::current_ledger().reset_peak();
  world_.traffic().reset();
}

void Report::end(const Tensor& loss) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  if (!losses_.empty()) seconds_ = std::min(seconds_, passed.count());
  sent_ = world_.traffic().bytes();
  held_ = live_bytes();
  line("after the step", held_, live_sum());
  const auto peak = [](MemoryTag tag) { return hero::current_ledger().peak(tag, device().type); };
  peak_ = hero::current_ledger().peak(device().type);
  line("at most",
       {peak(MemoryTag::parameter), peak(MemoryTag::gradient), peak(MemoryTag::optimizer),
        peak(MemoryTag::communication), peak(MemoryTag::activation)},
       peak_);
  losses_.push_back(loss.item());
  note_step(title_, {{"loss", losses_.back()}, {"sent, MB", 1e-6 * static_cast<double>(sent_)}});
}

void Report::line(const std::string& label, const Bytes& bytes, int64_t together) {
  const auto megabytes = [](int64_t count) { return 1e-6 * static_cast<double>(count); };
  char text[128];
  std::snprintf(text, sizeof text, "  %-23s %10.2f %9.2f %6.2f %8.2f %11.2f %8.2f\n", label.c_str(),
                megabytes(bytes.parameters), megabytes(bytes.gradients), megabytes(bytes.optimizer),
                megabytes(bytes.communication), megabytes(bytes.activations), megabytes(together));
  lines_ += text;
}

void Report::print(const Bytes& formula, int64_t sent_formula, uint64_t bits, uint64_t alone) {
  const bool same = everywhere(world_, bits == alone);
  const bool held_as_said =
      held_.parameters == formula.parameters && held_.gradients == formula.gradients &&
      held_.optimizer == formula.optimizer && held_.communication == formula.communication;
  const bool sent_as_said = everywhere(world_, sent_ == sent_formula);
  say(world_, "\n%-25s %10s %9s %6s %8s %11s %8s\n%s", (title_ + ", MB").c_str(), "parameters",
      "gradients", "states", "messages", "activations", "together", lines_.c_str());
  say(world_, "  parameters, gradients and states after the step: %s\n",
      held_as_said ? "to the byte as the formula says" : "NOT as the formula says");
  say(world_, "  sent in a step: %.2f MB, %s\n", 1e-6 * static_cast<double>(sent_),
      sent_as_said ? "to the byte as the formula says, on every rank" : "NOT as the formula says");
  say(world_, "  loss in each step: %s\n", means_of(world_, losses_).c_str());
  say(world_, "  parameters after %d steps: %s\n", kSteps,
      same ? "bitwise identical to one process" : "NOT bitwise identical to one process");
}

void show_times(const Communicator& world, double link, const std::vector<const Report*>& runs) {
  if (link == 0.0) return;
  say(world, "\nmeasured on a link of %g MB/s, the shortest step of each run\n", 1e-6 * link);
  for (const Report* run : runs) {
    say(world, "  %-22s %8.1f ms, its bytes alone %8.1f ms\n", run->title().c_str(),
        1e3 * run->seconds(), 1e3 * static_cast<double>(run->sent()) / link);
  }
}

std::string means_of(const Communicator& world, const std::vector<double>& mine) {
  std::string text;
  for (const double value : mine) text += repr(value) + " ";
  std::vector<double> sums(mine.size());
  for (const std::string& numbers : texts_of(world, text)) {
    std::istringstream in(numbers);
    for (double& sum : sums) {
      double value = 0.0;
      in >> value;
      sum += value;
    }
  }
  text.clear();
  for (const double sum : sums) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.4f", text.empty() ? "" : " ", sum / world.size());
    text += number;
  }
  return text;
}

}  // namespace tutorial
