#pragma once
// Report: a training run as one page that any browser opens, also while the run goes on.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include <hero/autograd/tensor.h>
#include <hero/nn/training/metric.h>

namespace hero::nn {

struct ReportOptions {
  std::string title = "Training run";
  double every = 5.0;                ///< seconds: the file is not written more often while it runs
  std::function<double()> now = {};  ///< seconds since 1970; empty: the system's clock
  std::string unit = "step";         ///< what the rate counts: "image", "token"
  double per_step = 1.0;             ///< how many of them a step has
};

/// Writes one HTML file without scripts that needs no network: its state, the charts of what
/// write() was given, the memory that the thread's ledger held by tag, steps (or images, or tokens)
/// a second, samples and pictures, what was configured, and versions. A browser reads it anew every
/// ten seconds while the run goes on. It is light or dark as the browser's page, and each chart has
/// its numbers as a table.
///
///   nn::Report report("run.html", {.title = "GPT"});
///   report.configure("rate", "3e-4");
///   ...
///   report.write(step, {{"train/loss", loss}, {"train/lr", lr}});  // as a MetricsWriter
///   report.finish();
///
/// "train/loss" and "val/loss" are two lines of the chart "loss". A series keeps at most 1024
/// points; of longer ones a point stands for several steps and has their least, largest and mean
/// value, so without pictures the file stays below a megabyte. What is no number is counted and
/// shown as such.
///
/// The file is replaced as a whole or not at all. An Error where it cannot be written at first;
/// later, so that a full disk ends no training, one line on stderr. One thread at a time.
class Report {
 public:
  explicit Report(std::string path, const ReportOptions& options = {});
  /// A run that neither finished nor failed is shown as stopped.
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// A line of the configuration; a key that is there is overwritten.
  void configure(const std::string& key, const std::string& value);
  /// step >= 0, and never below the last one.
  void write(int64_t step, std::span<const Metric> metrics);
  void write(int64_t step, std::initializer_list<Metric> metrics) {
    write(step, std::span(metrics.begin(), metrics.size()));
  }
  /// Text that the model wrote; the last eight are shown.
  void sample(const std::string& title, const std::string& text);
  /// A picture of shape [H, W], [1, H, W] or [3, H, W]: floating from 0 to 1, beyond which it is
  /// cut off, or uint8; the last 32 are shown. An Error for other shapes and dtypes, and above
  /// 65536 pixels.
  void image(const std::string& title, const Tensor& picture);
  /// The run has come to its end, or to an error; the file is written at once.
  void finish();
  void fail(const std::string& error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::nn
