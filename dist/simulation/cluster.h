#pragma once
// Machines and the network between them, as far as the time of a step depends on them.
#include <array>
#include <cstdint>
#include <string>

#include <hero/core/device.h>
#include <hero/core/profile/work.h>

namespace hero::dist {

/// A port of a rank: a message of n bytes takes latency + n / bytes_per_second.
struct LinkSpec {
  double latency = 0.0;           ///< seconds
  double bytes_per_second = 0.0;  ///< one way; both ways at once
};

/// Hosts that are all alike, with devices that are all alike. The default is a host with eight
/// A100-SXM4-80GB, by NVIDIA's data sheet, with links at four fifths of theirs and efficiencies
/// that are assumed: measure yours.
struct Cluster {
  int per_host = 8;                                   ///< devices, so ranks, of a host
  int64_t memory = int64_t{80} * 1000 * 1000 * 1000;  ///< bytes of a device
  double float32_flops = 19.5e12;                     ///< peak a second of a device, of float64 too
  double half_flops = 312e12;                         ///< of float16 and bfloat16
  double memory_bytes_per_second = 2.0e12;            ///< of a device's memory
  /// What part of the peak (of flops for matmul and attention, of memory's rate for all others)
  /// kernels of each kind reach, by WorkKind.
  std::array<double, core::kWorkKindCount> efficiency = {0.55, 0.4, 0.5, 0.8, 0.7, 0.7};
  double launch_seconds = 4e-6;      ///< the least that a kernel takes, the host's too
  LinkSpec inside = {5e-6, 250e9};   ///< between devices of a host
  LinkSpec outside = {10e-6, 25e9};  ///< of a device to other hosts
  /// What a rank that has waited for others takes to go on, in seconds: a thread that sleeps must
  /// be woken. The stream of a GPU goes on by itself, so this is 0 where no thread waits.
  double wake_seconds = 0.0;
  /// Whose kernels run: those of a GPU take halves as they are where the CPU's compute in float32.
  DeviceType device = DeviceType::cuda;

  /// \name What offload needs: each device's part of its host
  /// Devices of a host share its memory's bytes and rate, and its disk's.
  /// \{
  int64_t host_memory = 0;  ///< bytes of a host; 0: not known, and plans keep all on devices
  double host_bytes_per_second = 200e9;  ///< of a host's memory: optimizer steps take place there
  LinkSpec host_link = {10e-6, 25e9};    ///< between a device and its host, each way
  int64_t disk = 0;                      ///< bytes of a host's disk; 0: none
  std::string disk_folder = "/local_nvme";  ///< where a configuration file has it
  double disk_bytes_per_second = 6e9;       ///< of that disk, reading and writing together
  /// \}

  /// flops a second of products of this dtype, at best.
  double peak_flops(DType dtype) const;
  /// A roofline: the longest of flops at the kind's part of the peak, bytes at its part of memory's
  /// rate (for products and attention: at memory's rate), and the launches. Williams, Waterman and
  /// Patterson, Communications of the ACM 52(4), 2009.
  /// Of the host's work the bytes at its part of the memory's rate, of copies between the two those
  /// of the link.
  double seconds(const core::Work& work) const;
};

}  // namespace hero::dist
