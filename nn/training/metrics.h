#pragma once
// MetricsWriter: writes what a run measures, as JSON lines and for TensorBoard.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <hero/nn/training/metric.h>

namespace hero::nn {

/// Options of MetricsWriter.
struct MetricsOptions {
  /// Absent for a new run, whose folder must have no metrics yet. Otherwise the step of the
  /// checkpoint that the run resumes from (0: the start), as Checkpointer::resume() returns it; all
  /// lines of later steps are dropped. A negative one is an Error, and nothing is dropped.
  std::optional<int64_t> resumed_step = std::nullopt;
  bool tensorboard = true;           ///< true: write event files beside metrics.jsonl
  std::function<double()> now = {};  ///< seconds since 1970; empty: the system's clock
  /// Seconds to wait for another process that writes to the folder.
  double patience_seconds = 5.0;
};

/// Writes `folder`/metrics.jsonl, with one object per line:
///   {"step":100,"time":1764000000.25,"train/loss":0.5}
/// and folder/events.out.tfevents.TIME.HOST.PID.N, which `tensorboard --logdir` shows. JSON has no
/// NaN, so NaN and the infinities are written as the strings "NaN", "Infinity" and "-Infinity",
/// which Python's float() and JavaScript's Number() can read. Lines have been handed to the system
/// when write() returns, so a killed process loses none. A line that does not fit on the disk is an
/// Error, which leaves the lines before it intact; a line that was torn when the machine stopped is
/// removed, with a message on stderr, when the run resumes. Only one process at a time writes to a
/// folder; the lock (`folder`/LOCK) is that of the Checkpointer.
/// \snippet test_examples_networks.cpp MetricsWriter
class MetricsWriter {
 public:
  /// Opens the files in `folder`, which is created if it is missing.
  explicit MetricsWriter(const std::string& folder, const MetricsOptions& options = {});
  ~MetricsWriter();

  /// Writes one line and one event. The step is 0 or more; the names differ from each other and
  /// from "step" and "time", and bytes in them that are no UTF-8 are written as escapes ("\\xff").
  /// A step may have several lines, such as one of training and one of validation, and steps may
  /// come in any order: lines and events are in that of the calls, and a run that resumes keeps
  /// those of its step and before, wherever they are.
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
