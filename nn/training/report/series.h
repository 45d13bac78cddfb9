#pragma once
// Numbers over steps, in bounded memory; for the report.
#include <cstdint>
#include <string>
#include <vector>

namespace hero::nn {

/// Points of a curve. When there are kMost of them, every two neighbours are merged into one.
class ReportSeries {
 public:
  static constexpr size_t kMost = 1024;

  struct Point {
    int64_t step = 0;  ///< the last one
    int64_t count = 0;
    double least = 0.0, largest = 0.0, sum = 0.0;
    double mean() const { return sum / static_cast<double>(count); }
  };

  void add(int64_t step, double value);
  const std::vector<Point>& points() const { return points_; }
  double last() const { return last_; }
  int64_t no_numbers() const { return no_numbers_; }  ///< NaN and infinities, which have no point
  int64_t first_no_number() const { return first_no_number_; }  ///< the step of the first

 private:
  std::vector<Point> points_;
  int64_t per_point_ = 1;
  double last_ = 0.0;
  int64_t no_numbers_ = 0, first_no_number_ = -1;
};

/// A line of a chart.
struct ReportLine {
  std::string name;
  const ReportSeries* series;
};

/// `text` with the special characters of HTML escaped.
std::string html_text(const std::string& text);
/// "0.00125", "1.2e+09": four digits.
std::string short_number(double value);
/// The chart of some lines over steps as an SVG element, and their numbers as a table.
std::string chart_html(const std::string& title, const std::vector<ReportLine>& lines);

}  // namespace hero::nn
