#pragma once
// TrainerReport: the report page that a Trainer writes if its Config names a file.
#include <cstdint>
#include <map>
#include <string>

#include <hero/dist/communicator.h>
#include <hero/dist/config.h>
#include <hero/nn/module.h>
#include <hero/nn/training/report.h>

namespace hero::dist {

/// The results of a step.
struct TrainerStep {
  int64_t step = 0, skipped = 0;
  double lr = 0.0, norm = 0.0, loss_scale = 1.0;
};

/// The report of a run, which rank 0 writes.
class TrainerReport {
 public:
  TrainerReport(const Config& config, const Communicator& world, const nn::Module& model);
  /// Marks the run as finished, unless an exception ends it.
  ~TrainerReport();
  TrainerReport(const TrainerReport&) = delete;
  TrainerReport& operator=(const TrainerReport&) = delete;

  /// Called before each forward and backward. The first call after write() begins to count the
  /// bytes that a step sends.
  void begin();
  /// Records the loss of a micro-batch; a step shows the mean of its losses.
  void loss(double value);
  void write(const TrainerStep& step);

 private:
  std::map<std::string, int64_t> sent_so_far() const;

  const Config config_;
  const Communicator& world_;
  nn::Report report_;
  double losses_ = 0.0;
  int64_t count_ = 0;
  bool has_begun_ = false;
  std::map<std::string, int64_t> sent_;  // bytes sent so far by axis, when the step began
};

}  // namespace hero::dist
