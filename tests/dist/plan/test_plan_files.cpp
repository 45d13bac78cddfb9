// Clusters and requests as JSON.
#include "support/catch.h"
#include <nlohmann/json.hpp>

#include <hero/dist/plan.h>
#include <hero/dist/simulation/cluster_file.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

const char* const kModel = R"("model": {"layers": 4, "width": 64, "heads": 4})";

std::string request_text(const std::string& more) {
  return "{" + std::string(kModel) + R"(, "ranks": 2, "global_batch": 4)" + more + "}";
}

}  // namespace

TEST_CASE("plan: a global batch beyond any run, and keys beyond any list, are refused") {
  const std::string model = R"({"model": {"layers": 2, "width": 8, "heads": 2, "vocabulary": 16,
    "sequence": 8}, "ranks": 2, "global_batch": )";
  const PlanRequest large = parse_plan_request(model + "4611686018427387904}", "p.json");
  CHECK_THROWS_WITH(plan(large),
                    ContainsSubstring("plan: a global batch of 4611686018427387904 sequences of 8 "
                                      "tokens; there must be at most 2^48"));
  std::string text = model + "8";
  for (int i = 0; i < 1000; ++i) text += ", \"nothing" + std::to_string(i) + "\": 1";
  CHECK_THROWS_WITH(parse_plan_request(text + "}", "p.json"),
                    ContainsSubstring(" .. and 992 more; docs/tutorials/21_plan.md"));
}

TEST_CASE("a cluster is read back as it was written") {
  Cluster cluster;
  cluster.per_host = 3;
  cluster.memory = 123456789012345;
  cluster.float32_flops = 1.0 / 3.0 * 1e12;
  cluster.half_flops = 7e13;
  cluster.efficiency = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  cluster.memory_bytes_per_second = 1.1e11;
  cluster.launch_seconds = 0.0;
  cluster.wake_seconds = 1e-4;
  cluster.inside = {1e-7, 3e9};
  cluster.outside = {0.25, 5.5};
  cluster.device = DeviceType::cpu;
  cluster.host_memory = 777;
  cluster.host_bytes_per_second = 1.5e11;
  cluster.host_link = {3e-6, 2.2e10};
  cluster.disk = int64_t{1} << 42;
  cluster.disk_bytes_per_second = 5e9;
  cluster.disk_folder = "/fast disk";
  const Cluster back = parse_cluster(cluster_text(cluster));
  CHECK(back.per_host == cluster.per_host);
  CHECK(back.memory == cluster.memory);
  CHECK(back.float32_flops == cluster.float32_flops);
  CHECK(back.half_flops == cluster.half_flops);
  CHECK(back.efficiency == cluster.efficiency);
  CHECK(back.memory_bytes_per_second == cluster.memory_bytes_per_second);
  CHECK(back.launch_seconds == cluster.launch_seconds);
  CHECK(back.wake_seconds == cluster.wake_seconds);
  CHECK(back.inside.latency == cluster.inside.latency);
  CHECK(back.inside.bytes_per_second == cluster.inside.bytes_per_second);
  CHECK(back.outside.latency == cluster.outside.latency);
  CHECK(back.outside.bytes_per_second == cluster.outside.bytes_per_second);
  CHECK(back.device == DeviceType::cpu);
  CHECK(back.host_memory == cluster.host_memory);
  CHECK(back.host_bytes_per_second == cluster.host_bytes_per_second);
  CHECK(back.host_link.latency == cluster.host_link.latency);
  CHECK(back.host_link.bytes_per_second == cluster.host_link.bytes_per_second);
  CHECK(back.disk == cluster.disk);
  CHECK(back.disk_bytes_per_second == cluster.disk_bytes_per_second);
  CHECK(back.disk_folder == cluster.disk_folder);
}

