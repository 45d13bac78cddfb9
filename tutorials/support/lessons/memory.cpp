#include "support/lessons/memory.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "support/options/device.h"
#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

#include <hero/optim/optim.h>

namespace tutorial {

namespace {

constexpr hero::MemoryTag kTags[] = {hero::MemoryTag::parameter, hero::MemoryTag::gradient,
                                     hero::MemoryTag::optimizer, hero::MemoryTag::activation};

}  // namespace

Batch random_batch(int64_t rows) {
  const hero::MemoryScope other(hero::MemoryTag::other);
  return {hero::rand({rows, 784}, {.device = device()}),
          hero::randint(0, 10, {rows}, {.device = device()})};
}

void MemoryTable::head(const std::string& title) {
  std::printf("%-22s %10s %10s %10s %11s\n", title.c_str(), "parameters", "gradients", "optimizer",
              "activations");
}

void MemoryTable::line(const std::string& moment) const {
  std::vector<int64_t> bytes;
  for (hero::MemoryTag tag : kTags) bytes.push_back(ledger_.live(tag, device().type));
  line(moment, bytes);
}

void MemoryTable::line(const std::string& moment, const std::vector<int64_t>& bytes) {
  std::printf("  %-20s", moment.c_str());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::printf(" %*lld", i == 3 ? 11 : 10, static_cast<long long>(bytes[i]));
  }
  std::printf("\n");
}

bool same_bits(const hero::Tensor& a, const hero::Tensor& b) {
  const hero::Array left = a.array().to(hero::kCpu).contiguous();
  const hero::Array right = b.array().to(hero::kCpu).contiguous();
  return left.dtype() == right.dtype() && left.shape() == right.shape() &&
         std::memcmp(left.bytes(), right.bytes(), static_cast<size_t>(left.nbytes())) == 0;
}

void draw_checkpoints(const std::vector<Cost>& plain, const std::vector<Cost>& blocks,
                      const std::vector<Cost>& roots, const std::string& folder) {
  Figure figure("Peak memory for activations, measured", "layers n", "activations of one layer");
  const auto add = [&figure](const char* title, const std::vector<Cost>& costs) {
    Values x, y;
    for (const Cost& cost : costs) {
      x.push_back(cost.layers);
      y.push_back(cost.units);
    }
    figure.line(title, x, y).points("", x, y);
  };
  figure.patterned().height(640).x_range(0, plain.back().layers).y_range(0, plain.back().units);
  add("keep all", plain);
  add("a checkpoint every 4 layers", blocks);
  Values n, held;
  for (const Cost& cost : roots) {
    n.push_back(cost.layers);
    held.push_back(cost.units);
  }
  figure.points("sqrt(n) segments", n, held);
  figure.curve(
      "2 sqrt(n)", [](double layers) { return 2.0 * std::sqrt(layers); }, 0, plain.back().layers);
  figure.save(folder, "09_memory_checkpoints");
}

void draw_step(const std::string& folder) {
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  Values edges, levels[5];  // level i: what the first i tags hold together, MiB
  std::vector<Tick> ticks;
  const auto note = [&](const std::string& moment) {
    const auto begin = static_cast<double>(edges.size()) / 2;
    if (!moment.empty()) ticks.push_back({begin + 0.5, moment});
    for (const double edge : {begin, begin + 1.0}) {  // memory comes and goes at once
      edges.push_back(edge);
      levels[0].push_back(0.0);
      for (size_t i = 0; i < 4; ++i) {
        const auto bytes = static_cast<double>(ledger.live(kTags[i], device().type));
        levels[i + 1].push_back(levels[i].back() + bytes / (1 << 20));
      }
    }
  };
  Network net;
  hero::optim::Adam adam(net.parameters());
  const Batch batch = random_batch(1024);
  for (const auto& [name, layer] : net.named_children()) {
    const bool named = name == "fc2";  // the names of all would not fit
    layer->register_forward_hook([&note, text = named ? name : ""](auto&...) { note(text); });
    layer->register_full_backward_hook(
        [&note, text = named ? "∇ " + name : ""](auto&...) { note(text); });
  }
  for (int step = 0; step < 2; ++step) {
    note("");
    cross_entropy(net(batch.images), batch.labels).backward();
    note("");
    adam.step();
    note("step");
    adam.zero_grad();
  }
  Figure figure("Two steps of Adam: what lies in memory", "", "MiB");
  figure.x_range(0, edges.back()).y_range(0, 18).x_ticks(ticks);
  for (size_t i = 0; i < 4; ++i) {
    constexpr const char* kColours[] = {kParameterColour, kGradientColour, kStateColour,
                                        kActivationColour};
    figure.area(hero::name(kTags[i]), edges, levels[i], levels[i + 1], kColours[i]);
  }
  figure.save(folder, "09_memory_step");
}

}  // namespace tutorial
