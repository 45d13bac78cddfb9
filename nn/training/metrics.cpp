#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/io/printable.h>
#include <hero/core/json/json.h>
#include <hero/nn/training/append_file.h>
#include <hero/nn/training/event_file.h>
#include <hero/nn/training/folder_lock.h>
#include <hero/nn/training/metrics.h>
#include <hero/nn/training/metrics_lines.h>

namespace hero::nn {
namespace {

namespace fs = std::filesystem;
using core::JSON;

constexpr const char* kEventPrefix = "events.out.tfevents.";

double system_seconds() {
  using std::chrono::duration, std::chrono::system_clock;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::string number_text(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string quoted(const std::string& name) { return core::json_dump(JSON(name), "metrics"); }

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(kEventPrefix)) files.push_back((fs::path(folder) / name).string());
  }
  return files;
}

void replace_file(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

void say_torn(const std::string& path, size_t bytes) {
  const std::string line = "metrics: " + path + " ended with " + std::to_string(bytes) +
                           " bytes of a record that was not written whole; they were cut off";
  std::fprintf(stderr, "%s\n", printable(line).c_str());
}

void keep_lines(const std::string& path, int64_t last) {
  if (!path_exists(path)) return;
  const std::string text = read_text(path);
  const KeptLines kept = kept_lines(text, last, path);
  if (kept.torn_bytes > 0) say_torn(path, kept.torn_bytes);
  if (kept.text != text) replace_file(path, kept.text);
}

void keep_events(const std::string& path, int64_t last) {
  const std::string bytes = read_text(path);
  std::string kept;
  size_t whole = 0;
  for (const EventRecord& record : read_event_records(bytes)) {
    whole += record.bytes.size();
    if (record.step <= last) kept += record.bytes;
  }
  if (whole < bytes.size()) say_torn(path, bytes.size() - whole);
  if (kept != bytes) replace_file(path, kept);
}

// Two writers of one process and second differ in the last number.
AppendFile new_event_file(const std::string& folder, double now) {
  const std::string stem = (fs::path(folder) / kEventPrefix).string() +
                           std::to_string(static_cast<int64_t>(now)) + "." + host_name() + "." +
                           std::to_string(::getpid()) + ".";
  int n = 0;
  while (path_exists(stem + std::to_string(n))) ++n;
  return {stem + std::to_string(n), AppendFile::Mode::new_file};
}

// JSON and TensorBoard's files have names of UTF-8.
std::vector<Metric> with_utf8_names(std::span<const Metric> metrics) {
  std::vector<Metric> named(metrics.begin(), metrics.end());
  for (Metric& metric : named) metric.name = utf8_text(metric.name);
  return named;
}

void check_metrics(int64_t step, std::span<const Metric> metrics) {
  check(step >= 0, "metrics: a step is 0 or more: ", step);
  for (size_t i = 0; i < metrics.size(); ++i) {
    const std::string& name = metrics[i].name;
    check(!name.empty() && name != "step" && name != "time", "metrics: a metric cannot be called '",
          core::cut_text(name), "'");
    for (size_t j = 0; j < i; ++j) {
      check(metrics[j].name != name, "metrics: '", core::cut_text(name),
            "' is given twice for step ", step);
    }
  }
}

}  // namespace

struct MetricsWriter::Files {
  std::shared_ptr<FolderLock> lock;
  AppendFile lines;
  std::optional<AppendFile> events;
};

MetricsWriter::MetricsWriter(const std::string& folder, const MetricsOptions& options)
    : now_(options.now ? options.now : system_seconds) {
  check(!options.resumed_step || *options.resumed_step >= 0,
        "metrics: resumed_step is the step of a checkpoint, 0 or more: ",
        options.resumed_step.value_or(0),
        "; leave it absent for a new run, as the result of resume() is then");
  make_folders("metrics", folder);
  std::shared_ptr<FolderLock> lock = FolderLock::take("metrics", folder, options.patience_seconds);
  const std::string path = (fs::path(folder) / "metrics.jsonl").string();
  const std::vector<std::string> old_events = event_files(folder);
  if (options.resumed_step) {
    keep_lines(path, *options.resumed_step);
    for (const std::string& file : old_events) keep_events(file, *options.resumed_step);
  } else {
    check(!path_exists(path) && old_events.empty(), "metrics: ", folder,
          " holds the metrics of another run; resume it, or choose another folder");
  }
  files_ =
      std::make_unique<Files>(Files{std::move(lock), {path, AppendFile::Mode::any}, std::nullopt});
  if (!options.tensorboard) return;
  const double now = now_();
  files_->events.emplace(new_event_file(folder, now));
  files_->events->append(event_file_version(now));
  if (options.resumed_step) {
    files_->events->append(event_restart(now, *options.resumed_step + 1));
  }
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(int64_t step, std::span<const Metric> given) {
  const std::vector<Metric> metrics = with_utf8_names(given);
  check_metrics(step, metrics);
  const double now = now_();
  std::array<char, 32> time{};
  const char* end =
      std::to_chars(time.data(), time.data() + time.size(), now, std::chars_format::fixed, 6).ptr;
  std::string line = "{\"step\":" + std::to_string(step) + ",\"time\":";
  line.append(time.data(), static_cast<size_t>(end - time.data()));
  for (const Metric& metric : metrics) {
    line.append(",").append(quoted(metric.name)).append(":").append(number_text(metric.value));
  }
  const uint64_t before = files_->lines.size();
  files_->lines.append(line + "}\n");
  if (!files_->events) return;
  try {
    files_->events->append(event_scalars(now, step, metrics));
  } catch (...) {
    files_->lines.cut_back(before);  // both have the record or none
    throw;
  }
}

}  // namespace hero::nn