TEST_CASE("a cluster without keys is the default one, and memory may have a unit") {
  CHECK(cluster_text(parse_cluster("{}")) == cluster_text(Cluster{}));
  CHECK(parse_cluster(R"({"memory": "80 GB"})").memory == 80'000'000'000);
  CHECK(parse_cluster(R"({"memory": "1.5GiB"})").memory == 3 * (int64_t{1} << 29));
  CHECK(parse_cluster(R"({"memory": 4096})").memory == 4096);
  const Cluster one = parse_cluster(R"({"efficiency": 0.25})");
  CHECK(one.efficiency[0] == 0.25);
  CHECK(one.efficiency[1] == Cluster{}.efficiency[1]);
}

TEST_CASE("unknown keys of a plan are one error that lists them all") {
  const std::string text =
      request_text(R"(, "gpus": 4, "cluster": {"hmb": 1, "inside": {"rate": 2}})");
  CHECK_THROWS_WITH(parse_plan_request(text, "a.json"),
                    ContainsSubstring("a.json: unknown keys: ") && ContainsSubstring("'gpus'") &&
                        ContainsSubstring("'cluster.hmb'") &&
                        ContainsSubstring("'cluster.inside.rate'"));
}

TEST_CASE("values of a plan that make no sense are errors that name the key") {
  const auto refused = [](const std::string& cluster, const std::string& words) {
    CAPTURE(cluster);
    CHECK_THROWS_WITH(parse_cluster(cluster, "c.json"), ContainsSubstring("c.json: " + words));
  };
  refused(R"({"memory": "80 XB"})", "memory is \"80 XB\"; it must be a number of bytes");
  refused(R"({"memory": -1})", "memory is -1");
  refused(R"({"per_host": 0})", "per_host is 0; it must be at least 1");
  refused(R"({"per_host": 1.5})", "per_host is 1.5, not a whole number");
  refused(R"({"hbm": 0})", "hbm is 0; it must be above zero");
  refused(R"({"hbm": "fast"})", "hbm is \"fast\", not a number");
  refused(R"({"inside": {"latency": -1}})", "inside.latency is -1; it must not be negative");
  refused(R"({"inside": 3})", "inside is 3, not an object");
  refused(R"({"efficiency": 1.5})", "efficiency has a part of the peak above 1");
  refused(R"({"host": {"link": 1e9}})", "host.memory is missing");
  refused(R"({"host": {"memory": "1 XB"}})", "host.memory is \"1 XB\"; it must be a number of");
  refused(R"({"host": {"memory": "1 TB", "link": 0}})", "host.link is 0; it must be above zero");
  refused(R"({"disk": {"bytes_per_second": 1e9}})", "disk.bytes is missing");
  refused(R"({"disk": {"bytes": 5, "folder": 3}})", "disk.folder is 3; it must be the name of a");
  refused(R"({"disk": {"bytes": "7 TB", "rate": 1}})", "unknown keys: 'disk.rate'");
  CHECK_THROWS_WITH(parse_cluster("{", "c.json"), ContainsSubstring("c.json is not JSON"));
  CHECK_THROWS_WITH(parse_plan_request("{}", "p.json"),
                    ContainsSubstring("p.json: model is missing"));
  CHECK_THROWS_WITH(parse_plan_request(R"({"model": {"layers": 1, "width": 1}})", "p.json"),
                    ContainsSubstring("p.json: model.heads is missing"));
  CHECK_THROWS_WITH(parse_plan_request("{" + std::string(kModel) + "}", "p.json"),
                    ContainsSubstring("p.json: ranks is missing"));
  CHECK_THROWS_WITH(
      parse_plan_request(request_text(R"(, "dtype": "int8")"), "p.json"),
      ContainsSubstring("dtype is \"int8\"; it must be bfloat16, float16 or float32"));
  CHECK_THROWS_WITH(load_plan_request("/no/such/plan.json"),
                    ContainsSubstring("plan: cannot read /no/such/plan.json"));
}

TEST_CASE("a plan's configuration has DeepSpeed's keys") {
  PlanRequest request = parse_plan_request(request_text(""));
  request.ranks = 16;
  request.global_batch = 64;
  Strategy s;
  s.tensor = 2;
  s.pipe = 2;
  s.shard = 4;
  s.sharding = PlanSharding::zero1;
  s.micro_batch = 2;
  s.micro_batches = 8;
  s.schedule = Schedule::interleaved(2);
  const nlohmann::json config = nlohmann::json::parse(config_text(request, s));
  CHECK(config["train_batch_size"] == 64);
  CHECK(config["train_micro_batch_size_per_gpu"] == 2);
  CHECK(config["gradient_accumulation_steps"] == 8);
  CHECK(config["zero_optimization"]["stage"] == 1);
  CHECK(config["bf16"]["enabled"] == true);
  CHECK(config["tensor"] == 2);
  CHECK(config["pipe"] == 2);
  CHECK(config["schedule"] == "interleaved(2)");
}
