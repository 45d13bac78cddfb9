#pragma once
// Gathering numbers that ranks measure.
#include <span>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/training/metric.h>

namespace hero::dist {

/// A metric of all ranks.
struct GatheredMetric {
  std::string name;                        ///< the name of the metric
  std::vector<double> values;              ///< the value of each rank
  double mean = 0.0;                       ///< their weighted mean
  double sum = 0.0, min = 0.0, max = 0.0;  ///< unweighted, over all ranks
};

/// Options of gather_metrics() and mean_metrics().
struct GatherMetricsOptions {
  /// The weight of this rank's numbers in the mean, such as its number of samples; not negative,
  /// and not 0 on all ranks.
  double weight = 1.0;
};

/// Gathers metrics, which have the same names in the same order on every rank. Every rank gets
/// bitwise the same numbers, since they are added up in the order of ranks. A collective; throws an
/// Error on every rank if the names differ.
/// \snippet test_examples_ranks.cpp gather_metrics
std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::span<const nn::Metric> metrics,
                                           const GatherMetricsOptions& options = {});
std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::initializer_list<nn::Metric> metrics,
                                           const GatherMetricsOptions& options = {});
/// Gathers only the means, which nn::MetricsWriter::write() takes. A collective.
std::vector<nn::Metric> mean_metrics(const Communicator& world, std::span<const nn::Metric> metrics,
                                     const GatherMetricsOptions& options = {});

}  // namespace hero::dist
