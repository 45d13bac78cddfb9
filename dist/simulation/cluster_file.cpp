#include <cmath>
#include <cstdlib>

#include <hero/core/json/json.h>
#include <hero/dist/plan/keys.h>
#include <hero/dist/simulation/cluster_file.h>

namespace hero::dist {

namespace {

constexpr const char* kKinds[core::kKernelKindCount] = {"matmul",      "attention", "window",
                                                        "elementwise", "reduce",    "copy"};

// Bytes of "80 GB"; negative where the text is none.
double bytes_of(const std::string& text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr double kKi = 1024.0;
  constexpr Unit kUnits[] = {{"B", 1.0},
                             {"kB", 1e3},
                             {"MB", 1e6},
                             {"GB", 1e9},
                             {"TB", 1e12},
                             {"KiB", kKi},
                             {"MiB", kKi * kKi},
                             {"GiB", kKi * kKi * kKi},
                             {"TiB", kKi * kKi * kKi * kKi}};
  char* end = nullptr;
  const double count = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return -1.0;
  while (*end == ' ') ++end;
  for (const Unit& unit : kUnits) {
    if (std::string(end) == unit.name) return count * unit.bytes;
  }
  return -1.0;
}

void read_cluster_bytes(Keys& keys, const char* key, int64_t& memory) {
  const core::JSON* member = keys.find(key);
  if (member == nullptr) return;
  double bytes = -1.0;
  if (member->is_number()) bytes = member->number();
  if (member->is_string()) bytes = bytes_of(member->text());
  if (!(bytes >= 1.0 && bytes < 1e18)) {
    keys.refuse(key, "is " + core::shown(*member) +
                         "; it must be a number of bytes or a text like \"80 GB\"");
  }
  memory = std::llround(bytes);
}

void read_efficiency(Keys& keys, Cluster& cluster) {
  const core::JSON* member = keys.find("efficiency");
  if (member == nullptr) return;
  const auto fits = [&](double part) {
    if (part > 1.0) keys.refuse("efficiency", "has a part of the peak above 1");
  };
  if (member->is_number()) {
    keys.positive("efficiency", cluster.efficiency[0]);
    fits(cluster.efficiency[0]);
    return;
  }
  Keys kinds = keys.object("efficiency");
  for (size_t i = 0; i < cluster.efficiency.size(); ++i) {
    kinds.positive(kKinds[i], cluster.efficiency[i]);
    fits(cluster.efficiency[i]);
  }
  kinds.end();
}

void read_link(Keys& keys, const char* key, LinkSpec& link) {
  if (keys.find(key) == nullptr) return;
  Keys members = keys.object(key);
  members.not_negative("latency", link.latency);
  members.positive("bytes_per_second", link.bytes_per_second);
  members.end();
}

void read_device(Keys& keys, DeviceType& device) {
  const core::JSON* member = keys.find("device");
  if (member == nullptr) return;
  if (*member != "cuda" && *member != "cpu") {
    keys.refuse("device", "is " + core::shown(*member) + "; it must be cuda or cpu");
  }
  device = *member == "cuda" ? DeviceType::cuda : DeviceType::cpu;
}

// Where there is offload.
void read_host(Keys& keys, Cluster& cluster) {
  if (keys.find("host") != nullptr) {
    Keys host = keys.object("host");
    if (host.find("memory") == nullptr) host.refuse("memory", "is missing");
    read_cluster_bytes(host, "memory", cluster.host_memory);
    host.positive("bytes_per_second", cluster.host_bytes_per_second);
    host.not_negative("latency", cluster.host_link.latency);
    host.positive("link", cluster.host_link.bytes_per_second);
    host.end();
  }
  if (keys.find("disk") == nullptr) return;
  Keys disk = keys.object("disk");
  if (disk.find("bytes") == nullptr) disk.refuse("bytes", "is missing");
  read_cluster_bytes(disk, "bytes", cluster.disk);
  disk.positive("bytes_per_second", cluster.disk_bytes_per_second);
  if (const core::JSON* folder = disk.find("folder")) {
    if (!folder->is_string() || folder->text().empty()) {
      disk.refuse("folder", "is " + core::shown(*folder) + "; it must be the name of a folder");
    }
    cluster.disk_folder = folder->text();
  }
  disk.end();
}

}  // namespace

Cluster read_cluster(Keys keys) {
  Cluster cluster;
  keys.count("per_host", cluster.per_host);
  read_cluster_bytes(keys, "memory", cluster.memory);
  keys.positive("float32_flops", cluster.float32_flops);
  keys.positive("bf16_flops", cluster.half_flops);
  read_efficiency(keys, cluster);
  keys.positive("hbm", cluster.memory_bytes_per_second);
  keys.not_negative("launch", cluster.launch_seconds);
  keys.not_negative("wake", cluster.wake_seconds);
  read_link(keys, "inside", cluster.inside);
  read_link(keys, "outside", cluster.outside);
  read_device(keys, cluster.device);
  read_host(keys, cluster);
  keys.end();
  return cluster;
}

core::JSON cluster_json(const Cluster& cluster) {
  core::JSON efficiency;
  for (size_t i = 0; i < cluster.efficiency.size(); ++i) {
    efficiency[kKinds[i]] = cluster.efficiency[i];
  }
  const auto link = [](const LinkSpec& spec) {
    return core::JSON{{"latency", spec.latency}, {"bytes_per_second", spec.bytes_per_second}};
  };
  core::JSON written = {{"per_host", cluster.per_host},
                        {"memory", cluster.memory},
                        {"float32_flops", cluster.float32_flops},
                        {"bf16_flops", cluster.half_flops},
                        {"efficiency", efficiency},
                        {"hbm", cluster.memory_bytes_per_second},
                        {"launch", cluster.launch_seconds},
                        {"wake", cluster.wake_seconds},
                        {"inside", link(cluster.inside)},
                        {"outside", link(cluster.outside)},
                        {"device", cluster.device == DeviceType::cuda ? "cuda" : "cpu"}};
  if (cluster.host_memory > 0) {
    written["host"] = {{"memory", cluster.host_memory},
                       {"bytes_per_second", cluster.host_bytes_per_second},
                       {"latency", cluster.host_link.latency},
                       {"link", cluster.host_link.bytes_per_second}};
  }
  if (cluster.disk > 0) {
    written["disk"] = {{"bytes", cluster.disk},
                       {"bytes_per_second", cluster.disk_bytes_per_second},
                       {"folder", cluster.disk_folder}};
  }
  return written;
}

Cluster parse_cluster(const std::string& text, const std::string& label) {
  const core::JSON document = core::parse_json(text, "parse_cluster", label);
  std::vector<std::string> unknown;
  const Cluster cluster = read_cluster(Keys(document, "", label, unknown));
  refuse_unknown(unknown, label);
  return cluster;
}

std::string cluster_text(const Cluster& cluster) {
  return core::json_dump(cluster_json(cluster), "cluster_text", 2, core::JSON::Order::added) + "\n";
}

}  // namespace hero::dist
