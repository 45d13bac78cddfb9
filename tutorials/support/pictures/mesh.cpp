#include "support/pictures/mesh.h"

#include <algorithm>

#include "support/pictures/plot.h"

#include <hero/core/error.h>

namespace tutorial {

namespace {

constexpr double kWide = 2.0, kHigh = 1.0, kGap = 0.08, kApart = 1.2;

const char* part_colour(int part) {
  static const char* const colours[] = {"#7db7e0", "#f0a860", "#8fce9f", "#e3a6c8",
                                        "#c3d9ea", "#f7d5a8", "#cfe9d6", "#f2d6e6"};
  return colours[static_cast<size_t>(part) % std::size(colours)];
}

// gnuplot reads _ as the beginning of an index.
std::string without_markup(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '_' ? std::string("\\_") : std::string(1, c);
  return out;
}

}  // namespace

void draw_mesh(const std::string& title, const std::vector<hero::dist::Axis>& axes,
               const std::vector<MeshCell>& cells, const std::vector<std::string>& notes,
               const std::string& folder, const std::string& name) {
  hero::check(axes.size() == 2 || axes.size() == 3, "draw_mesh: ", axes.size(),
              " axes; it draws two or three");
  const hero::dist::Axis &down = axes[axes.size() - 2], &right = axes.back();
  const int blocks = axes.size() == 3 ? axes[0].size : 1;
  const double across = right.size * kWide;
  Figure figure(title, "", "");
  size_t rank = 0;
  double top = 0.0;
  for (int block = 0; block < blocks; ++block) {
    if (blocks > 1) {
      const std::string text = axes[0].name + " " + std::to_string(block);
      figure.label(text, -0.1, top + 0.2, "#111111", Align::right);
    }
    for (int column = 0; column < right.size; ++column) {
      figure.label(right.name + " " + std::to_string(column), (column + 0.5) * kWide, top + 0.2,
                   "#555555");
    }
    for (int row = 0; row < down.size; ++row, top -= kHigh) {
      figure.label(down.name + " " + std::to_string(row), -0.1, top - kHigh / 2, "#555555",
                   Align::right);
      for (int column = 0; column < right.size; ++column, ++rank) {
        const MeshCell& cell = cells.at(rank);
        figure.box(column * kWide + kGap / 2, top - kHigh + kGap / 2, kWide - kGap, kHigh - kGap,
                   part_colour(cell.part),
                   "rank " + std::to_string(rank) + "\n" + without_markup(cell.text));
      }
    }
    if (block + 1 < blocks) top -= kApart - 0.4;
  }
  constexpr double kLine = 0.42;  // of a note
  for (const std::string& note : notes) {
    const auto lines = 1 + static_cast<int>(std::count(note.begin(), note.end(), '\n'));
    figure.label(without_markup(note), (across - 1.2) / 2, top - 0.15 - kLine * lines / 2,
                 "#333333");
    top -= kLine * lines + 0.1;
  }
  figure.x_range(-1.3, across + 0.05).y_range(top - 0.15, 0.5);
  figure.height(110 + static_cast<int>(80 * (0.65 - top)));
  figure.bare().save(folder, name);
}

}  // namespace tutorial
