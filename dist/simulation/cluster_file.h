#pragma once
// Clusters as text.
#include <string>

#include <hero/dist/simulation/cluster.h>

namespace hero::dist {

/// A cluster from JSON:
///
///   {"per_host": 8, "memory": "80 GB", "float32_flops": 19.5e12, "bf16_flops": 312e12,
///    "efficiency": {"matmul": 0.55, "attention": 0.4}, "hbm": 2.0e12, "launch": 4e-6,
///    "inside": {"latency": 5e-6, "bytes_per_second": 250e9},
///    "outside": {"latency": 10e-6, "bytes_per_second": 25e9}, "device": "cuda",
///    "host": {"memory": "1 TB", "bytes_per_second": 200e9, "latency": 10e-6, "link": 25e9},
///    "disk": {"bytes": "7 TB", "bytes_per_second": 6e9, "folder": "/local_nvme"}}
///
/// What is not there is as in Cluster{}. Memory is a number of bytes or a text with kB, MB, GB, TB
/// (powers of 1000) or KiB, MiB, GiB, TiB (of 1024); so are the host's and the disk's bytes.
/// "efficiency" may be one number, of matmul. Keys that are not known are one Error that lists all
/// of them; a value that is not positive (of latencies and "launch": is negative) is one that says
/// which. `label` says in errors where the text comes from.
Cluster parse_cluster(const std::string& text, const std::string& label = "the text");
/// The text of a cluster, which parse_cluster() reads as the same one.
std::string cluster_text(const Cluster& cluster);

}  // namespace hero::dist
