#include <algorithm>

#include <hero/dist/simulation/cluster.h>

namespace hero::dist {

double Cluster::peak_flops(DType dtype) const {
  return item_size(dtype) == 2 ? half_flops : float32_flops;
}

double Cluster::seconds(const core::Work& work) const {
  const auto work_bytes = static_cast<double>(work.bytes);
  const double least = static_cast<double>(work.launches) * launch_seconds;
  if (work.place == core::WorkPlace::between) {
    return std::max(least, host_link.latency + work_bytes / host_link.bytes_per_second);
  }
  if (work.place == core::WorkPlace::host) {
    return std::max(least, work_bytes * per_host / host_bytes_per_second);
  }
  const double part = efficiency[static_cast<size_t>(work.kind)];
  const bool product =
      work.kind == core::WorkKind::matmul || work.kind == core::WorkKind::attention;
  const double flops = product ? part * peak_flops(work.dtype) : float32_flops;
  const double bytes = memory_bytes_per_second * (product ? 1.0 : part);
  return std::max({static_cast<double>(work.flops) / flops, work_bytes / bytes, least});
}

}  // namespace hero::dist
