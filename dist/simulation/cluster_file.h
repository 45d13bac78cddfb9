#pragma once
// Reading and writing the description of a cluster as JSON.
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
/// Keys that are missing have the values of Cluster{}. Memory is a number of bytes or a text with
/// kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024); so are the bytes of host memory
/// and disk. "efficiency" may be one number, for matmul. Throws an Error that lists all unknown
/// keys, or one that names a value that is not positive (for latencies and "launch": that is
/// negative). `label` names the source of the text in errors.
Cluster parse_cluster(const std::string& text, const std::string& label = "the text");
/// The JSON of a cluster; parse_cluster(cluster_text(c)) is c.
std::string cluster_text(const Cluster& cluster);

}  // namespace hero::dist
