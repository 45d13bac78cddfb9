#include "support/pictures/mesh.h"

#include "support/pictures/plot.h"

#include <hero/core/error.h>

namespace tutorial {

namespace {

constexpr double kWide = 2.0, kHigh = 1.0, kGap = 0.08, kApart = 0.9;

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
  const double across = right.size * kWide, below = down.size * kHigh;
  Figure figure(title, "", "");
  size_t rank = 0;
  for (int block = 0; block < blocks; ++block) {
    const double left = block * (across + kApart);
    if (blocks > 1) {
      const std::string text = axes[0].name + " " + std::to_string(block);
      figure.label(text, left + across / 2, 0.62, "#111111");
    }
    for (int column = 0; column < right.size; ++column) {
      figure.label(right.name + " " + std::to_string(column), left + (column + 0.5) * kWide, 0.2,
                   "#555555");
    }
    for (int row = 0; row < down.size; ++row) {
      const double top = -row * kHigh;
      if (block == 0) {
        figure.label(down.name + " " + std::to_string(row), -0.45, top - kHigh / 2, "#555555");
      }
      for (int column = 0; column < right.size; ++column, ++rank) {
        const MeshCell& cell = cells.at(rank);
        const double x = left + column * kWide + kGap / 2, y = top - kHigh + kGap / 2;
        figure.box(x, y, kWide - kGap, kHigh - kGap, part_colour(cell.part));
        const double middle = left + (column + 0.5) * kWide;
        figure.label("rank " + std::to_string(rank), middle, top - 0.36 * kHigh, "#111111");
        figure.label(without_markup(cell.text), middle, top - 0.64 * kHigh, "#333333");
      }
    }
  }
  const double width = blocks * across + (blocks - 1) * kApart;
  for (size_t i = 0; i < notes.size(); ++i) {
    figure.label(without_markup(notes[i]), width / 2, -below - 0.3 - 0.25 * static_cast<double>(i),
                 "#333333");
  }
  figure.x_range(-0.9, width + 0.2);
  figure.y_range(-below - 0.4 - 0.25 * static_cast<double>(notes.size()), 0.9);
  figure.bare().save(folder, name);
}

}  // namespace tutorial
