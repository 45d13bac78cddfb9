#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/nn/training/progress.h>

namespace hero::nn {
namespace {

constexpr int kColumns = 80;  // of a terminal that does not tell
constexpr const char* kErase = "\r\033[K";

double steady_seconds() {
  using std::chrono::duration, std::chrono::steady_clock;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void write_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int value = columns != nullptr ? std::atoi(columns) : 0;
  return value > 0 ? value : kColumns;
}

ProgressStyle detected_style() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) != 0 && !dumb ? ProgressStyle::terminal : ProgressStyle::lines;
}

std::string format(const char* form, double value) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), form, value);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace

std::string duration_text(double seconds) {
  const auto all = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 3.6e9)));
  const auto two = [](int64_t value) {
    std::string digits(value < 10 ? 1 : 0, '0');
    return digits.append(std::to_string(value));
  };
  const int64_t hours = all / 3600, minutes = all / 60 % 60;
  std::string text = hours > 0 ? std::to_string(hours) : std::to_string(minutes);
  if (hours > 0) text.append(":").append(two(minutes));
  return text.append(":").append(two(all % 60));
}

std::string quantity_text(double value) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::fabs(value) < 999.95) break;
    value /= 1000.0;
    suffix = next;
  }
  return format("%.4g", value) + suffix;
}

Progress::Progress(const ProgressOptions& options)
    : options_(options), step_(options.start), shown_step_(options.start) {
  check(options.every > 0, "progress: steps between lines must be 1 or more: ", options.every);
  if (!options_.now) options_.now = steady_seconds;
  if (!options_.write) options_.write = write_stderr;
  if (!options_.columns) options_.columns = terminal_columns;
  if (options_.style == ProgressStyle::automatic) options_.style = detected_style();
  began_ = options_.now();
  marks_.push_back({began_, options_.start});
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {  // a message that cannot be written is no reason to end a program
  }
}

// Steps a second between the oldest mark and now.
double Progress::rate(double now) const {
  const double seconds = now - marks_.front().time;
  const int64_t steps = step_ - marks_.front().step;
  return seconds > 0.0 && steps > 0 ? static_cast<double>(steps) / seconds : 0.0;
}

std::string Progress::text(double now) const {
  std::string line = "step ";
  line.append(std::to_string(step_));
  if (options_.total > 0) {
    const int64_t percent = 100 * std::min(step_, options_.total) / options_.total;
    line.append("/").append(std::to_string(options_.total)).append("  ");
    line.append(std::to_string(percent)).append("%");
  }
  for (const Metric& metric : metrics_) {
    line.append("  ").append(metric.name).append(" ").append(format("%.4g", metric.value));
  }
  const double per_second = rate(now);
  if (per_second == 0.0) return line;
  line.append("  ").append(quantity_text(per_second * options_.per_step));
  line.append(" ").append(options_.unit).append("s/s");
  if (step_ >= options_.total) return line + "  " + duration_text(now - began_);
  const double left = static_cast<double>(options_.total - step_) / per_second;
  return line + "  " + duration_text(left) + " left";
}

void Progress::show(double now) {
  std::string line = text(now);
  if (options_.style == ProgressStyle::terminal) {
    // the last column stays free: a full line would wrap on some terminals
    const auto width = static_cast<size_t>(std::max(1, options_.columns() - 1));
    options_.write(kErase + line.substr(0, width));
    on_screen_ = true;
  } else {
    options_.write(line + "\n");
  }
  shown_step_ = step_;
  shown_at_ = now;
  due_ = false;
}

void Progress::update(int64_t step, std::span<const Metric> metrics) {
  if (options_.style == ProgressStyle::silent) return;
  const double now = options_.now();
  metrics_.assign(metrics.begin(), metrics.end());
  step_ = step;
  if (options_.style == ProgressStyle::terminal) {
    if (!due_ && now - shown_at_ < options_.interval) return;
  } else if (step_ / options_.every == shown_step_ / options_.every) {
    return;
  }
  // of the marks before the window one is kept, so that it is covered
  while (marks_.size() > 1 && marks_[1].time <= now - options_.window) marks_.pop_front();
  show(now);
  marks_.push_back({now, step_});
}

void Progress::clear() {
  if (!on_screen_) return;
  options_.write(kErase);
  on_screen_ = false;
  due_ = true;
}

void Progress::finish() {
  if (options_.style == ProgressStyle::silent) return;
  if (step_ != shown_step_) show(options_.now());
  if (on_screen_) options_.write("\n");
  on_screen_ = false;
}

}  // namespace hero::nn
