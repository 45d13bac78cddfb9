// Requests and configurations as JSON.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <hero/core/json/json.h>
#include <hero/dist/plan.h>
#include <hero/dist/plan/keys.h>

namespace hero::dist {

namespace {

void read_model(Keys keys, nn::GPTConfig& model) {
  for (const char* key : {"layers", "width", "heads"}) {
    if (keys.find(key) == nullptr) keys.refuse(key, "is missing");
  }
  keys.count("layers", model.n_layer);
  keys.count("width", model.n_embd);
  keys.count("heads", model.n_head);
  keys.count("vocabulary", model.vocab_size);
  keys.count("sequence", model.block_size);
  keys.end();
}

void read_dtype(Keys& keys, DType& dtype) {
  const core::JSON* member = keys.find("dtype");
  if (member == nullptr) return;
  if (*member == "bfloat16") {
    dtype = kBFloat16;
  } else if (*member == "float32") {
    dtype = kFloat32;
  } else if (*member == "float16") {
    dtype = kFloat16;
  } else {
    keys.refuse("dtype",
                "is " + core::shown(*member) + "; it must be bfloat16, float16 or float32");
  }
}

// What Plan's program does: in a pipeline gradients are averaged once.
core::JSON zero_of(const PlanRequest& request, const Strategy& s) {
  const int stage = s.sharding == PlanSharding::hybrid ? 3 : static_cast<int>(s.sharding);
  core::JSON zero = {{"stage", stage}};
  if (s.sharding == PlanSharding::hybrid) zero["mics_shard_size"] = s.shard;
  if (stage == 3 && !s.reshard) zero["reshard"] = false;
  if (s.offload != PlanOffload::none) {
    core::JSON place = {{"device", "cpu"}};
    if (s.offload == PlanOffload::disk) {
      place = {{"device", "nvme"}, {"nvme_path", request.cluster.disk_folder}};
    }
    zero["offload_optimizer"] = place;
    if (stage == 3) zero["offload_param"] = place;
  }
  if (stage >= 2 && s.pipe == 1 && s.micro_batches > 1) zero["reduce_each"] = true;
  return zero;
}

}  // namespace

PlanRequest parse_plan_request(const std::string& text, const std::string& label) {
  const core::JSON document = core::parse_json(text, "plan", label);
  std::vector<std::string> unknown;
  Keys keys(document, "", label, unknown);
  PlanRequest request;
  read_model(keys.object("model"), request.model);
  for (const char* key : {"ranks", "global_batch"}) {
    if (keys.find(key) == nullptr) keys.refuse(key, "is missing");
  }
  keys.count("ranks", request.ranks);
  keys.count("global_batch", request.global_batch);
  keys.count("max_micro_batch", request.max_micro_batch);
  keys.count("simulations", request.simulations);
  read_dtype(keys, request.dtype);
  if (keys.find("cluster") != nullptr) request.cluster = read_cluster(keys.object("cluster"));
  keys.end();
  refuse_unknown(unknown, label);
  return request;
}

PlanRequest load_plan_request(const std::string& path) {
  errno = 0;
  std::ifstream file(path);  // or a pipe
  std::stringstream text;
  text << file.rdbuf();
  check(file.is_open() && (!text.fail() || errno == 0), "plan: cannot read ", path, ": ",
        std::strerror(errno));
  return parse_plan_request(text.str(), path);
}

std::string config_text(const PlanRequest& request, const Strategy& strategy) {
  core::JSON config = {
      {"train_batch_size", request.global_batch},
      {"train_micro_batch_size_per_gpu", strategy.micro_batch},
      {"gradient_accumulation_steps", strategy.micro_batches},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}}}}},
      {"gradient_clipping", 1.0},
      {request.dtype == kFloat16 ? "fp16" : "bf16", {{"enabled", request.dtype != kFloat32}}},
      {"zero_optimization", zero_of(request, strategy)},
      {"tensor", strategy.tensor}};
  if (strategy.checkpoint) config["checkpoint_blocks"] = true;
  if (strategy.pipe > 1) {
    config["pipe"] = strategy.pipe;
    config["schedule"] = strategy.schedule.name();
  }
  return core::json_dump(config, "plan", 2, core::JSON::Order::added) + "\n";
}

}  // namespace hero::dist
