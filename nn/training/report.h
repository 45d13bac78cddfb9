#pragma once
// Report: a training run as one page that any browser opens, also while the run is going on.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include <hero/autograd/tensor.h>
#include <hero/nn/training/metric.h>

namespace hero::nn {

/// Options of Report.
struct ReportOptions {
  std::string title = "Training run";  ///< heading of the page
  double every = 5.0;                  ///< seconds between two writings of the file, at least
  std::function<double()> now = {};    ///< seconds since 1970; empty: the system's clock
  std::string unit = "step";           ///< what the rate counts: "image", "token"
  double per_step = 1.0;               ///< how many of these units a step has
};

/// Writes one HTML file without scripts, which needs no network. It shows the run's state, charts
/// of what write() was given, the memory in the thread's ledger by tag, steps (or images, or
/// tokens) per second, samples and pictures, the configuration, and versions. While the run is
/// going on, a browser reloads it every ten seconds. It is light or dark as the browser asks, and
/// each chart has its numbers as a table.
///
///   nn::Report report("run.html", {.title = "GPT"});
///   report.configure("rate", "3e-4");
///   ...
///   report.write(step, {{"train/loss", loss}, {"train/lr", lr}});  // as a MetricsWriter
///   report.finish();
///
/// "train/loss" and "val/loss" are two lines of the chart "loss". A series keeps at most 1024
/// points; in longer series a point stands for several steps and has their smallest, largest and
/// mean value, so without pictures the file stays below a megabyte. Values that are NaN are counted
/// and shown as such.
///
/// The file is replaced as a whole or not at all. If it cannot be written at first, that is an
/// Error; later it is one line on stderr, so that a full disk does not end the training. Use a
/// report from one thread at a time.
class Report {
 public:
  /// Begins a report in the file `path`, which is written at once.
  explicit Report(std::string path, const ReportOptions& options = {});
  /// Writes the file once more; a run that neither finished nor failed is shown as stopped.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// Sets a line of the configuration; a key that exists is overwritten.
  void configure(const std::string& key, const std::string& value);
  /// Adds values to the charts. The step is 0 or more, and never below the last one.
  void write(int64_t step, std::span<const Metric> metrics);
  void write(int64_t step, std::initializer_list<Metric> metrics) {
    write(step, std::span(metrics.begin(), metrics.size()));
  }
  /// Adds a text that the model generated; the last eight are shown.
  void sample(const std::string& title, const std::string& text);
  /// Adds a picture of shape [H, W], [1, H, W] or [3, H, W]: floating from 0 to 1, to which it is
  /// clamped, or uint8; the last 32 are shown. Throws an Error for other shapes and dtypes, and for
  /// more than 65536 pixels.
  void image(const std::string& title, const Tensor& picture);
  /// Says that the run has finished, or failed with an error; the file is written at once.
  void finish();
  void fail(const std::string& error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::nn
