// Reads "zero_optimization": the strategy, and where its shards are kept.
#include <limits>

#include <hero/core/json/json.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

using core::JSON;

namespace {

// True for the host's memory; a folder for a file.
bool read_place(JSONSection& section, std::string& folder) {
  const std::string device = section.text("device", "none", {"none", "cpu", "nvme"});
  section.any_flag({"pin_memory"});  // shards of the host are always page-locked
  folder = section.text("nvme_path", "");
  if (device == "nvme" && folder.empty()) {
    section.problem("device", "is nvme and needs \"nvme_path\", a folder on that disk");
  }
  if (!section.has("device") && !folder.empty()) {
    section.problem("nvme_path", "needs \"device\": \"nvme\"");
  }
  if (device != "nvme") folder.clear();
  return device == "cpu";
}

// Sizes of the buffers of a file, which only "nvme" has: what DeepSpeed takes by itself, or any
// where nothing lies in a file.
void read_buffers(JSONSection& section, bool is_file, const std::map<std::string, JSON>& sizes,
                  const char* why) {
  for (const auto& [key, size] : sizes) {
    is_file ? section.only(key, {size}, why) : section.any(key);
  }
}

void read_offload(JSONSection& section, Config::Zero& zero) {
  JSONSection optimizer = section.section("offload_optimizer");
  if (optimizer.present()) {
    zero.offload_optimizer = read_place(optimizer, zero.states_folder);
    const bool is_file = !zero.states_folder.empty();
    read_buffers(optimizer, is_file, {{"buffer_count", 4}},
                 "windows of 256 MiB are read ahead and written behind");
    optimizer.any_flag({"pipeline", "pipeline_read", "pipeline_write"});  // windows always overlap
    optimizer.any_flag({"fast_init"});  // states are made at the first step
    if (zero.stage == 3 && (is_file || zero.offload_optimizer)) {
      optimizer.only("ratio", {1.0}, "all states are offloaded or none");
    } else {
      optimizer.any("ratio");
    }
    if (zero.stage == 0 && (zero.offload_optimizer || is_file)) {
      optimizer.problem("device", "needs \"stage\": 1, 2 or 3");
    }
    optimizer.finish();
  }
  JSONSection parameters = section.section("offload_param");
  if (!parameters.present()) return;
  zero.offload_parameters = read_place(parameters, zero.parameters_folder);
  const bool is_file = !zero.parameters_folder.empty();
  read_buffers(parameters, is_file,
               {{"buffer_count", 5}, {"buffer_size", 1e8}, {"max_in_cpu", 1e9}},
               "each unit has a slot of its own size in the file");
  if (zero.stage != 3 && (zero.offload_parameters || is_file)) {
    parameters.problem("device", "needs \"stage\": 3, which alone has parameters in shards");
  }
  parameters.finish();
}

// Stage 0 has no buckets in DeepSpeed, and stage 3 none here: it reduces and gathers unit by unit.
void read_buckets(JSONSection& section, Config::Zero& zero) {
  constexpr int64_t kDefault = 500'000'000;  // DeepSpeed's, of both
  int64_t reduce = section.integer("reduce_bucket_size", 0, 1);
  int64_t gather = section.integer("allgather_bucket_size", 0, 1);
  if (zero.stage == 1 || zero.stage == 2) {
    // as if it were left out
    if (reduce == kDefault && gather != 0) reduce = gather;
    if (gather == kDefault && reduce != 0) gather = reduce;
    if (reduce != 0 && gather != 0 && reduce != gather) {
      section.problem("allgather_bucket_size",
                      "differs from reduce_bucket_size; what is reduced together is gathered so");
    }
    zero.bucket_elements = reduce != 0 ? reduce : gather;
  }
  const JSON* overlap = section.take("overlap_comm");
  if (overlap == nullptr || overlap->is_null()) return;
  const bool overlaps = section.flag("overlap_comm", true);
  if (zero.stage == 3) zero.prefetch = overlaps;  // buckets always overlap with backward
}

void read_reduction(JSONSection& section, Config::Zero& zero) {
  zero.reduce_each = section.flag("reduce_each", false);
  if (zero.reduce_each && zero.stage < 2) {
    section.problem("reduce_each",
                    "needs \"stage\": 2 or 3; the others keep whole gradients anyhow");
  }
}

// Limits of what stage 3 gathers, each by two names: DeepSpeed's own values, or none.
void read_stage3_limits(JSONSection& section, const Config::Zero& zero) {
  struct Limit {
    const char* name;
    std::vector<JSON> values;
    const char* why;
  };
  const char* whole = "no parameter stays whole between steps";
  const std::vector<Limit> limits = {
      {"max_live_parameters",
       {1e9},
       "two or three units are gathered at a time, and the program says which modules are units: "
       "docs/tutorials/17_fsdp.md"},
      {"prefetch_bucket_size", {5e7}, "a unit is gathered ahead; overlap_comm switches it"},
      {"param_persistence_threshold", {0, 1e5}, whole},
      {"model_persistence_threshold", {0, std::numeric_limits<int64_t>::max()}, whole},
      {"max_reuse_distance",
       {0, 1e9},
       "units are freed after forward; \"reshard\": false keeps them until backward"},
      {"module_granularity_threshold",
       {0},
       "the program says which modules are units: docs/tutorials/17_fsdp.md"}};
  for (const Limit& limit : limits) {
    for (const std::string& key : {std::string(limit.name), std::string("stage3_") + limit.name}) {
      zero.stage == 3 ? section.only(key, limit.values, limit.why) : section.any(key);
    }
  }
}

void read_stage3(JSONSection& section, Config::Zero& zero) {
  read_stage3_limits(section, zero);
  // dist::save_full() always gathers
  section.any_flag({"gather_16bit_weights_on_model_save",
                    "stage3_gather_16bit_weights_on_model_save",
                    "stage3_gather_fp16_weights_on_model_save"});
  section.any_flag({"use_all_reduce_for_fetch_params", "stage3_use_all_reduce_for_fetch_params"});
  section.any_flag({"memory_efficient_linear"});  // a weight is never copied for backward
  section.only("zeropp_loco_param", {nullptr}, "errors of int4 are not kept");
  // -1 is DeepSpeed's word for none
  const JSON* mics = section.take("mics_shard_size");
  const bool has_mics = mics != nullptr && *mics != JSON(-1);
  if (zero.stage == 3) {
    zero.reshard = section.flag("reshard", true);
    if (has_mics) zero.shard_group_size = section.count("mics_shard_size", 0);
    zero.quantized_weights = section.flag("zero_quantized_weights", false);
    zero.quantized_gradients = section.flag("zero_quantized_gradients", false);
    const int secondary = section.count("zero_hpz_partition_size", 1);
    zero.secondary_group_size = secondary == 1 ? 0 : secondary;
    section.only("zero_quantized_nontrainable_weights", {false},
                 "zero_quantized_weights quantises all that is gathered");
  } else {
    const char* why = "it needs \"stage\": 3";
    if (has_mics) section.refuse("mics_shard_size", why);
    section.only("reshard", {true}, why);
    section.only("zero_quantized_weights", {false}, why);
    section.only("zero_quantized_gradients", {false}, why);
    section.only("zero_quantized_nontrainable_weights", {false}, why);
    section.only("zero_hpz_partition_size", {1}, why);
  }
  if (zero.shard_group_size > 0) {
    section.only("mics_hierarchical_params_gather", {false}, "parameters are gathered in one call");
  } else {
    section.any_flag({"mics_hierarchical_params_gather"});
  }
}

// What DeepSpeed has by other names, or before.
void read_old_names(JSONSection& section) {
  section.only("cpu_offload", {false, nullptr},
               "write \"offload_optimizer\": {\"device\": \"cpu\"}");
  for (const char* key : {"cpu_offload_param", "cpu_offload_params"}) {
    section.only(key, {false, nullptr}, "write \"offload_param\": {\"device\": \"cpu\"}");
  }
  section.any_flag({"cpu_offload_use_pin_memory"});
}

// DeepSpeed passes over parameters without a gradient unless it is told not to. Here one is an
// Error unless the file says otherwise, since to look for them costs the overlap with backward.
void read_unused(JSONSection& section, Config::Zero& zero) {
  const bool ignored = section.flag("ignore_unused_parameters", false);
  zero.find_unused_parameters = ignored && zero.stage < 3;  // stage 3 asks no rank for them
}

void read_rest_of_zero(JSONSection& section, const Config::Zero& zero) {
  // how gradients and parameters are sent, which is the same whatever the file says
  section.any_flag({"contiguous_gradients", "reduce_scatter", "allgather_partitions",
                    "round_robin_gradients", "use_multi_rank_bucket_allreduce"});
  section.any_flag({"elastic_checkpoint"});  // checkpoints load on any number of ranks
  // of Python, and of DeepSpeed's own checks
  section.any_flag({"override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks"});
  section.any("sub_group_size");  // a step makes no copies, so that its tiles have no size
  section.only("pipeline_loading_checkpoint", {false}, "ranks read their parts at the same time");
  if (zero.stage == 1) {
    section.only("legacy_stage1", {false}, "there is one stage 1");
  } else {
    section.any_flag({"legacy_stage1"});
  }
  if (zero.stage == 0) {
    section.any_flag({"load_from_fp32_weights"});
  } else {
    section.only("load_from_fp32_weights", {true}, "checkpoints hold the float32 masters");
  }
}

}  // namespace

Config::Zero read_zero(JSONSection& root) {
  Config::Zero zero;
  if (!root.has("zero_optimization")) {
    root.any("zero_optimization");
    return zero;
  }
  const JSON* value = root.take("zero_optimization");
  if (value->is_boolean() || value->is_null()) {  // the first form of the key: stage 1
    zero.stage = *value == JSON(true) ? 1 : 0;
    return zero;
  }
  JSONSection section = root.section("zero_optimization");
  if (!section.present()) return zero;
  const int64_t stage = section.integer("stage", 0);
  if (stage > 3) section.problem("stage", "is more than 3");
  zero.stage = stage > 3 ? 3 : static_cast<int>(stage);
  read_buckets(section, zero);
  read_offload(section, zero);
  read_stage3(section, zero);
  read_reduction(section, zero);
  read_unused(section, zero);
  read_old_names(section);
  read_rest_of_zero(section, zero);
  section.finish();
  return zero;
}

}  // namespace hero::dist
