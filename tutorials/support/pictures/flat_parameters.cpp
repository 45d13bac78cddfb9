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
  std::snprintf(text, sizeof text, numel < 250 ? "%.0f B" : "%.1f kB",
                numel < 250 ? 4.0 * static_cast<double>(numel) : 4e-3 * static_cast<double>(numel));
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
    const bool fits = static_cast<double>(p.name.size()) < 125.0 * numel / all;
    figure.box(begin, 0.0, numel, 0.45, "#d0d8e0", fits ? without_index(p.name) : "");
    if (!fits) (begin > 0.8 * all ? last : narrow).push_back(&p);
  }
  // Their names stand above, each beside a line to its place and clear of the other lines.
  const auto name_above = [&](const InFlatParameter& p, double y, double side) {
    const double x = static_cast<double>(p.begin) + static_cast<double>(p.numel) / 2;
    const double half = (0.0034 * static_cast<double>(p.name.size()) + 0.007) * all;
    figure.box(x - 0.0016 * all, 0.47, 0.0032 * all, y - 0.42, "#aaaaaa");
    figure.label(without_index(p.name), x + side * half, y, "#555555");
  };
  for (size_t i = 0; i < narrow.size(); ++i) {
    name_above(*narrow[i], 0.6 + 0.13 * static_cast<double>(narrow.size() - 1 - i), 1.0);
  }
  for (size_t i = 0; i < last.size(); ++i) {
    name_above(*last[i], 0.6 + 0.13 * static_cast<double>(i), -1.0);
  }
  const bool large = narrow.size() + last.size() < 2;  // more names would not fit
  const double top = 0.7 + 0.13 * static_cast<double>(std::max(narrow.size(), last.size()));
  double begin = 0.0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto count = static_cast<double>(counts[rank]);
    char text[64];
    if (large) std::snprintf(text, sizeof text, "rank %zu", rank);
    if (!large)
      std::snprintf(text, sizeof text, "rank %zu: %lld", rank,
                    static_cast<long long>(counts[rank]));
    figure.box(begin, -0.7, count, 0.45, rank_colour(rank), text);
    begin += count;
  }
  if (large) figure.large_type().x_ticks({});
  figure.x_range(0, all).y_range(-0.85, top);
  figure.y_ticks({{0.22, "parameters"}, {-0.48, "shards"}}).save(folder, name);
}

void draw_units(const std::string& title, const std::vector<hero::dist::UnitInfo>& units, int ranks,
                const std::string& folder, const std::string& name) {
  Figure figure(title, "element of the flat parameter", "");
  std::vector<Tick> lanes;
  double y = 0.0, longest = 0.0;
  for (const auto& unit : units) longest = std::max(longest, static_cast<double>(unit.flat_numel));
  for (const auto& unit : units) {
    std::string parameters;
    for (const std::string& p : unit.parameters) parameters += (parameters.empty() ? "" : ", ") + p;
    const auto part = static_cast<double>(unit.own.count);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string text = "rank " + std::to_string(rank);
      figure.box(part * rank, y - 0.6, part, 0.6, rank_colour(static_cast<size_t>(rank)),
                 part > 0.07 * longest ? text : "");
    }
    figure.label(without_index(parameters) + ": " + std::to_string(ranks) + " parts of " +
                     std::to_string(unit.own.count),
                 0.2 * longest, y + 0.16, "#444444");
    lanes.push_back({y - 0.3, unit.name});
    y -= 1.1;
  }
  figure.x_range(0, longest).y_range(y + 0.3, 0.4).y_ticks(lanes).save(folder, name);
}

void draw_buckets(const hero::nn::Module& net, const std::vector<std::string>& ready,
                  const std::vector<Buckets>& choices, const std::string& folder,
                  const std::string& name) {
  Figure figure("Gradients in the order of backward, and their buckets", "backward goes on →", "");
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
  std::vector<Tick> lanes = {{-0.45, "gradients"}};
  for (size_t i = 0; i < layers.size(); ++i) {
    int64_t numel = 0;
    for (const auto& [parameter, p] : net.named_parameters()) {
      if (layer_of(parameter) == layers[i]) numel += p.numel();
    }
    const auto x = static_cast<double>(i);
    figure.box(x + 0.03, -0.9, 0.94, 0.9, "#d0d8e0");
    figure.label(without_index(layers[i]), x + 0.5, -0.3, "#111111");
    figure.label(kilobytes(numel), x + 0.5, -0.6, "#444444");
  }
  double y = -1.4;
  for (const Buckets& choice : choices) {
    lanes.push_back({y - 0.45, choice.sizes});
    for (size_t i = 0; i < choice.units.size(); ++i) {
      double first = static_cast<double>(layers.size()), last = 0.0;
      for (const std::string& parameter : choice.units[i].parameters) {
        first = std::min(first, at(parameter));
        last = std::max(last, at(parameter) + 1.0);
      }
      figure.box(first + 0.03, y - 0.9, last - first - 0.06, 0.9, rank_colour(i));
      figure.label(choice.units[i].name, (first + last) / 2, y - 0.3, "#111111");
      figure.label(kilobytes(choice.units[i].numel), (first + last) / 2, y - 0.6, "#444444");
    }
    y -= 1.3;
  }
  figure.x_range(0, static_cast<double>(layers.size())).y_range(y + 0.2, 0.2).x_ticks({});
  figure.y_ticks(lanes).save(folder, name);
}

}  // namespace tutorial
