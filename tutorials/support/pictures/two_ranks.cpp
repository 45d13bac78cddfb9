#include "support/pictures/two_ranks.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "support/options/device.h"
#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

#include <hero/core/error.h>
#include <hero/dist/fsdp.h>
#include <hero/nn/nn.h>

namespace tutorial {

namespace {

namespace dist = hero::dist;
namespace nn = hero::nn;

constexpr int kTwo = 2;
constexpr int64_t kWidth = 8;
constexpr const char* kLayers[] = {"fc1", "fc2"};
constexpr size_t kUnits = std::size(kLayers);
constexpr const char* kNothing = "#f4f4f4";

struct TwoLayers : nn::Module {
  TwoLayers() {
    for (const char* name : kLayers) layers.push_back(&add<nn::Linear>(name, kWidth, kWidth));
  }
  hero::Tensor forward(const hero::Tensor& x) override { return (*layers[1])((*layers[0])(x)); }
  std::vector<nn::Linear*> layers;
};

/// The number of this rank's part of a unit, and then an event a line: what, and of which unit.
std::string record_of_step(const Communicator& ranks) {
  hero::manual_seed(1);
  TwoLayers net;
  const auto sharded =
      dist::fully_shard(net, ranks, {.unit = dist::each<nn::Linear>(), .prefetch = 0});
  const dist::Chunk own = sharded.units().at(0).own;
  std::string record = std::to_string(own.begin / own.count) + "\n";
  sharded.on_event([&](const dist::Event& event) {
    record += std::string(name(event.kind)) + " " + event.unit + "\n";
  });
  for (nn::Linear* layer : net.layers) {
    layer->register_forward_pre_hook(
        [&, layer](auto&...) { record += "forward " + layer->name() + "\n"; });
    layer->register_full_backward_pre_hook(
        [&, layer](auto&...) { record += "backward " + layer->name() + "\n"; });
  }
  sum(net(hero::ones({1, kWidth}, {.device = device()}))).backward();
  sharded.on_event({});
  return record;
}

enum class Gradients : uint8_t { none, own_rank, mean };

/// What both ranks hold of a unit besides their own parts of its parameters.
struct UnitState {
  bool whole = false;
  Gradients gradients = Gradients::none;
};

/// Draws row after row, downwards. A cell is a half of a unit.
class Rows {
 public:
  Rows()
      : figure_("Two ranks: own parts blue, gathered pink, gradients grey, means orange", "", "") {
    for (int rank = 0; rank < kTwo; ++rank) {
      figure_.label("rank " + std::to_string(rank), left(rank) + kRankWidth / 2, 0.5, "#111111");
      for (size_t unit = 0; unit < kUnits; ++unit) {
        figure_.label(kLayers[unit], cell(rank, unit, 1), -0.4, "#555555");
      }
    }
  }

  void compute(const std::string& text, bool forward) {
    for (int rank = 0; rank < kTwo; ++rank) {
      figure_.box(left(rank), y_ - 1.0, kRankWidth, 1.0,
                  forward ? kForwardColours[0] : kBackwardColours[0], text);
    }
    y_ -= 1.0 + kGap;
  }

  /// A line in the middle, and below it what the ranks hold.
  void state(const std::string& text, const int (&parts)[kTwo], const UnitState (&units)[kUnits]) {
    figure_.label(text, kMiddle, y_ - 0.5, "#111111");
    hold(parts, units);
  }

  /// A collective: its name, what the ranks hold, and beside it what each of them sends.
  void message(const std::string& text, bool gather, const int (&parts)[kTwo],
               const UnitState (&units)[kUnits]) {
    figure_.label(plain(text), kMiddle, y_ - 0.4, "#111111");
    y_ -= 0.85;
    const double y = gather ? y_ : y_ - 1.0;
    for (int rank = 0; rank < kTwo; ++rank) {
      // of parameters it sends its own part, of gradients the other's
      const std::string part = std::to_string(parts[gather ? rank : 1 - rank]);
      const std::string what = gather ? part : "∇" + part;
      figure_.box(kMiddle + (rank == 0 ? -2.0 : 0.1), y - 1.0, 1.9, 0.95,
                  gather ? kGatherColour : kReduceColour, rank == 0 ? what + " →" : "← " + what);
    }
    hold(parts, units);
  }

