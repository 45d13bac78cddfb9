// Reads a Config from JSON and writes it.
#include <hero/core/io/file.h>
#include <hero/core/json/json.h>
#include <hero/dist/pipeline_schedule.h>
#include <hero/dist/trainer/optimizers.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

using core::JSON;

namespace {

void read_scale(JSONSection& fp16, Config::LossScale& scale) {
  scale.fixed = fp16.number("loss_scale", scale.fixed);
  scale.initial_power = fp16.integer("initial_scale_power", scale.initial_power);
  scale.window = fp16.integer("loss_scale_window", scale.window, 1);
  scale.hysteresis = fp16.integer("hysteresis", scale.hysteresis, 1);
  scale.consecutive = fp16.flag("consecutive_hysteresis", scale.consecutive);
  scale.least = fp16.number("min_loss_scale", scale.least, 1.0);
  if (scale.initial_power > 100) fp16.problem("initial_scale_power", "is more than 100");
  fp16.only("auto_cast", {false}, "cast inputs that are not whole numbers in the program");
  fp16.only("fp16_master_weights_and_grads", {false}, "the masters are float32");
}

bool read_bf16(JSONSection bf16) {
  const bool enabled = bf16.flag("enabled", false);
  bf16.any_flag({"immediate_grad_update"});  // gradients are added up where they are made
  if (enabled) {
    bf16.only("check_grad_overflow", {false}, "\"fp16\" looks at gradients before a step");
    bf16.only("bf16_master_weights_and_grads", {false}, "the masters are float32");
    bf16.only("bf16_optimizer_states", {false}, "the optimizer's states are float32");
  } else {
    bf16.any({"check_grad_overflow", "bf16_master_weights_and_grads", "bf16_optimizer_states"});
  }
  bf16.finish();
  return enabled;
}

void read_precision(JSONSection& root, Config& config) {
  JSONSection fp16 = root.section("fp16");
  const bool half = fp16.flag("enabled", false);
  if (half) {
    read_scale(fp16, config.loss_scale);
  } else {  // what is switched off has no options
    fp16.any({"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
              "consecutive_hysteresis", "min_loss_scale", "auto_cast",
              "fp16_master_weights_and_grads"});
  }
  fp16.finish();
  bool brain = read_bf16(root.section("bf16"));
  brain = read_bf16(root.section("bfloat16")) || brain;  // DeepSpeed's older name
  if (half && brain) root.problem("bf16", "and fp16 are both enabled");
  if (half) config.compute = kFloat16;
  if (brain) config.compute = kBFloat16;
}

// Keys that DeepSpeed does not have.
void read_own(JSONSection& root, Config& config) {
  config.tensor = root.count("tensor", 1);
  config.pipe = root.count("pipe", 1);
  const std::string schedule = root.text("schedule", config.schedule);
  try {
    config.schedule = Schedule::named(schedule).name();
    if (root.has("schedule") && config.pipe == 1)
      root.problem("schedule", "needs \"pipe\" above 1");
  } catch (const Error& wrong) {
    root.problem("schedule", std::string("is wrong: ") + wrong.what());
  }
  config.checkpoint_blocks = root.flag("checkpoint_blocks", false);
  const std::string order = root.text("order", "tree", {"tree", "ranks", "native"});
  config.order = order == "tree" ? Order::tree : order == "ranks" ? Order::ranks : Order::native;
  config.report = root.text("report", "");
}

JSON write_zero(const Config::Zero& zero) {
  JSON section = {{"stage", zero.stage}};
  if (zero.bucket_elements != 0) section["reduce_bucket_size"] = zero.bucket_elements;
  if (!zero.prefetch) section["overlap_comm"] = false;
  if (!zero.reshard) section["reshard"] = false;
  if (zero.quantized_weights) section["zero_quantized_weights"] = true;
  if (zero.quantized_gradients) section["zero_quantized_gradients"] = true;
  if (zero.secondary_group_size != 0)
    section["zero_hpz_partition_size"] = zero.secondary_group_size;
  if (zero.reduce_each) section["reduce_each"] = true;
  if (zero.shard_group_size != 0) section["mics_shard_size"] = zero.shard_group_size;
  if (zero.find_unused_parameters) section["ignore_unused_parameters"] = true;
  const auto place = [&](const char* key, bool on_host, const std::string& folder) {
    if (!folder.empty()) {
      section[key] = {{"device", "nvme"}, {"nvme_path", folder}};
    } else if (on_host) {
      section[key] = {{"device", "cpu"}};
    }
  };
  place("offload_optimizer", zero.offload_optimizer, zero.states_folder);
  place("offload_param", zero.offload_parameters, zero.parameters_folder);
  return section;
}

JSON write_scale(const Config::LossScale& scale) {
  return {{"enabled", true},
          {"loss_scale", scale.fixed},
          {"initial_scale_power", scale.initial_power},
          {"loss_scale_window", scale.window},
          {"hysteresis", scale.hysteresis},
          {"consecutive_hysteresis", scale.consecutive},
          {"min_loss_scale", scale.least}};
}

JSON write_method(const Config::Method& method) {
  JSON params = JSON::object();
  for (const auto& [name, value] : method.options) {
    const bool flag = name == "amsgrad" || name == "nesterov" || name == "centered";
    if (flag)
      params[name] = value != 0.0;
    else if (name == "warmup_type")
      params[name] = value != 0.0 ? "linear" : "log";
    else if (name != "beta1" && name != "beta2")
      params[name] = value;
  }
  const auto first = method.options.find("beta1"), second = method.options.find("beta2");
  check((first == method.options.end()) == (second == method.options.end()),
        "config: ", method.type, ": betas are written together; give beta1 and beta2");
  if (first != method.options.end()) params["betas"] = {first->second, second->second};
  if (method.type == "AdamL2") params["adam_w_mode"] = false;
  return {{"type", method.type == "AdamL2" ? "Adam" : method.type}, {"params", params}};
}

}  // namespace

