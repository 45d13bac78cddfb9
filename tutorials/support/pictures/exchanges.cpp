#include "support/pictures/exchanges.h"

#include <sstream>

#include "support/pictures/plot.h"

namespace tutorial {

namespace {

// Ranks' numbers are ten times the rank and which one it is; others are sums.
const char* colour_of(const std::string& number, size_t ranks) {
  static const char* const colours[] = {"#7db7e0", "#f0a860", "#8fce9f", "#e3a6c8"};
  const auto origin = static_cast<size_t>(std::stoi(number)) / 10;
  return origin < ranks ? colours[origin % std::size(colours)] : "#d0d0d0";
}

void draw_side(Figure& figure, const std::vector<std::string>& ranks, double x, double top) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::istringstream cells(ranks[r]);
    std::string number;
    for (double at = x; cells >> number; at += 1.0) {
      if (number == "-") continue;
      figure.box(at, top - static_cast<double>(r) - 0.9, 1.0, 0.85, colour_of(number, ranks.size()),
                 number);
    }
  }
}

}  // namespace

void draw_exchanges(const std::vector<Exchange>& exchanges, const std::string& folder) {
  Figure figure("What collectives make of the numbers of all ranks: before and after", "", "");
  constexpr size_t kColumns = 2;
  const auto ranks = static_cast<double>(exchanges.front().before.size());
  const double width = 2.0 * ranks + 4.0, height = ranks + 1.2;
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const size_t row = i / kColumns;
    const double x = width * static_cast<double>(i % kColumns);
    const double y = -height * static_cast<double>(row);
    figure.label(plain(exchanges[i].name), x + ranks + 0.75, y + 0.35, "#111111");
    for (double r = 0; r < ranks; r += 1.0) {
      figure.label("rank " + std::to_string(static_cast<int>(r)), x - 1.0, y - r - 0.45, "#555555");
    }
    draw_side(figure, exchanges[i].before, x, y);
    figure.label("→", x + ranks + 0.75, y - ranks / 2, "#555555");
    draw_side(figure, exchanges[i].after, x + ranks + 1.5, y);
  }
  const size_t rows = (exchanges.size() + kColumns - 1) / kColumns;
  figure.x_range(-2.0, static_cast<double>(kColumns) * width - 1.5);
  figure.y_range(0.4 - height * static_cast<double>(rows), 1.0);
  figure.bare().save(folder, "10_collectives");
}

}  // namespace tutorial
