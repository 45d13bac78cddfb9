#include "support/pictures/backward.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace tutorial {

const std::array<GraphPlace, 11> kNeuron = {{{"w", 0, 0},
                                             {"x", 1, 0},
                                             {"b", 1, 1},
                                             {"p = w x", 0, 1},
                                             {"u = p + b", 0, 2},
                                             {"s = u^2", 1, 3},
                                             {"q = s + 1", 1, 4},
                                             {"r = sqrt(q)", 1, 5},
                                             {"h = u / r", 0, 6},
                                             {"e = h - 1", 0, 7},
                                             {"loss = e^2", 0, 8}}};

namespace {

// Of one of the two halves of a node, where a column is 1 wide and a row 1 high.
constexpr double kBoxWidth = 0.28, kBoxHeight = 0.44;

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
  Figure figure("The graph of a neuron's loss: values (blue) go down, gradients (orange) up", "",
                "");
  const auto middle = [](const GraphPlace& at) { return at.column + 0.71; };  // of both boxes
  Values x, y, dx, dy;
  for (const auto& [from, to] : kNeuronEdges) {
    const GraphPlace &a = kNeuron[from], &b = kNeuron[to];
    x.push_back(middle(a));
    y.push_back(-a.row - kBoxHeight / 2);
    dx.push_back(middle(b) - x.back());
    dy.push_back(-b.row + kBoxHeight / 2 - y.back());
  }
  figure.arrows("", x, y, dx, dy);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphPlace& at = kNeuron[i];
    const double bottom = -at.row - kBoxHeight / 2;
    figure.label(at.name, middle(at) - kBoxWidth - 0.02, -at.row, "#111111", Align::right);
    figure.box(middle(at) - kBoxWidth, bottom, kBoxWidth, kBoxHeight, "#a9cfe8",
               five_digits(nodes[i].value));
    figure.box(middle(at), bottom, kBoxWidth, kBoxHeight, "#f4c08a",
               five_digits(nodes[i].gradient));
  }
  figure.x_range(0.0, 2.0).y_range(-8.4, 0.4).height(760).bare().save(folder, "06a_backward_graph");
}

void draw_differences(const Values& steps, const Values& forward, const Values& central,
                      const std::string& folder) {
  const Values x = log10_of(steps);
  Figure("Error of a derivative by finite differences, by the step", "step h", "error")
      .x_ticks(powers_of_ten(-14, 0, 2))
      .y_ticks(powers_of_ten(-14, 0, 2))
      .patterned()
      .line("(f(w + h) − f(w)) / h", x, log10_of(forward))
      .line("(f(w + h) − f(w − h)) / 2h", x, log10_of(central))
      .save(folder, "06a_backward_differences");
}

}  // namespace tutorial
