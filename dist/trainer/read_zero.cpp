// "zero_optimization": which rung, and where its shards lie.
#include <hero/core/json/reader.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

using nlohmann::json;

namespace {

// True for the host's memory; a folder for a file.
bool read_place(JSONSection& section, std::string& folder) {
  const std::string device = section.text("device", "none", {"none", "cpu", "nvme"});
  // shards of the host are always page-locked; see docs/guides/deepspeed.md
  section.any("pin_memory");
  folder = section.text("nvme_path", "");
  if (device == "nvme" && folder.empty()) {
    section.problem("device", "is nvme and needs \"nvme_path\", a folder on that disk");
  }
  if (device != "nvme" && !folder.empty()) {
    section.problem("nvme_path", "needs \"device\": \"nvme\"");
    folder.clear();
  }
  return device == "cpu";
}

void read_offload(JSONSection& section, Config::Zero& zero) {
  JSONSection optimizer = section.section("offload_optimizer");
  if (optimizer.present()) {
    zero.offload_optimizer = read_place(optimizer, zero.states_folder);
    const char* window = "windows of 256 MiB are read ahead and written behind";
    optimizer.refuse("buffer_count", window);
    optimizer.only("pipeline", true, window);
    optimizer.only("pipeline_read", true, window);
    optimizer.only("pipeline_write", true, window);
    optimizer.only("fast_init", false, "states are made at the first step");
    optimizer.only("ratio", 1.0, "all states are offloaded or none");
    if (zero.stage == 0 && (zero.offload_optimizer || !zero.states_folder.empty())) {
      optimizer.problem("device", "needs stage 1, 2 or 3");
    }
    optimizer.finish();
  }
  JSONSection parameters = section.section("offload_param");
  if (!parameters.present()) return;
  zero.offload_parameters = read_place(parameters, zero.parameters_folder);
  const char* slots = "each unit has a slot of its own size in the file";
  parameters.refuse("buffer_count", slots);
  parameters.refuse("buffer_size", slots);
  parameters.refuse("max_in_cpu", slots);
  if (zero.stage != 3 && (zero.offload_parameters || !zero.parameters_folder.empty())) {
    parameters.problem("device", "needs stage 3, which alone has parameters in shards");
  }
  parameters.finish();
}

void read_buckets(JSONSection& section, Config::Zero& zero) {
  const bool buckets = zero.stage == 1 || zero.stage == 2;
  const int64_t reduce = section.integer("reduce_bucket_size", 0, 1);
  const int64_t gather = section.integer("allgather_bucket_size", 0, 1);
  if (!buckets && reduce != 0) {
    section.problem("reduce_bucket_size", "needs stage 1 or 2; stage 3 reduces module by module");
  }
  if (!buckets && gather != 0) {
    section.problem("allgather_bucket_size",
                    "needs stage 1 or 2; stage 3 gathers module by module");
  }
  if (reduce != 0 && gather != 0 && reduce != gather) {
    section.problem("allgather_bucket_size",
                    "differs from reduce_bucket_size; what is reduced together is gathered so");
  }
  if (buckets) zero.bucket_elements = reduce != 0 ? reduce : gather;
  if (zero.stage == 3) {
    zero.prefetch = section.flag("overlap_comm", true);
  } else {
    section.only("overlap_comm", true, "buckets are reduced while backward runs");
  }
}

void read_reduction(JSONSection& section, Config::Zero& zero) {
  zero.reduce_each = section.flag("reduce_each", false);
  if (zero.reduce_each && zero.stage < 2) {
    section.problem("reduce_each", "needs stage 2 or 3; the others keep whole gradients anyhow");
  }
}

void read_stage3(JSONSection& section, Config::Zero& zero) {
  const char* two =
      "at most two units are gathered beside the root's; see docs/tutorials/17_fsdp.md";
  section.refuse("stage3_max_live_parameters", two);
  section.refuse("stage3_prefetch_bucket_size",
                 "a unit is gathered ahead; overlap_comm switches it");
  section.only("stage3_param_persistence_threshold", 0, "no parameter stays whole between steps");
  section.only("stage3_model_persistence_threshold", 0, "no parameter stays whole between steps");
  section.any("stage3_gather_16bit_weights_on_model_save");  // dist::save_full() always gathers
  if (zero.stage == 3) {
    const int64_t distance = section.integer("stage3_max_reuse_distance", 0);
    if (distance != 0) {
      section.problem("stage3_max_reuse_distance",
                      "is a number of elements; 0 frees units after forward, 'reshard': false "
                      "keeps them until backward");
    }
    zero.reshard = section.flag("reshard", true);
    zero.replicas_of = static_cast<int>(section.integer("mics_shard_size", 0, 1));
    zero.quantized_weights = section.flag("zero_quantized_weights", false);
    zero.quantized_gradients = section.flag("zero_quantized_gradients", false);
    const int64_t secondary = section.integer("zero_hpz_partition_size", 1, 1);
    zero.secondary_of = secondary == 1 ? 0 : static_cast<int>(secondary);
  } else {
    for (const char* key : {"stage3_max_reuse_distance", "reshard", "mics_shard_size"}) {
      section.refuse(key, "it needs stage 3");
    }
    section.only("zero_quantized_weights", false, "it needs stage 3");
    section.only("zero_quantized_gradients", false, "it needs stage 3");
    section.only("zero_hpz_partition_size", 1, "it needs stage 3");
  }
}

void refuse_rest_of_zero(JSONSection& section) {
  section.only("zero_quantized_nontrainable_weights", false,
               "zero_quantized_weights quantises all that is gathered");
  section.only("mics_hierarchical_params_gather", false, "parameters are gathered in one call");
  section.only("contiguous_gradients", true, "gradients of a bucket lie in one array");
  section.only("reduce_scatter", true, "gradients are reduced to their owners");
  section.only("allgather_partitions", true, "parameters are gathered from their owners");
  section.only("round_robin_gradients", false, "owners' parts are equal");
  section.only("use_multi_rank_bucket_allreduce", true, "a bucket is for all owners");
  section.only("ignore_unused_parameters", false, "a parameter without gradient is an Error");
  section.only("load_from_fp32_weights", true, "checkpoints hold the parameters' own dtype");
  section.only("elastic_checkpoint", true, "checkpoints load on any number of ranks");
  section.only("legacy_stage1", false, "there is one stage 1");
  section.only("memory_efficient_linear", true, "a weight is never copied for backward");
  section.refuse("cpu_offload", "write \"offload_optimizer\": {\"device\": \"cpu\"}");
  section.refuse("cpu_offload_params", "write \"offload_param\": {\"device\": \"cpu\"}");
  section.refuse("param_persistence_threshold", "no parameter stays whole between steps");
}

}  // namespace

Config::Zero read_zero(JSONSection& root) {
  Config::Zero zero;
  if (!root.has("zero_optimization")) {
    root.any("zero_optimization");
    return zero;
  }
  const json* value = root.take("zero_optimization");
  if (value->is_boolean()) {  // the first form of the key: stage 1
    zero.stage = value->get<bool>() ? 1 : 0;
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
  section.any("sub_group_size");  // a step makes no copies, so that its tiles have no size
  refuse_rest_of_zero(section);
  section.finish();
  return zero;
}

}  // namespace hero::dist
