#include <algorithm>
#include <cmath>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/metrics.h>

namespace hero::dist {

std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::span<const nn::Metric> metrics,
                                           const GatherMetricsOptions& options) {
  constexpr auto kName = "gather_metrics";
  check_not_simulated(world);
  std::string names;
  for (const nn::Metric& metric : metrics) names += metric.name + "\n";
  same_lines(world, kName, names, "give the same names in the same order on every rank", kName);
  std::vector<double> mine = {options.weight};
  for (const nn::Metric& metric : metrics) mine.push_back(metric.value);
  const auto each = static_cast<int64_t>(mine.size());
  const int ranks = size_of(world);
  const Array input = Array::from(mine, {each});
  const Array output = Array::empty({ranks, each}, kFloat64);
  if (ranks > 1) {
    world.all_gather(output, input, {.unit = kName});
  }
  const std::vector<double> all = ranks > 1 ? output.to_vector<double>() : mine;
  const auto at = [&](int rank, int64_t i) { return all[static_cast<size_t>(rank * each + i)]; };
  double weight = 0.0;
  for (int r = 0; r < ranks; ++r) {
    const double one = at(r, 0);
    check(one >= 0.0 && std::isfinite(one), kName, ": weight must not be negative: rank ", r,
          " has ", one);
    weight += one;
  }
  check(weight > 0.0, kName, ": weight is 0 on all ranks");
  std::vector<GatheredMetric> gathered;
  for (int64_t i = 1; i < each; ++i) {
    GatheredMetric& metric = gathered.emplace_back();
    metric.name = metrics[static_cast<size_t>(i - 1)].name;
    metric.min = metric.max = at(0, i);
    for (int r = 0; r < ranks; ++r) {
      const double value = at(r, i);
      metric.values.push_back(value);
      metric.sum += value;
      if (at(r, 0) > 0.0) metric.mean += value * at(r, 0);
      metric.min = std::min(metric.min, value);
      metric.max = std::max(metric.max, value);
    }
    metric.mean /= weight;
  }
  return gathered;
}

std::vector<GatheredMetric> gather_metrics(const Communicator& world,
                                           std::initializer_list<nn::Metric> metrics,
                                           const GatherMetricsOptions& options) {
  return gather_metrics(world, std::span(metrics.begin(), metrics.size()), options);
}

std::vector<nn::Metric> mean_metrics(const Communicator& world, std::span<const nn::Metric> metrics,
                                     const GatherMetricsOptions& options) {
  std::vector<nn::Metric> means;
  for (const GatheredMetric& metric : gather_metrics(world, metrics, options)) {
    means.push_back({metric.name, metric.mean});
  }
  return means;
}

}  // namespace hero::dist