Config Config::load(const std::string& path) { return parse(read_file_text(path), path); }

Config Config::parse(const std::string& text, const std::string& label) {
  const JSON document = core::parse_json(text, "config", label);
  check(document.is_object(), "config: ", label, ": the document is ", core::shown(document),
        ", not an object");
  JSONProblems problems(label, text);
  JSONSection root(problems, &document, "");
  Config config;
  config.train_batch_size = root.integer("train_batch_size", 0, 1);
  config.micro_batch_size = root.integer("train_micro_batch_size_per_gpu", 0, 1);
  config.accumulation_steps = root.integer("gradient_accumulation_steps", 0, 1);
  config.optimizer = read_optimizer(root.section("optimizer"));
  config.scheduler = read_scheduler(root.section("scheduler"));
  read_precision(root, config);
  config.gradient_clipping = root.number("gradient_clipping", 0.0);
  config.zero = read_zero(root);
  read_own(root, config);
  if (const std::string wrong = pairing_problem(config); !wrong.empty()) {
    problems.add("optimizer.type", wrong);
  }
  config.steps_per_print = root.integer("steps_per_print", 0);
  config.wall_clock_breakdown = root.flag("wall_clock_breakdown", false);
  if (config.wall_clock_breakdown && config.steps_per_print == 0) {
    if (root.has("steps_per_print")) {
      root.problem("wall_clock_breakdown", "is printed with \"steps_per_print\", which is 0");
    }
    config.steps_per_print = 10;  // DeepSpeed's
  }
  refuse_unsupported(root, config);
  root.finish();
  problems.raise();
  return config;
}

std::string Config::text() const {
  JSON root = JSON::object();
  if (train_batch_size != 0) root["train_batch_size"] = train_batch_size;
  if (micro_batch_size != 0) root["train_micro_batch_size_per_gpu"] = micro_batch_size;
  if (accumulation_steps != 0) root["gradient_accumulation_steps"] = accumulation_steps;
  if (!optimizer.type.empty()) root["optimizer"] = write_method(optimizer);
  if (!scheduler.type.empty()) root["scheduler"] = write_method(scheduler);
  if (compute == kFloat16) root["fp16"] = write_scale(loss_scale);
  if (compute == kBFloat16) root["bf16"] = {{"enabled", true}};
  if (gradient_clipping != 0.0) root["gradient_clipping"] = gradient_clipping;
  if (zero != Zero()) root["zero_optimization"] = write_zero(zero);
  if (tensor != 1) root["tensor"] = tensor;
  if (pipe != 1) {
    root["pipe"] = pipe;
    root["schedule"] = schedule;
  }
  if (checkpoint_blocks) root["checkpoint_blocks"] = true;
  if (order != Order::tree) root["order"] = name(order);
  if (!report.empty()) root["report"] = report;
  if (steps_per_print != 0) root["steps_per_print"] = steps_per_print;
  if (wall_clock_breakdown) root["wall_clock_breakdown"] = true;
  return core::json_dump(root, "config", 2) + "\n";
}

Config Config::resolve(int data_ranks) const {
  Config full = *this;
  int64_t &all = full.train_batch_size, &micro = full.micro_batch_size,
          &steps = full.accumulation_steps;
  const int64_t ranks = data_ranks;
  if (steps == 0 && all != 0 && micro != 0) steps = all / (micro * ranks);
  if (steps == 0) steps = 1;
  if (micro == 0) micro = all == 0 ? 1 : all / (steps * ranks);
  if (all == 0) all = micro * steps * ranks;
  check(all > 0 && all == micro * steps * ranks, "config: train_batch_size ", train_batch_size,
        " is not train_micro_batch_size_per_gpu ", micro, " x gradient_accumulation_steps ", steps,
        " x ", ranks, " data ranks; give two of them, and the third follows");
  return full;
}

}  // namespace hero::dist
