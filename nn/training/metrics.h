#pragma once
// MetricsWriter: what a run measures, as JSON lines and for TensorBoard.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <hero/nn/training/metric.h>

namespace hero::nn {

struct MetricsOptions {
  /// Absent: a new run, and the folder must hold no metrics. Else the step of the checkpoint that
  /// the run goes on from (0: from the start): what was written beyond it is dropped.
  std::optional<int64_t> resumed_step = std::nullopt;
  bool tensorboard = true;           ///< event files beside metrics.jsonl
  std::function<double()> now = {};  ///< seconds since 1970; empty: the system's clock
  /// How long to wait for another process that writes to the folder.
  double patience_seconds = 5.0;
};

/// Writes `folder`/metrics.jsonl, one object a line:
///   {"step":100,"time":1764000000.25,"train/loss":0.5}
/// and folder/events.out.tfevents.TIME.HOST.PID.N, which `tensorboard --logdir` shows.
/// JSON has no NaN: it and the infinities are the strings "NaN", "Infinity" and "-Infinity", which
/// Python's float() and JavaScript's Number() read. Lines are with the system when write() returns,
/// so a killed process loses none; a line that does not fit on the disk is an Error and leaves the
/// lines before it, and one that was torn when the machine stopped is cut off, with a word on
/// stderr, when the run goes on. One process writes to a folder at a time: its lock
/// (`folder`/LOCK) is the Checkpointer's.
/// \snippet test_examples_networks.cpp MetricsWriter
class MetricsWriter {
 public:
  explicit MetricsWriter(const std::string& folder, const MetricsOptions& options = {});
  ~MetricsWriter();

  /// One line, one event: step >= 0, names that differ from each other, "step" and "time".
  void write(int64_t step, std::span<const Metric> metrics);
  void write(int64_t step, std::initializer_list<Metric> metrics) {
    write(step, std::span(metrics.begin(), metrics.size()));
  }

 private:
  struct Files;
  std::function<double()> now_;
  std::unique_ptr<Files> files_;
};

}  // namespace hero::nn
