#include "support/pictures/backward.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace tutorial {

const std::array<GraphPlace, 11> kNeuron = {{{"w", 0, 2.4},
                                             {"x", 0, 1.2},
                                             {"b", 1, 0.6},
                                             {"p = w x", 1, 1.8},
                                             {"u = p + b", 2, 1.8},
                                             {"s = u^2", 3, 0.6},
                                             {"q = s + 1", 4, 0.6},
                                             {"r = sqrt(q)", 5, 0.6},
                                             {"h = u / r", 6, 1.8},
                                             {"e = h - 1", 7, 1.8},
                                             {"loss = e^2", 8, 1.8}}};

namespace {

constexpr double kBoxWidth = 0.66, kBoxHeight = 0.26;  // of one of the two halves

// From each first node to the second, which is computed from it.
constexpr std::pair<size_t, size_t> kNeuronEdges[] = {
    {0, 3}, {1, 3}, {2, 4}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {4, 8}, {7, 8}, {8, 9}, {9, 10}};

std::string five_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

Values log10_of(const Values& values) {
  Values logs;
  for (const double v : values) {
    logs.push_back(v > 0.0 ? std::log10(v) : std::numeric_limits<double>::quiet_NaN());
  }
  return logs;
}

std::vector<Tick> powers_of_ten(int low, int high, int stride) {
  std::vector<Tick> ticks;
  for (int power = low; power <= high; power += stride) {
    ticks.push_back({static_cast<double>(power), "10^{" + std::to_string(power) + "}"});
  }
  return ticks;
}

}  // namespace

void draw_graph(const std::vector<GraphNode>& nodes, const std::string& folder) {
  Figure figure(
      "The graph of a neuron's loss: values (blue) are computed to the right, gradients (orange) "
      "to the left",
      "", "");
  Values x, y, dx, dy;
  for (const auto& [from, to] : kNeuronEdges) {
    const GraphPlace &a = kNeuron[from], &b = kNeuron[to];
    x.push_back(a.column + kBoxWidth / 2);
    y.push_back(a.row);
    dx.push_back(b.column - kBoxWidth / 2 - x.back());
    dy.push_back(b.row - a.row);
  }
  figure.arrows("", x, y, dx, dy);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphPlace& at = kNeuron[i];
    const double left = at.column - kBoxWidth / 2;
    figure.label(at.name, at.column, at.row + kBoxHeight + 0.1, "#111111");
    figure.box(left, at.row, kBoxWidth, kBoxHeight, "#a9cfe8", five_digits(nodes[i].value));
    figure.box(left, at.row - kBoxHeight, kBoxWidth, kBoxHeight, "#f4c08a",
               five_digits(nodes[i].gradient));
  }
  figure.x_range(-0.5, 8.5).y_range(0.1, 2.9).bare().save(folder, "07a_backward_graph");
}

void draw_differences(const Values& steps, const Values& forward, const Values& central,
                      const std::string& folder) {
  const Values x = log10_of(steps);
  Figure("Error of a derivative by finite differences, by the step", "step h", "error")
      .x_ticks(powers_of_ten(-14, 0, 2))
      .y_ticks(powers_of_ten(-14, 0, 2))
      .legend("top center")
      .patterned()
      .line("(f(w + h) − f(w)) / h", x, log10_of(forward))
      .line("(f(w + h) − f(w − h)) / 2h", x, log10_of(central))
      .save(folder, "07a_backward_differences");
}

}  // namespace tutorial