  void save(const std::string& folder) {
    figure_.x_range(-0.05, kAll + 0.05).y_range(y_, 1.0);
    figure_.height(100 + static_cast<int>(30 * (1.0 - y_)));
    figure_.bare().save(folder, "17_fsdp_ranks");
  }

 private:
  static constexpr double kGap = 0.3, kBetween = 0.4;
  static constexpr double kRankWidth = 2 * 2 * 1.2 + kBetween, kAll = 15.2, kMiddle = kAll / 2;

  static double left(int rank) { return rank == 0 ? 0.0 : kAll - kRankWidth; }
  static double cell(int rank, size_t unit, int part) {
    return left(rank) + static_cast<double>(unit) * (2.4 + kBetween) + 1.2 * part;
  }

  void hold(const int (&parts)[kTwo], const UnitState (&units)[kUnits]) {
    const bool gradients = std::any_of(std::begin(units), std::end(units), [](const auto& unit) {
      return unit.gradients != Gradients::none;
    });
    for (int rank = 0; rank < kTwo; ++rank) {
      for (size_t unit = 0; unit < kUnits; ++unit) {
        for (int part = 0; part < kTwo; ++part) {
          const double x = cell(rank, unit, part);
          const bool own = part == parts[rank];
          const std::string text = std::to_string(part);
          const bool held = own || units[unit].whole;
          figure_.box(x, y_ - 1.0, 1.15, 0.95,
                      own    ? kParameterColour
                      : held ? kMessageColour
                             : kNothing,
                      held ? text : "");
          const Gradients found = units[unit].gradients;
          if (found == Gradients::own_rank) {
            figure_.box(x, y_ - 2.0, 1.15, 0.95, kTransientColour, "∇" + text);
          } else if (found == Gradients::mean && own) {
            figure_.box(x, y_ - 2.0, 1.15, 0.95, kGradientColour, "∇" + text);
          }
        }
      }
    }
    y_ -= (gradients ? 2.0 : 1.0) + kGap;
  }

  Figure figure_;
  double y_ = -0.9;
};

}  // namespace

void draw_two_ranks(const Communicator& world, const std::string& folder) {
  if (world.size() < kTwo) return;
  const bool inside = world.rank() < kTwo;
  const Communicator pair = world.split(inside ? 0 : -1, world.rank(), "pair");
  if (!inside) return;
  const std::vector<std::string> records = texts_of(pair, record_of_step(pair));
  if (world.rank() > 0) return;

  std::istringstream lines[kTwo];
  int parts[kTwo] = {};
  for (size_t rank = 0; rank < kTwo; ++rank) {
    lines[rank].str(records[rank]);
    lines[rank] >> parts[rank];
  }
  Rows rows;
  UnitState units[kUnits];
  rows.state("at first", parts, units);
  for (std::string what, name, other_what, other_name; lines[0] >> what >> name;) {
    lines[1] >> other_what >> other_name;
    hero::check(what == other_what && name == other_name, "draw_two_ranks: rank 0 has ", what, " ",
                name, " where rank 1 has ", other_what, " ", other_name);
    UnitState& unit = units[name == kLayers[0] ? 0 : 1];
    if (what == "forward" || what == "backward") rows.compute(what + " " + name, what == "forward");
    if (what == "use") {  // without prefetch, directly after "gather"
      unit.whole = true;
      rows.message("all_gather " + name, true, parts, units);
    }
    if (what == "free") {
      unit.whole = false;
      rows.state("free " + name, parts, units);
    }
    if (what == "reduce") {
      unit.gradients = Gradients::own_rank;
      rows.message("reduce_scatter " + name, false, parts, units);
    }
    if (what == "reduced") {
      unit.gradients = Gradients::mean;
      rows.state("reduced " + name, parts, units);
    }
  }
  rows.save(folder);
}

}  // namespace tutorial
