#include "support/lessons/data_parallel.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "support/options/device.h"
#include "support/options/page.h"

#include <hero/core/ledger.h>

namespace tutorial {

using hero::MemoryTag, hero::Tensor;
using hero::dist::ChunkCounts;

// [snippet: batch]
Tensor loss_of(hero::nn::Module& net, int rank) {
  hero::manual_seed(1000 + static_cast<uint64_t>(rank));
  const Batch batch = random_batch(kRows);
  return cross_entropy(net(batch.images), batch.labels);
}
// [end]

Network make_network() {
  hero::manual_seed(1);
  return Network();
}

uint64_t train_alone(const Communicator& world) {
  say(world, "784-512-512-10, %d steps of Adam, %d ranks with %d images each\n", kSteps,
      world.size(), static_cast<int>(kRows));
  std::vector<double> losses;
  // [snippet: alone]
  Network net = make_network();
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

// [snippet: train]
Trained train(const Strategy& strategy, const Communicator& world, Report& report) {
  Network net = make_network();
  const hero::dist::DataParallel shared = strategy(net, world);
  hero::optim::Adam adam(net.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    report.step();
    adam.zero_grad();
    const Tensor loss = loss_of(net, world.rank());
    report.loss(loss);
    report.note("forward");
    loss.backward();
    report.note("backward");
    adam.step();
    report.note("step");
    report.note_peak();
  }
  report.stop();
  const auto whole = shared.summon_full_parameters();
  return {bits_of(net.parameters()), shared.units()};
}
// [end]

Report::Report(const Communicator& world, std::string title)
    : world_(world), title_(std::move(title)) {}

// The step that has ended, on the page of --report.
void Report::note_page() {
  if (losses_.size() == noted_) return;
  noted_ = losses_.size();
  const double sent = 1e-6 * static_cast<double>(world_.traffic().bytes());
  note_step(title_, {{"loss", losses_.back()}, {"sent, MB", sent}});
}

void Report::step() {
  note_page();
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - begin_;
  if (!losses_.empty()) seconds_ = std::min(seconds_, passed.count());
  begin_ = now;
  lines_.clear();
  hero::current_ledger().reset_peak();
  world_.traffic().reset();
}

void Report::loss(const Tensor& value) { losses_.push_back(value.item()); }

void Report::line(const std::string& label, const Bytes& bytes) {
  char text[128];
  std::snprintf(text, sizeof text, "  %-20s %10lld %10lld %10lld %13lld\n", label.c_str(),
                static_cast<long long>(bytes.parameters), static_cast<long long>(bytes.gradients),
                static_cast<long long>(bytes.optimizer),
                static_cast<long long>(bytes.communication));
  lines_ += text;
}

void Report::note(const std::string& moment) {
  const auto live = [](MemoryTag tag) { return hero::current_ledger().live(tag, device().type); };
  held_[moment] = {live(MemoryTag::parameter), live(MemoryTag::gradient),
                   live(MemoryTag::optimizer), live(MemoryTag::communication)};
  line(moment, held_[moment]);
}

void Report::note_peak() {
  const auto peak = [](MemoryTag tag) { return hero::current_ledger().peak(tag, device().type); };
  held_["at most"] = {peak(MemoryTag::parameter), peak(MemoryTag::gradient),
                      peak(MemoryTag::optimizer), peak(MemoryTag::communication)};
  line("at most", held_["at most"]);
}

void Report::stop() {
  if (sent_ >= 0) return;
  sent_ = world_.traffic().bytes();
  note_page();
}

void Report::print(const Bytes& formula, int64_t sent_formula, uint64_t bits, uint64_t alone) {
  stop();
  const int64_t sent = sent_;
  const bool same = everywhere(world_, bits == alone);
  const bool as_said = everywhere(world_, sent == sent_formula);
  line("formula", formula);
  say(world_, "\n%-22s %10s %10s %10s %13s\n%s", title_.c_str(), "parameters", "gradients",
      "optimizer", "communication", lines_.c_str());
  say(world_, "  sent in a step: %lld bytes, by the formula %lld%s\n", static_cast<long long>(sent),
      static_cast<long long>(sent_formula), as_said ? ", on every rank as it says" : "");
  say(world_, "  loss in each step: %s\n", means_of(world_, losses_).c_str());
  say(world_, "  parameters after %d steps: %s\n", kSteps,
      same ? "the bits of one process" : "OTHER bits than those of one process");
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
