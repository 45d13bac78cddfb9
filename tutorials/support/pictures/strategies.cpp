#include "support/pictures/strategies.h"

#include <algorithm>
#include <cstdio>

#include "support/options/device.h"
#include "support/pictures/palette.h"

#include <hero/core/ledger.h>

namespace tutorial {

using hero::MemoryTag;

hero::dist::DataParallel apply_strategy(int stage, hero::nn::Module& net,
                                        const Communicator& world) {
  if (stage == 0) {
    return hero::dist::DDP(net, world,
                           {.bucket_bytes = kBucketBytes, .first_bucket_bytes = kBucketBytes});
  }
  return hero::dist::ZeRO(net, world, {.stage = stage, .bucket_bytes = kBucketBytes});
}

StrategyFormula formula_of(int stage, const Communicator& world,
                           const std::vector<hero::dist::UnitInfo>& units) {
  int64_t whole = 0, part = 0, sent = 0;
  for (const auto& unit : units) {
    whole += 4 * unit.flat_numel;
    part += 4 * unit.flat_numel / world.size();
    const int64_t gathers = stage == 3 ? 2 : 1;
    sent += gathers * all_gather_bytes(world, unit.flat_numel) +
            reduce_scatter_bytes(world, unit.flat_numel);
  }
  return {{stage < 3 ? whole : part, stage < 2 ? whole : part, 2 * (stage < 1 ? whole : part)},
          sent};
}

namespace {

// One bar, from the left at x. Its top is the most that the rank held at once.
void draw_strategy(Figure& figure, double x, const Report& report) {
  const Bytes held = report.held();
  const struct {
    const char *name, *colour;
    int64_t bytes;
  } parts[] = {{"parameters", kParameterColour, held.parameters},
               {"states", kStateColour, held.optimizer},
               {"gradients", kGradientColour, held.gradients},
               {"for a moment", kTransientColour, report.peak() - held.sum()}};
  double top = 0.0;
  for (const auto& part : parts) {
    const double end = top + 1e-6 * static_cast<double>(part.bytes);
    // the legend has each name once
    figure.area(x == 0.0 ? part.name : "", {x + 0.15, x + 0.85}, {top, top}, {end, end},
                part.colour);
    top = end;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.1f MB", top);
  figure.label(text, x + 0.5, top + 0.4, "#111111");
}

}  // namespace

void draw_strategies(int stage, const Communicator& world, const std::string& folder,
                     const std::string& name) {
  Figure figure("Memory of one of " + std::to_string(world.size()) + " ranks in a step", "", "MB");
  const char* names[] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
  std::vector<Tick> ticks;
  for (int i = 0; i <= stage; ++i) {
    Report report(world, names[i]);
    train([i](auto& net, auto& ranks) { return apply_strategy(i, net, ranks); }, world, report);
    draw_strategy(figure, i, report);
    ticks.push_back({i + 0.5, names[i]});
  }
  if (world.rank() > 0) return;
  figure.x_range(0, stage + 1).y_range(0, 13).x_ticks(ticks).save(folder, name);
}

void Moments::note(const std::string& name) {
  const auto live = [](MemoryTag tag) { return hero::current_ledger().live(tag, device().type); };
  if (!name.empty()) ticks_.push_back({static_cast<double>(bytes_.size()) + 0.5, name});
  bytes_.push_back({live(MemoryTag::parameter), live(MemoryTag::gradient),
                    live(MemoryTag::optimizer), live(MemoryTag::communication)});
}

void Moments::watch(hero::nn::Module& net) {
  const auto layers = net.children();
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = 2 * (i + 1) == layers.size() - 1 ? layers[i]->name() : "";
    layers[i]->register_forward_pre_hook([this, name](auto&...) { note(name); });
    layers[i]->register_forward_hook([this](auto&...) { note(); });
    layers[i]->register_full_backward_pre_hook(
        [this, name](auto&...) { note(name.empty() ? "" : "∇ " + name); });
  }
}

void Moments::watch_gradients(hero::nn::Module& net) {
  for (const hero::Tensor& p : net.parameters()) {
    p.register_leaf_hook([this](const hero::Tensor&) { note(); });
  }
}

void Moments::draw(const std::string& title, const std::string& folder,
                   const std::string& name) const {
  Figure figure(title, "", "MB");
  const char* kinds[] = {"states", "shards of parameters", "gradients",
                         "messages, gathered layers"};
  const char* colours[] = {kStateColour, kParameterColour, kGradientColour, kMessageColour};
  Values x, levels[5];  // level i: what the first i kinds hold together, MB
  double top = 0.0;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const Bytes& held = bytes_[i];
    const int64_t kind[] = {held.optimizer, held.parameters, held.gradients, held.communication};
    for (const double end : {0.0, 1.0}) {
      x.push_back(static_cast<double>(i) + end);
      levels[0].push_back(0.0);
      for (size_t k = 0; k < 4; ++k) {
        levels[k + 1].push_back(levels[k].back() + 1e-6 * static_cast<double>(kind[k]));
      }
      top = std::max(top, levels[4].back());
    }
  }
  for (size_t k = 0; k < 4; ++k) figure.area(kinds[k], x, levels[k], levels[k + 1], colours[k]);
  figure.x_range(0, static_cast<double>(bytes_.size())).y_range(0, 1.5 * top);
  figure.x_ticks(ticks_).save(folder, name);
}

}  // namespace tutorial
