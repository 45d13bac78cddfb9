// Tables of a profile.
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/core/error.h>

namespace hero {

namespace {

using Line = std::vector<std::string>;

template <class... Values>
std::string print(const char* format, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string seconds_text(double seconds) {
  if (seconds >= 100.0) return print("%.1f s", seconds);
  if (seconds >= 1.0) return print("%.3f s", seconds);
  if (seconds >= 1e-3) return print("%.3f ms", seconds * 1e3);
  return print("%.2f us", seconds * 1e6);
}

std::string flops_text(int64_t flops) {
  const auto f = static_cast<double>(flops);
  if (flops == 0) return "-";
  if (f >= 1e12) return print("%.2f T", f * 1e-12);
  if (f >= 1e9) return print("%.2f G", f * 1e-9);
  if (f >= 1e6) return print("%.2f M", f * 1e-6);
  return print("%.0f", f);
}

// The first `texts` columns to the left, numbers to the right.
std::string align(const std::vector<Line>& lines, size_t texts) {
  std::vector<size_t> width(lines[0].size());
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string all;
  for (const Line& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string gap(width[i] - line[i].size(), ' ');
      if (i > 0) row += "  ";
      row += i < texts ? line[i] + gap : gap + line[i];
    }
    row.erase(row.find_last_not_of(' ') + 1);
    all += row + "\n";
  }
  return all;
}

struct Columns {
  double wall, peak_flops;

  Line heads() const {
    Line line = {"self time", "share", "calls", "flops", "bytes", "GFLOP/s", "GB/s"};
    if (peak_flops > 0.0) line.insert(line.end(), {"MFU", "HFU"});
    return line;
  }
  // `recomputed`: how many of the row's flops a checkpoint computed again.
  Line of(const ProfileRow& row, int64_t recomputed) const {
    const double s = row.self_seconds;
    const auto rate = [&](int64_t count) {
      return count == 0 || s <= 0.0 ? "-" : print("%.2f", static_cast<double>(count) / s * 1e-9);
    };
    Line line = {seconds_text(s),
                 wall > 0.0 ? print("%.1f%%", 100.0 * s / wall) : "-",
                 row.calls == 0 ? "-" : std::to_string(row.calls),
                 flops_text(row.flops),
                 row.bytes == 0 ? "-" : bytes_text(row.bytes),
                 rate(row.flops),
                 rate(row.bytes)};
    if (peak_flops > 0.0) {
      for (const int64_t flops : {row.flops - recomputed, row.flops}) {
        const double part = s > 0.0 ? static_cast<double>(flops) / s / peak_flops : 0.0;
        line.push_back(flops == 0 ? "-" : print("%.1f%%", 100.0 * part));
      }
    }
    return line;
  }
};

void add_up(ProfileRow& sum, const ProfileRow& row) {
  sum.calls += row.calls;
  sum.self_seconds += row.self_seconds;
  sum.flops += row.flops;
  sum.bytes += row.bytes;
}

// Of the flops of each line: those of operations that checkpoints ran again.
std::vector<int64_t> recomputed_flops(const Profile& profile, const std::vector<ProfileRow>& lines,
                                      const ProfileTableOptions& options) {
  Profile again;
  for (const ProfileRow& row : profile.rows) {
    if (row.phase == ProfilePhase::recompute) again.rows.push_back(row);
  }
  using Key = std::tuple<std::string, std::string, ProfilePhase>;
  std::map<Key, int64_t> found;
  for (const ProfileRow& row : again.sums(options.by, options.depth)) {
    found[{row.name, row.module, row.phase}] = row.flops;
  }
  std::vector<int64_t> flops;
  for (const ProfileRow& row : lines) flops.push_back(found[{row.name, row.module, row.phase}]);
  return flops;
}

std::string sums_table(const Profile& profile, const ProfileTableOptions& options) {
  const bool modules = options.by == ProfileBy::module;
  const Columns columns{profile.seconds, options.peak_flops};
  std::vector<Line> lines = {modules ? Line{"module"} : Line{"operation", "phase"}};
  const auto add = [&](Line line, const Line& numbers) {
    line.insert(line.end(), numbers.begin(), numbers.end());
    lines.push_back(std::move(line));
  };
  const Line heads = columns.heads();
  lines[0].insert(lines[0].end(), heads.begin(), heads.end());
  const auto beside = [&](const std::string& text) {
    return modules ? Line{text} : Line{text, ""};
  };
  const std::vector<ProfileRow> rows = profile.sums(options.by, options.depth);
  const std::vector<int64_t> recomputed = recomputed_flops(profile, rows, options);
  ProfileRow others, total;
  int64_t recomputed_others = 0, recomputed_total = 0;
  const auto shown = std::min(rows.size(), static_cast<size_t>(options.rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    const ProfileRow& row = rows[i];
    add_up(total, row);
    recomputed_total += recomputed[i];
    if (i >= shown) {
      add_up(others, row);
      recomputed_others += recomputed[i];
      continue;
    }
    add(modules ? Line{row.module.empty() ? "(no module)" : row.module}
                : Line{row.name, name(row.phase)},
        columns.of(row, recomputed[i]));
  }
  const size_t hidden = rows.size() - shown;
  if (hidden > 0) {
    add(beside("(" + std::to_string(hidden) + " others)"), columns.of(others, recomputed_others));
  }
  ProfileRow elsewhere;
  elsewhere.self_seconds = std::max(0.0, profile.seconds - total.self_seconds);
  add(beside("(elsewhere)"), columns.of(elsewhere, 0));
  total.self_seconds = profile.seconds;
  add(beside("all"), columns.of(total, recomputed_total));
  return align(lines, modules ? 1 : 2);
}

std::string collectives_table(const Profile& profile, const ProfileTableOptions& options) {
  std::vector<ProfileCollective> sorted = profile.collectives;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.waited > b.waited; });
  std::vector<Line> lines = {
      {"operation", "axis", "unit", "calls", "sent", "under way", "waited", "share"}};
  ProfileCollective others, total;
  int shown = 0, hidden = 0;
  const auto add_to = [](ProfileCollective& sum, const ProfileCollective& c) {
    sum.calls += c.calls;
    sum.bytes += c.bytes;
    sum.seconds += c.seconds;
    sum.waited += c.waited;
  };
  const auto add = [&](const ProfileCollective& c) {
    const double share = profile.seconds > 0.0 ? 100.0 * c.waited / profile.seconds : 0.0;
    lines.push_back({c.op, c.axis, c.unit.empty() && !c.axis.empty() ? "-" : c.unit,
                     std::to_string(c.calls), bytes_text(c.bytes), seconds_text(c.seconds),
                     seconds_text(c.waited), print("%.1f%%", share)});
  };
  for (const ProfileCollective& c : sorted) {
    add_to(total, c);
    if (shown == options.rows) {
      add_to(others, c);
      ++hidden;
      continue;
    }
    ++shown;
    add(c);
  }
  others.op = "(" + std::to_string(hidden) + " others)";
  if (hidden > 0) add(others);
  total.op = "all";
  add(total);
  return align(lines, 3);
}

}  // namespace

std::string Profile::table(const ProfileTableOptions& options) const {
  check(options.rows >= 1, "profile: a table has at least one line: rows ", options.rows);
  check(options.peak_flops >= 0.0,
        "profile: peak_flops is a rate, 0 where it is not known: ", options.peak_flops);
  return options.by == ProfileBy::collective ? collectives_table(*this, options)
                                             : sums_table(*this, options);
}

}  // namespace hero
