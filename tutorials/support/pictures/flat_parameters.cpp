#include "support/pictures/flat_parameters.h"

#include <algorithm>
#include <cstdio>

#include "support/pictures/palette.h"

namespace tutorial {

namespace {

// gnuplot reads _ as the beginning of an index.
std::string without_index(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '_' ? std::string("\\_") : std::string(1, c);
  return out;
}

std::string kilobytes(int64_t numel) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", 4e-3 * static_cast<double>(numel));
  return text;
}

const char* rank_colour(size_t rank) { return kRankColours[rank % std::size(kRankColours)]; }

}  // namespace

void draw_flat_parameter(const std::string& title, const std::vector<InFlatParameter>& parameters,
                         const std::vector<int64_t>& counts, const std::string& folder,
                         const std::string& name) {
  Figure figure(title, "element of the flat parameter", "");
  int64_t length = 0;
  for (const int64_t count : counts) length += count;
  const double all = static_cast<double>(length);
  std::vector<const InFlatParameter*> narrow,
      last;  // those whose names do not fit, and which are at the end
  for (const InFlatParameter& p : parameters) {
    const double begin = static_cast<double>(p.begin), numel = static_cast<double>(p.numel);
    const size_t dot = p.name.rfind('.');
    const std::string first = p.name.substr(0, dot);
    const bool fit = fits(first, 600.0 * numel / all);
    std::string text = first;
    if (dot != std::string::npos) text += "\n" + p.name.substr(dot);
    figure.box(begin, 0.0, numel, 0.45, "#d0d8e0", fit ? without_index(text) : "");
    if (!fit) (begin > 0.8 * all ? last : narrow).push_back(&p);
  }
  // Their names stand above, each beside a line to its place and clear of the other lines.
  constexpr double kLine = 0.17;
  const auto name_above = [&](const InFlatParameter& p, size_t row, Align side) {
    const double x = static_cast<double>(p.begin) + static_cast<double>(p.numel) / 2;
    const double y = 0.6 + kLine * static_cast<double>(row);
    figure.box(x - 0.0016 * all, 0.47, 0.0032 * all, y - 0.42, "#aaaaaa");
    figure.label(without_index(p.name), x + (side == Align::left ? 0.012 : -0.012) * all, y,
                 "#555555", side);
  };
  for (size_t i = 0; i < narrow.size(); ++i) {
    name_above(*narrow[i], narrow.size() - 1 - i, Align::left);
  }
  for (size_t i = 0; i < last.size(); ++i) {
    name_above(*last[i], i + (narrow.empty() ? 0 : 1), Align::right);
  }
  const double top = 0.7 + kLine * static_cast<double>(std::max(narrow.size(), last.size()));
  double begin = 0.0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto count = static_cast<double>(counts[rank]);
    figure.box(begin, -0.7, count, 0.45, rank_colour(rank),
               "rank " + std::to_string(rank) + "\n" + std::to_string(counts[rank]));
    begin += count;
  }
  if (length > 9999) figure.x_ticks({});  // they would be too long to stand side by side
  figure.x_range(0, all).y_range(-0.85, top).y_ticks({});
  figure.height(200 + static_cast<int>(170 * (0.85 + top)));
  figure.save(folder, name);
}

void draw_units(const std::string& title, const std::vector<hero::dist::UnitInfo>& units, int ranks,
                const std::string& folder, const std::string& name) {
  Figure figure(title, "element of the flat parameter", "");
  double y = 0.0, longest = 0.0;
  for (const auto& unit : units) longest = std::max(longest, static_cast<double>(unit.flat_numel));
  for (const auto& unit : units) {
    std::string parameters;
    for (const std::string& p : unit.parameters) parameters += (parameters.empty() ? "" : ", ") + p;
    const auto part = static_cast<double>(unit.own.count);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string text = "rank " + std::to_string(rank);
      figure.box(part * rank, y - 0.8, part, 0.8, rank_colour(static_cast<size_t>(rank)),
                 fits(text, 600.0 * part / longest) ? text : "");
    }
    figure.label(unit.name + ", " + std::to_string(ranks) + " parts of " +
                     std::to_string(unit.own.count) + ":\n" + without_index(parameters),
                 0.01 * longest, y + 0.45, "#444444", Align::left);
    y -= 1.9;
  }
  figure.x_range(0, longest).y_range(y + 0.95, 0.95).y_ticks({}).save(folder, name);
}

void draw_buckets(const hero::nn::Module& net, const std::vector<std::string>& ready,
                  const std::vector<Buckets>& choices, const std::string& folder,
                  const std::string& name) {
  Figure figure("Gradients in the order of backward, and their buckets; the sizes are kB",
                "backward goes on →", "");
  std::vector<std::string> layers;
  const auto layer_of = [](const std::string& parameter) {
    return parameter.substr(0, parameter.rfind('.'));
  };
  for (const std::string& parameter : ready) {
    if (layers.empty() || layers.back() != layer_of(parameter)) {
      layers.push_back(layer_of(parameter));
    }
  }
  const auto at = [&](const std::string& parameter) {
    return static_cast<double>(std::find(layers.begin(), layers.end(), layer_of(parameter)) -
                               layers.begin());
  };
  const auto count = static_cast<double>(layers.size());
  const auto heading = [&](const std::string& text, double y) {
    figure.label(text, 0.03, y + 0.25, "#555555", Align::left);
  };
  heading("gradients", 0.0);
  for (size_t i = 0; i < layers.size(); ++i) {
    int64_t numel = 0;
    for (const auto& [parameter, p] : net.named_parameters()) {
      if (layer_of(parameter) == layers[i]) numel += p.numel();
    }
    figure.box(static_cast<double>(i) + 0.03, -0.9, 0.94, 0.9, "#d0d8e0",
               without_index(layers[i]) + "\n" + kilobytes(numel));
  }
  double y = -1.5;
  for (const Buckets& choice : choices) {
    heading("buckets: " + choice.sizes, y);
    for (size_t i = 0; i < choice.units.size(); ++i) {
      double first = count, last = 0.0;
      for (const std::string& parameter : choice.units[i].parameters) {
        first = std::min(first, at(parameter));
        last = std::max(last, at(parameter) + 1.0);
      }
      const bool fit = fits(choice.units[i].name, 600.0 * (last - first) / count);
      figure.box(first + 0.03, y - 0.9, last - first - 0.06, 0.9, rank_colour(i),
                 (fit ? choice.units[i].name : std::to_string(i)) + "\n" +
                     kilobytes(choice.units[i].numel));
    }
    y -= 1.5;
  }
  figure.x_range(0, count).y_range(y + 0.5, 0.5).x_ticks({}).y_ticks({});
  figure.height(640).save(folder, name);
}

}  // namespace tutorial
