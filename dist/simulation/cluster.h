#pragma once
// Cluster: the properties of machines and of the network between them on which the time of a step
// depends.
#include <array>
#include <cstdint>
#include <string>

#include <hero/core/device.h>
#include <hero/core/profile/kernel_cost.h>

namespace hero::dist {

/// A port of a rank: a message of n bytes takes latency + n / bytes_per_second.
struct LinkSpec {
  double latency = 0.0;           ///< seconds
  double bytes_per_second = 0.0;  ///< in each direction, both at the same time
};

/// Hosts that are all alike, with devices that are all alike. The defaults are those of a host with
/// eight A100-SXM4-80GB, from NVIDIA's data sheet, with links at four fifths of their nominal rate
/// and assumed efficiencies: measure yours.
struct Cluster {
  int per_host = 8;                                   ///< devices of a host, one for each rank
  int64_t memory = int64_t{80} * 1000 * 1000 * 1000;  ///< bytes of a device's memory
  double float32_flops = 19.5e12;           ///< peak of a device per second, used for float64 too
  double half_flops = 312e12;               ///< peak per second for float16 and bfloat16
  double memory_bytes_per_second = 2.0e12;  ///< rate of a device's memory
  /// The fraction of the peak that kernels of each KernelKind reach: of the peak flops for matmul
  /// and attention, of the memory's rate for all others.
  std::array<double, core::kKernelKindCount> efficiency = {0.55, 0.4, 0.5, 0.8, 0.7, 0.7};
  double launch_seconds = 4e-6;      ///< shortest time of a kernel, also of one on the host
  LinkSpec inside = {5e-6, 250e9};   ///< the port between devices of a host
  LinkSpec outside = {10e-6, 25e9};  ///< the port of a device to other hosts
  /// Seconds that a rank needs to continue after it has waited for others, since a sleeping thread
  /// must be woken. 0 for GPUs, whose streams continue without a thread that waits.
  double wake_seconds = 0.0;
  /// The device whose kernels run: those of a GPU compute in half precision where those of the CPU
  /// compute in float32.
  DeviceType device = DeviceType::cuda;

  /// \name What offload needs: each device's part of its host
  /// Devices of a host share its memory's bytes and rate, and its disk's.
  /// \{
  int64_t host_memory = 0;  ///< bytes of a host's memory; 0: not known, plans use no offload
  double host_bytes_per_second = 200e9;  ///< rate of a host's memory, for optimizer steps there
  LinkSpec host_link = {10e-6, 25e9};    ///< link between a device and its host, in each direction
  int64_t disk = 0;                      ///< bytes of a host's disk; 0: none
  std::string disk_folder = "/local_nvme";  ///< the folder that configuration files name
  double disk_bytes_per_second = 6e9;       ///< rate of the disk, reading and writing together
  /// \}

  /// Peak flops per second of matrix products of this dtype.
  double peak_flops(DType dtype) const;
  /// The seconds of a kernel by the roofline model, the largest of three times: its flops (for
  /// matrix products and attention at the efficiency of their kind, else at the peak of float32),
  /// its bytes (for matrix products and attention at the memory's full rate, else at the efficiency
  /// of their kind), and its launches. Williams, Waterman and Patterson, Communications of the ACM
  /// 52(4), 2009. For kernels on the host, bytes at the device's share of the host memory's rate;
  /// for copies between host and device, at the rate of the link.
  double seconds(const core::KernelCost& cost) const;
};

}  // namespace hero::dist
