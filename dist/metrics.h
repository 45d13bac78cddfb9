#pragma once
// Numbers that ranks measure, brought together.
#include <span>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/training/metric.h>

namespace hero::dist {

/// One number of all ranks.
struct GatheredMetric {
  std::string name;
  std::vector<double> values;  ///< by rank
  double mean = 0.0;           ///< weighted
  double sum = 0.0, min = 0.0, max = 0.0;
};

struct GatherMetricsOptions {
  /// How much this rank's numbers count in the mean, such as its number of samples; not negative,
  /// and not 0 on all ranks.
  double weight = 1.0;
};

/// The same names in the same order on every rank; every rank gets the same numbers, to the bit:
/// sums are made in the order of ranks. A collective; an Error on every rank where names differ.
/// \snippet test_examples_ranks.cpp gather_metrics
std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::span<const nn::Metric> metrics,
                                           const GatherMetricsOptions& options = {});
std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::initializer_list<nn::Metric> metrics,
                                           const GatherMetricsOptions& options = {});
/// The means alone, which nn::MetricsWriter::write() takes.
std::vector<nn::Metric> mean_metrics(const Communicator& world, std::span<const nn::Metric> metrics,
                                     const GatherMetricsOptions& options = {});

}  // namespace hero::dist
