#pragma once
// Progress: shows how far a run is.
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <hero/nn/training/metric.h>

namespace hero::nn {

/// How Progress shows its line.
enum class ProgressStyle {
  automatic,  ///< terminal if stderr is one (and TERM is not "dumb"), else lines
  terminal,   ///< one line that is rewritten, cut to the terminal's width
  lines,      ///< a line every ProgressOptions::every steps and at the end
  silent      ///< nothing
};

/// Options of Progress.
struct ProgressOptions {
  int64_t total = 0;  ///< steps of the whole run; 0: unknown, so no time left is shown
  int64_t start = 0;  ///< steps that were done before a resumed run
  ProgressStyle style = ProgressStyle::automatic;  ///< how the line is shown
  int64_t every = 100;                             ///< steps between plain lines
  double interval = 0.1;      ///< seconds between two rewritings of the line, at least
  double window = 10.0;       ///< the rate is the mean of about this many last seconds
  std::string unit = "step";  ///< what the rate counts: "image", "token"
  double per_step = 1.0;      ///< how many of these units a step has

  /// \name For tests
  /// \{
  std::function<double()> now = {};  ///< seconds of a clock; empty: a steady clock
  /// Takes what is to be written; empty: stderr.
  std::function<void(const std::string&)> write = {};
  std::function<int()> columns = {};  ///< width of the terminal; empty: asks the terminal
  /// \}
};

/// step 500/4690  11%  loss 0.5321  lr 0.001  78.1k images/s  0:52 left
///
/// A line like this goes to stderr, so a program's own output on stdout is the same in every style.
/// Progress never throws.
class Progress {
 public:
  /// Begins to show progress.
  explicit Progress(const ProgressOptions& options);
  /// Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Says that `step` steps are done. Metrics are shown by name and value, in their order.
  void update(int64_t step, std::span<const Metric> metrics);
  void update(int64_t step, std::initializer_list<Metric> metrics = {}) {
    update(step, std::span(metrics.begin(), metrics.size()));
  }
  /// Removes the line from the terminal, so that other text can be printed; the next update shows
  /// it again at once.
  void clear();
  /// Shows the last state at once, and ends the line.
  void finish();

 private:
  struct Mark {
    double time;
    int64_t step;
  };
  std::string text(double now) const;
  double rate(double now) const;
  void show(double now);

  ProgressOptions options_;
  std::deque<Mark> marks_;  ///< steps done at moments of the last `window` seconds
  std::vector<Metric> metrics_;
  int64_t step_;
  int64_t shown_step_;
  double began_;
  double shown_at_ = 0.0;
  bool on_screen_ = false;
  bool due_ = true;
};

/// 59 -> "0:59", 3725 -> "1:02:05".
std::string duration_text(double seconds);
/// Four digits and k, M, G: 78125 -> "78.12k".
std::string quantity_text(double value);

}  // namespace hero::nn
