#include "support/pictures/exchanges.h"

#include <algorithm>
#include <sstream>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

namespace tutorial {

namespace {

// Ranks' numbers are ten times the rank and which one it is; others are sums.
const char* colour_of(const std::string& number, size_t ranks) {
  const auto origin = static_cast<size_t>(std::stoi(number)) / 10;
  return origin < ranks ? kRankColours[origin % std::size(kRankColours)] : "#d0d0d0";
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

struct Spot {
  double x, y;
};
struct Arrows {
  Values x, y, dx, dy;
};

// The sum of ranks begin to end - 1 above those of its two branches; where it stands.
Spot draw_branch(Figure& figure, Arrows& arrows, int begin, int end) {
  const bool one_host = begin / 2 == (end - 1) / 2;
  const char* const colour = one_host ? kRankColours[begin / 2] : "#d0d0d0";
  Spot here = {static_cast<double>(begin), 0.0};
  std::string text = "rank " + std::to_string(begin);
  if (end - begin > 1) {
    int p = 1;  // the largest power of two below their number
    while (2 * p < end - begin) p *= 2;
    const Spot left = draw_branch(figure, arrows, begin, begin + p);
    const Spot right = draw_branch(figure, arrows, begin + p, end);
    here = {(left.x + right.x) / 2, std::max(left.y, right.y) + 1.0};
    text = std::to_string(begin) + " to " + std::to_string(end - 1);
    for (const Spot& from : {left, right}) {
      const double to = here.x + (from.x < here.x ? -0.2 : 0.2);
      arrows.x.push_back(from.x), arrows.y.push_back(from.y + 0.2);
      arrows.dx.push_back(to - from.x), arrows.dy.push_back(here.y - from.y - 0.4);
    }
  }
  figure.box(here.x - 0.42, here.y - 0.2, 0.84, 0.4, colour, text);
  return here;
}

}  // namespace

void draw_tree(const std::string& folder) {
  constexpr int kRanks = 6;
  Figure figure("The sum of six ranks: each box above the ranks is the sum of the two below it", "",
                "");
  Arrows arrows;
  draw_branch(figure, arrows, 0, kRanks);
  figure.arrows("", arrows.x, arrows.y, arrows.dx, arrows.dy);
  figure.x_range(-0.5, kRanks - 0.5).y_range(-0.4, 3.4).bare().save(folder, "10_tree");
}

void draw_ring(const std::string& folder) {
  constexpr int kRanks = 4, kRounds = 2 * (kRanks - 1), kColumns = 4;
  const auto modulo = [](int i) { return static_cast<size_t>((i % kRanks + kRanks) % kRanks); };
  Figure figure("A ring: of how many ranks each part is the sum", "", "");
  std::vector<std::vector<int>> ranks(kRanks, std::vector<int>(kRanks, 1));  // [rank][part]
  const double width = kRanks + 1.2, height = kRanks + 1.4;
  for (int round = 0; round <= kRounds; ++round) {
    const bool adds = round < kRanks;
    const int column = round % kColumns, line = round / kColumns;
    const double x = width * column, top = -height * line;
    figure.label(round == 0 ? "at first" : "round " + std::to_string(round), x + kRanks / 2.0,
                 top + 0.45, "#111111");
    const auto before = ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      // the part that comes from the left: what that rank has received in the round before
      const size_t comes = modulo(rank - round);
      const auto row = static_cast<size_t>(rank);
      if (round > 0) {
        const int sent = before[modulo(rank - 1)][comes];
        ranks[row][comes] = adds ? before[row][comes] + sent : sent;
      }
      for (size_t part = 0; part < kRanks; ++part) {
        const bool came = round > 0 && part == comes;
        figure.box(x + static_cast<double>(part), top - rank - 0.9, 1.0, 0.85,
                   !came  ? kTransientColour
                   : adds ? kReduceColour
                          : kGatherColour,
                   std::to_string(ranks[row][part]));
      }
    }
  }
  figure.x_range(-0.1, kColumns * width - 1.1).y_range(1.2 - 2 * height, 1.0).height(440);
  figure.bare().save(folder, "10_ring");
}

void draw_exchanges(const std::vector<Exchange>& exchanges, const std::string& folder) {
  Figure figure(
      "What collectives make of the numbers of all ranks, a row for each: before and after", "",
      "");
  constexpr size_t kColumns = 2;
  const auto ranks = static_cast<double>(exchanges.front().before.size());
  const double between = 1.2;  // the arrow
  const double width = 2.0 * ranks + between + 0.8, height = ranks + 1.4;
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const size_t row = i / kColumns;
    const double x = width * static_cast<double>(i % kColumns);
    const double y = -height * static_cast<double>(row);
    figure.label(plain(exchanges[i].name), x + ranks + between / 2, y + 0.45, "#111111");
    draw_side(figure, exchanges[i].before, x, y);
    figure.label("→", x + ranks + between / 2, y - ranks / 2, "#555555");
    draw_side(figure, exchanges[i].after, x + ranks + between, y);
  }
  const size_t rows = (exchanges.size() + kColumns - 1) / kColumns;
  figure.x_range(-0.1, static_cast<double>(kColumns) * width - 0.7);
  figure.y_range(1.2 - height * static_cast<double>(rows), 1.0);
  figure.height(120 + static_cast<int>(32 * height) * static_cast<int>(rows));
  figure.bare().save(folder, "10_collectives");
}

}  // namespace tutorial
