#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <hero/core/io/printable.h>
#include <hero/nn/training/report/series.h>

namespace hero::nn {

void ReportSeries::add(int64_t step, double value) {
  last_ = value;
  if (!std::isfinite(value)) {
    if (no_numbers_++ == 0) first_no_number_ = step;
    return;
  }
  if (points_.empty() || points_.back().count >= per_point_) {
    points_.push_back({step, 1, value, value, value});
  } else {
    Point& point = points_.back();
    point.step = step;
    ++point.count;
    point.least = std::min(point.least, value);
    point.largest = std::max(point.largest, value);
    point.sum += value;
  }
  if (points_.size() < kMost || points_.back().count < per_point_) return;
  for (size_t i = 0; i < kMost / 2; ++i) {
    const Point &a = points_[2 * i], &b = points_[2 * i + 1];
    points_[i] = {b.step, a.count + b.count, std::min(a.least, b.least),
                  std::max(a.largest, b.largest), a.sum + b.sum};
  }
  points_.resize(kMost / 2);
  per_point_ *= 2;
}

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : utf8_text(text)) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

namespace {

constexpr double kWidth = 640, kHeight = 240, kLeft = 62, kRight = 12, kTop = 12, kBottom = 30;

// What part of the plane a chart shows.
struct Frame {
  double first = 0.0, last = 1.0, low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();

  explicit Frame(const std::vector<ReportLine>& lines) {
    double begin = std::numeric_limits<double>::infinity(), end = 0.0;
    for (const ReportLine& line : lines) {
      for (const ReportSeries::Point& point : line.series->points()) {
        begin = std::min(begin, static_cast<double>(point.step));
        end = std::max(end, static_cast<double>(point.step));
        low = std::min(low, point.least);
        high = std::max(high, point.largest);
      }
    }
    if (low > high) low = 0.0, high = 1.0, begin = 0.0;
    if (low == high) low -= 0.5 * std::max(std::abs(low), 1e-12), high = 2 * high - low;
    first = begin;
    last = end > begin ? end : begin + 1;
  }
  double x(double step) const {
    return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kTop + (high - value) / (high - low) * (kHeight - kTop - kBottom);
  }
};

std::string at(double x, double y) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f,%.1f ", x, y);
  return text;
}

// A grid line at 1, 2 or 5 times a power of ten, about four of them.
std::string grid(const Frame& frame) {
  std::string svg;
  const double span = frame.high - frame.low;
  double width = std::pow(10.0, std::floor(std::log10(span / 4)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (span / width > 5.5) width *= factor;
  }
  char text[256];
  for (double value = std::ceil(frame.low / width) * width; value <= frame.high; value += width) {
    const double y = frame.y(value), shown = std::abs(value) < width / 1e6 ? 0.0 : value;
    std::snprintf(text, sizeof text,
                  "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                  "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                  kLeft, kWidth - kRight, y, y, kLeft - 6, y + 5, short_number(shown).c_str());
    svg += text;
  }
  std::snprintf(text, sizeof text,
                "<text x=\"%.0f\" y=\"%.0f\">step %.0f</text>"
                "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%.0f</text>",
                kLeft, kHeight - 8, frame.first, kWidth - kRight, kHeight - 8, frame.last);
  return svg + text;
}

std::string curve(const Frame& frame, const ReportSeries& series, size_t number) {
  std::string band, back, mean;
  const auto& points = series.points();
  const bool merged =
      std::any_of(points.begin(), points.end(), [](const auto& p) { return p.largest > p.least; });
  for (const auto& point : points) {
    const double x = frame.x(static_cast<double>(point.step));
    mean += at(x, frame.y(point.mean()));
    if (!merged) continue;
    band += at(x, frame.y(point.largest));
    back = at(x, frame.y(point.least)) + back;
  }
  const std::string colour = " c" + std::to_string(number % 6);
  std::string svg;
  if (merged) svg = "<polygon class=\"band" + colour + "\" points=\"" + band + back + "\"/>";
  if (points.size() == 1) {
    const auto& p = points.front();
    char text[96];
    std::snprintf(text, sizeof text, "\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>",
                  frame.x(static_cast<double>(p.step)), frame.y(p.mean()));
    return svg + "<circle class=\"dot" + colour + text;
  }
  return svg + "<polyline class=\"line" + colour + "\" points=\"" + mean + "\"/>";
}

std::string number_rows(const std::vector<ReportLine>& lines) {
  std::string rows =
      "<tr><th>line</th><th>step</th><th>least</th><th>mean</th><th>largest</th></tr>";
  constexpr size_t kRows = 20;
  for (const ReportLine& line : lines) {
    const auto& points = line.series->points();
    const size_t stride = std::max<size_t>(1, (points.size() + kRows - 1) / kRows);
    for (size_t i = stride - 1; i < points.size(); i += stride) {
      rows += "<tr><td>" + html_text(line.name) + "</td><td>" + std::to_string(points[i].step) +
              "</td><td>" + short_number(points[i].least) + "</td><td>" +
              short_number(points[i].mean()) + "</td><td>" + short_number(points[i].largest) +
              "</td></tr>\n";
    }
  }
  return rows;
}

}  // namespace

std::string chart_html(const std::string& title, const std::vector<ReportLine>& lines) {
  const Frame frame(lines);
  std::string html = "<section><h2>" + html_text(title) + "</h2>\n<p class=\"legend\">";
  for (size_t i = 0; i < lines.size(); ++i) {
    const ReportSeries& series = *lines[i].series;
    html += "<span><i class=\"c" + std::to_string(i % 6) + "\"></i>" + html_text(lines[i].name) +
            " <b>" + short_number(series.last()) + "</b></span> ";
    if (series.no_numbers() > 0) {
      html += "<span class=\"bad\">NaN or infinite: " + std::to_string(series.no_numbers()) +
              ", first at step " + std::to_string(series.first_no_number()) + "</span> ";
    }
  }
  char box[64];
  std::snprintf(box, sizeof box, "viewBox=\"0 0 %.0f %.0f\"", kWidth, kHeight);
  html += "</p>\n<svg " + std::string(box) + " role=\"img\" aria-label=\"" + html_text(title) +
          " over steps\">" + grid(frame);
  for (size_t i = 0; i < lines.size(); ++i) html += curve(frame, *lines[i].series, i);
  html += "</svg>\n<details><summary>numbers</summary><table>" + number_rows(lines) +
          "</table></details></section>\n";
  return html;
}

}  // namespace hero::nn
