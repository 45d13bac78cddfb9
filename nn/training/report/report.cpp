#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/ledger.h>
#include <hero/core/thread_pool.h>
#include <hero/core/version.h>
#include <hero/nn/training/report.h>
#include <hero/nn/training/report/picture.h>
#include <hero/nn/training/report/series.h>

namespace hero::nn {

namespace {

constexpr const char* kStyle = R"(
:root { --back: #ffffff; --text: #1b1f24; --pale: #57606a; --edge: #d0d7de; --good: #1a7f37;
  --bad: #b42318; --c0: #0b6cb5; --c1: #c2410c; --c2: #2c7a3f; --c3: #8a3ffc; --c4: #a0522d;
  --c5: #b0267a; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --text: #e6edf3; --pale: #9aa5b1;
  --edge: #3a434d; --good: #56d364; --bad: #ff7b72; --c0: #6cb6ff; --c1: #ffa657; --c2: #7ee787;
  --c3: #d2a8ff; --c4: #e0b084; --c5: #ff9bce; } }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin: 0 0 .3rem; font-size: 1.6rem; } h2 { font-size: 1.1rem; margin: 0 0 .3rem; }
h3 { font-size: .95rem; margin: .6rem 0 .2rem; color: var(--pale); }
.state { font-weight: 600; color: var(--good); } .state.bad, .bad { color: var(--bad); }
.grids { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr));
  gap: 1rem; margin: 1rem 0; }
section { border: 1px solid var(--edge); border-radius: 6px; padding: .8rem; min-width: 0; }
svg { width: 100%; height: auto; } svg text { fill: var(--pale); font-size: 16px; }
@media (max-width: 520px) { svg text { font-size: 20px; } }
.grid { stroke: var(--edge); } .line { fill: none; stroke-width: 2; } .band { opacity: .2; }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.band.c0, .dot.c0 { fill: var(--c0); } .band.c1, .dot.c1 { fill: var(--c1); }
.band.c2, .dot.c2 { fill: var(--c2); } .band.c3, .dot.c3 { fill: var(--c3); }
.band.c4, .dot.c4 { fill: var(--c4); } .band.c5, .dot.c5 { fill: var(--c5); }
.legend { margin: 0; color: var(--pale); } .legend span { margin-right: 1rem; display: inline-block; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .35rem; }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); }
i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); }
table { border-collapse: collapse; font-size: .9rem; } td, th { padding: .1rem .8rem .1rem 0;
  text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { overflow-wrap: break-word; }
summary { color: var(--pale); cursor: pointer; } details { overflow-x: auto; }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; }
figure { margin: 0; } figcaption { color: var(--pale); font-size: .85rem; max-width: 160px;
  overflow-wrap: anywhere; }
img { display: block; min-width: 84px; max-width: 100%; image-rendering: pixelated; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
)";

double report_clock() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string since_text(double seconds) {
  char text[48];
  const auto whole = static_cast<long long>(seconds);
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text;
}

std::string rows_of(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<table>";
  for (const auto& [key, value] : rows) {
    html += "<tr><th>" + html_text(key) + "</th><td>" + html_text(value) + "</td></tr>\n";
  }
  return html + "</table>";
}

}  // namespace

struct Report::State {
  std::string path;
  ReportOptions options;
  double begun = 0.0, written = 0.0;
  int64_t step = -1, first_step = -1;
  double last_time = 0.0;
  std::string status = "running", error = {};
  bool is_told = false;  // that it cannot be written any more
  std::vector<std::pair<std::string, std::string>> configured = {}, samples = {};
  std::vector<std::pair<std::string, std::string>> pictures = {};  // titles and data URLs
  std::vector<std::string> order = {};                             // of the series
  std::map<std::string, ReportSeries> series = {};

  double now() const { return options.now ? options.now() : report_clock(); }
  void add(const std::string& name, int64_t at, double value) {
    if (!series.contains(name)) order.push_back(name);
    series[name].add(at, value);
  }
  void note_memory();
  std::string charts() const;
  std::string shown_samples() const;
  std::string html() const;
  void put() const;
  void put_later(bool at_once);
};

void Report::State::note_memory() {
  const Ledger& ledger = current_ledger();
  for (int tag = 0; tag < kMemoryTagCount; ++tag) {
    const auto each = static_cast<MemoryTag>(tag);
    const double held = static_cast<double>(ledger.live(each)) / 1e6;
    const std::string key = std::string(name(each)) + "/memory, MB";
    if (held > 0.0 || series.contains(key)) add(key, step, held);
  }
}

// "train/loss" is a line of the chart "loss", in the order in which they came.
std::string Report::State::charts() const {
  std::vector<std::pair<std::string, std::vector<ReportLine>>> all;
  for (const std::string& name : order) {
    const size_t slash = name.rfind('/');
    const std::string title = slash == std::string::npos ? name : name.substr(slash + 1);
    const std::string line = slash == std::string::npos ? name : name.substr(0, slash);
    auto chart = std::find_if(all.begin(), all.end(), [&](auto& c) { return c.first == title; });
    if (chart == all.end()) chart = all.insert(all.end(), {title, {}});
    chart->second.push_back({line, &series.at(name)});
  }
  std::string html;
  for (const auto& [title, lines] : all) html += chart_html(title, lines);
  return html;
}

std::string Report::State::shown_samples() const {
  if (samples.empty() && pictures.empty()) return "";
  std::string html = "<section><h2>samples</h2>\n";
  for (const auto& [title, text] : samples) {
    html += "<h3>" + html_text(title) + "</h3><pre>" + html_text(text) + "</pre>\n";
  }
  if (!pictures.empty()) html += "<div class=\"pictures\">\n";
  for (const auto& [title, url] : pictures) {
    html += "<figure><img src=\"" + url + "\" alt=\"" + html_text(title) + "\"><figcaption>" +
            html_text(title) + "</figcaption></figure>\n";
  }
  if (!pictures.empty()) html += "</div>\n";
  return html + "</section>\n";
}

