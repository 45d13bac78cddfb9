#include <algorithm>

#include <hero/dist/simulation/cluster.h>

namespace hero::dist {

double Cluster::peak_flops(DType dtype) const {
  return item_size(dtype) == 2 ? half_flops : float32_flops;
}

double Cluster::seconds(const core::KernelCost& cost) const {
  const auto cost_bytes = static_cast<double>(cost.bytes);
  const double least = static_cast<double>(cost.launches) * launch_seconds;
  if (cost.place == core::KernelPlace::between) {
    return std::max(least, host_link.latency + cost_bytes / host_link.bytes_per_second);
  }
  if (cost.place == core::KernelPlace::host) {
    return std::max(least, cost_bytes * per_host / host_bytes_per_second);
  }
  const double part = efficiency[static_cast<size_t>(cost.kind)];
  const bool product =
      cost.kind == core::KernelKind::matmul || cost.kind == core::KernelKind::attention;
  const double flops = product ? part * peak_flops(cost.dtype) : float32_flops;
  const double bytes = memory_bytes_per_second * (product ? 1.0 : part);
  return std::max({static_cast<double>(cost.flops) / flops, cost_bytes / bytes, least});
}

}  // namespace hero::dist