std::string Report::State::html() const {
  const bool runs = status == "running";
  const std::vector<std::pair<std::string, std::string>> machine = {
      {"Hero", kVersion},
      {"compiler", __VERSION__},
      {"threads", std::to_string(num_threads())},
      {"cores", std::to_string(std::thread::hardware_concurrency())}};
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  if (runs) page += "<meta http-equiv=\"refresh\" content=\"10\">\n";
  page += "<title>" + html_text(options.title) + "</title>\n<style>" + kStyle + "</style></head>\n";
  page += "<body><h1>" + html_text(options.title) + "</h1>\n<p><span class=\"state" +
          (runs || status == "finished" ? "" : " bad") + "\">" + status + "</span>, step " +
          std::to_string(std::max<int64_t>(step, 0)) + ", " + since_text(last_time - begun) +
          "</p>\n";
  if (!error.empty()) page += "<p class=\"bad\">" + html_text(error) + "</p>\n";
  page += "<div class=\"grids\">" + charts() + "</div>\n";
  page += shown_samples();
  page += "<div class=\"grids\"><section><h2>configuration</h2>" + rows_of(configured) +
          "</section>\n<section><h2>machine</h2>" + rows_of(machine) + "</section></div>\n";
  return page + "</body></html>\n";
}

void Report::State::put() const {
  OutputFile file(path);
  file.write(html());
  file.commit();
}

void Report::State::put_later(bool at_once) {
  const double time = now();
  if (!at_once && time - written < options.every) return;
  written = time;
  try {
    put();
  } catch (const Error& wrong) {
    if (!std::exchange(is_told, true)) {
      std::fprintf(stderr, "report: the run goes on without it: %s\n", wrong.what());
    }
  }
}

Report::Report(std::string path, const ReportOptions& options) : state_(std::make_unique<State>()) {
  check(options.every >= 0.0 && std::isfinite(options.every),
        "report: every is a number of seconds from 0 on: ", options.every);
  check(options.per_step > 0.0 && std::isfinite(options.per_step),
        "report: per_step must be above zero: ", options.per_step);
  state_->path = std::move(path);
  state_->options = options;
  state_->begun = state_->written = state_->last_time = state_->now();
  state_->put();
}

Report::~Report() {
  if (state_->status != "running") return;
  state_->status = "stopped";
  state_->put_later(true);
}

void Report::configure(const std::string& key, const std::string& value) {
  for (auto& [known, old] : state_->configured) {
    if (known == key) {
      old = value;
      return;
    }
  }
  state_->configured.emplace_back(key, value);
}

void Report::write(int64_t step, std::span<const Metric> metrics) {
  State& s = *state_;
  check(step >= 0 && step >= s.step, "report: step ", step, " comes after step ", s.step);
  const double time = s.now();
  const bool is_new = step > s.step;
  if (is_new && s.step >= 0 && time > s.last_time) {
    const double steps = static_cast<double>(step - s.step) / (time - s.last_time);
    s.add(s.options.unit + "s a second", step, s.options.per_step * steps);
  }
  s.step = step;
  s.last_time = time;
  for (const Metric& metric : metrics) s.add(metric.name, step, metric.value);
  if (is_new) s.note_memory();
  s.put_later(false);
}

void Report::sample(const std::string& title, const std::string& text) {
  constexpr size_t kMost = 8, kLongest = 4000;
  auto& samples = state_->samples;
  samples.emplace_back(title, core::cut_text(text, kLongest));
  if (samples.size() > kMost) samples.erase(samples.begin());
  state_->put_later(false);
}

void Report::image(const std::string& title, const Tensor& picture) {
  check(picture.defined(), "report: the picture '", core::cut_text(title), "' is undefined");
  const Shape& shape = picture.shape();
  const bool has_channels = shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
  check((shape.size() == 2 || has_channels) && picture.numel() > 0, "report: a picture of shape ",
        shape, "; it must be [H, W], [1, H, W] or [3, H, W]");
  check(is_floating(picture.dtype()) || picture.dtype() == kUInt8, "report: a picture of ",
        picture.dtype(), "; it must be floating or uint8");
  const int64_t channels = has_channels ? shape[0] : 1;
  ReportPicture made;
  made.width = shape.back();
  made.height = shape[shape.size() - 2];
  made.channels = channels;
  check(made.width * made.height <= 65536, "report: a picture of shape ", shape,
        " has more than 65536 pixels; scale it down");
  const double scale = picture.dtype() == kUInt8 ? 1.0 : 255.0;
  const std::vector<double> values = picture.detach().to(kCpu).to(kFloat64).to_vector<double>();
  const auto plane = static_cast<size_t>(made.width * made.height);
  for (size_t i = 0; i < plane; ++i) {
    for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel) {
      const double value = values[channel * plane + i] * scale;
      made.values.push_back(static_cast<uint8_t>(value >= 0.0 ? std::min(value, 255.0) + 0.5 : 0));
    }
  }
  constexpr size_t kMost = 32;
  auto& pictures = state_->pictures;
  pictures.emplace_back(title, data_url(png_of(made)));
  if (pictures.size() > kMost) pictures.erase(pictures.begin());
  state_->put_later(false);
}

void Report::finish() {
  state_->status = "finished";
  state_->put_later(true);
}

void Report::fail(const std::string& error) {
  state_->status = "failed";
  state_->error = error;
  state_->put_later(true);
}

}  // namespace hero::nn
