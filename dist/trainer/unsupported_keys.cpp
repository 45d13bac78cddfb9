// Keys of DeepSpeed's files that a Config does not have: each is accepted if it is switched off or
// has DeepSpeed's default, and otherwise refused with advice on what to do instead.
#include <algorithm>

#include <hero/core/json/json.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

using core::JSON;

namespace {

void read_checkpointing(JSONSection& root) {
  JSONSection section = root.section("activation_checkpointing");
  const bool is_contiguous = section.has("contiguous_memory_optimization") &&
                             *section.take("contiguous_memory_optimization") != JSON(false);
  section.only("partition_activations", {false}, "\"tensor\" has no copies to partition");
  section.only("cpu_checkpointing", {false}, "the model says what is offloaded: offload()");
  section.only("contiguous_memory_optimization", {false}, "storages are taken from a pool");
  section.any_flag({"synchronize_checkpoint_boundary"});  // nothing waits there
  section.only("profile", {false}, "write \"wall_clock_breakdown\": true");
  // of the one buffer, which there is only with contiguous_memory_optimization
  if (!is_contiguous) {
    section.any("number_checkpoints");
  } else {
    section.only("number_checkpoints", {nullptr},
                 "the model says what is computed again: checkpoint() in its forward");
  }
  section.finish();
}

// The file's threads and blocks, which only "nvme" has.
void read_aio(JSONSection& root, const Config& config) {
  JSONSection section = root.section("aio");
  const bool is_file = !config.zero.states_folder.empty() || !config.zero.parameters_folder.empty();
  const std::vector<std::pair<const char*, JSON>> defaults = {
      {"block_size", 1048576},     {"queue_depth", 8},       {"thread_count", 1},
      {"intra_op_parallelism", 1}, {"single_submit", false}, {"overlap_events", true},
      {"use_gds", false}};
  for (const auto& [key, value] : defaults) {
    if (is_file) {
      section.only(key, {value}, "the file's threads and blocks are core::SwapOptions'");
    } else {
      section.any(key);
    }
  }
  section.finish();
}

void read_checkpoint(JSONSection& root) {
  JSONSection section = root.section("checkpoint");
  // all ranks agree about every checkpoint, it loads on any number of ranks, and each rank writes
  // its parts while others do
  section.any({"tag_validation", "parallel_write"});
  section.any_flag({"load_universal", "checkpoint_serialization"});
  section.only("use_node_local_storage", {false}, "dist::Checkpointer writes into one folder");
  section.only("writer", {nullptr}, "dist::Checkpointer writes in the background by itself");
  section.finish();
}

void read_pipeline(JSONSection& root) {
  JSONSection section = root.section("pipeline");
  const char* stages = "write \"pipe\": STAGES beside it";
  section.only("stages", {"auto", nullptr}, stages);
  section.only("partition", {"best"}, stages);
  section.only("seed_layers", {false}, "a seed is the program's: manual_seed()");
  section.only("activation_checkpoint_interval", {0}, "write \"checkpoint_blocks\": true");
  section.any_flag({"pipe_partitioned", "grad_partitioned", "use_reentrant"});
  section.finish();
}

// The dtype in which gradients are added up and sent is that of the parameters.
void read_dtypes(JSONSection& root, const Config& config) {
  std::vector<JSON> own = {nullptr, "fp32", "float32", "float"};
  if (config.compute == kFloat16) own = {nullptr, "fp16", "float16", "half"};
  if (config.compute == kBFloat16) own = {nullptr, "bf16", "bfp16", "bfloat16"};
  root.only("communication_data_type", own, "gradients travel in their own dtype");
  root.only("seq_parallel_communication_data_type", {nullptr, "fp32"},
            "what dist::context_parallel() sends has its own dtype");
  root.only("fp32_allreduce", {false}, "gradients travel in their own dtype");
  JSONSection section = root.section("data_types");
  section.only("grad_accum_dtype", own, "gradients are added up in the parameters' dtype");
  section.finish();
}

bool is_enabled(const JSON& feature) {
  return feature.is_object() && feature.contains("enabled") && feature["enabled"] != JSON(false);
}

// Each of its techniques is switched on by itself, most of them in "shared_parameters".
void read_compression(JSONSection& root) {
  const char* why = "Hero does not compress models";
  const JSON* techniques = root.take("compression_training");
  if (techniques == nullptr || techniques->is_null() || *techniques == JSON(false)) return;
  bool is_off = techniques->is_object() && !is_enabled(*techniques);
  if (is_off) {
    for (const auto& [name, each] : techniques->members()) {
      const JSON* shared = each.find("shared_parameters");
      is_off = is_off && !is_enabled(each) && (shared == nullptr || !is_enabled(*shared));
    }
  }
  if (!is_off) root.problem("compression_training", std::string("is refused: ") + why);
  root.off("quantize_training", why,
           {"quantize_bits", "quantize_schedule", "quantize_groups", "quantize_verbose",
            "quantize_change_ratio", "quantize_type", "quantize_rounding", "quantizer_kernel",
            "fp16_mixed_quantize", "quantize_weight_in_forward", "eigenvalue"});
  root.off("eigenvalue", why,
           {"verbose", "max_iter", "tol", "stability", "gas_boundary_resolution", "layer_name",
            "layer_num"});
}

void read_monitors(JSONSection& root) {
  const char* why = "nn::MetricsWriter writes them";
  root.off("tensorboard", why, {"output_path", "job_name"});
  root.off("csv_monitor", why, {"output_path", "job_name"});
  root.off("wandb", why, {"group", "team", "project"});
  root.off("comet", why,
           {"samples_log_interval", "project", "workspace", "api_key", "experiment_name",
            "experiment_key", "online", "mode"});
  root.off("flops_profiler", "hero::Profiler counts them",
           {"recompute_fwd_factor", "profile_step", "module_depth", "top_modules", "detailed",
            "output_file"});
  root.off("comms_logger", "world.traffic() counts every call",
           {"verbose", "prof_all", "debug", "prof_ops"});
  root.only("dump_state", {false}, "Config::text() is the state");
  root.only("memory_breakdown", {false}, "current_ledger() has it by tag");
}

void read_schedules(JSONSection& root) {
  root.off("autotuning", "hero-plan chooses before a run",
           {"fast", "results_dir", "exps_dir", "overwrite", "metric", "start_profile_step",
            "end_profile_step", "num_tuning_micro_batch_sizes", "tuner_type",
            "tuner_early_stopping", "tuner_num_trials", "arg_mappings", "max_train_batch_size",
            "min_train_batch_size", "max_train_micro_batch_size_per_gpu",
            "min_train_micro_batch_size_per_gpu", "mp_size", "model_info", "model_info_path"});
  root.off("elasticity", "checkpoints go on with any number of ranks",
           {"max_train_batch_size", "micro_batch_sizes", "min_gpus", "max_gpus", "min_time",
            "prefer_larger_batch", "ignore_non_elastic_batch_info", "version", "num_gpus_per_node",
            "model_parallel_size"});
  const char* loader = "the program's loader chooses samples";
  root.off("data_efficiency", loader, {"seed", "data_routing", "data_sampling"});
  root.off(
      "curriculum_learning", loader,
      {"curriculum_type", "min_difficulty", "max_difficulty", "schedule_type", "schedule_config"});
  root.only("dataloader_drop_last", {false}, "write .drop_last of the program's loader");
}

void read_model(JSONSection& root) {
  const char* forward = "the model's forward is the program's";
  root.off("progressive_layer_drop", forward, {"theta", "gamma"});
  const JSON* sparse = root.take("sparse_attention");
  if (sparse != nullptr && !sparse->is_null() && *sparse != JSON(false)) {
    root.problem("sparse_attention", std::string("is refused: ") + forward);
  }
  root.off("hybrid_engine", "model.generate() is there in training, too",
           {"max_out_tokens", "inference_tp_size", "release_inference_cache", "pin_parameters",
            "tp_gather_partition_size"});
  root.off("compile", "the model runs as it is written",
           {"backend", "kwargs", "deepcompile", "offload_activation", "offload_opt_states",
            "double_buffer", "symmetric_memory", "debug_log", "free_activation"});
  root.off("torch_autocast", "write fp16 or bf16", {"dtype", "lower_precision_safe_modules"});
  root.off("nebula", "dist::Checkpointer writes in the background by itself",
           {"persistent_storage_path", "persistent_time_interval", "num_of_version_in_retention",
            "enable_nebula_load", "load_path"});
  root.only("use_data_before_expert_parallelism", {false}, "experts lie on neighbouring ranks");
  root.only("graph_harvesting", {false}, "write it in the program: a recorded step");
}

// Apex's options stand in "amp" as they are, so that it has no list of keys.
void read_amp(JSONSection& root) {
  const JSON* amp = root.take("amp");
  if (amp == nullptr || amp->is_null() || *amp == JSON(false)) return;
  if (!amp->is_object() || is_enabled(*amp)) {
    root.problem("amp", "is refused: write fp16 or bf16");
  }
}

// "autotp_size" of 0, which is the default, switches it off; 1 is a rank by itself.
void read_tensor_parallel(JSONSection& root) {
  JSONSection section = root.section("tensor_parallel");
  const char* why = "write \"tensor\": RANKS beside it";
  section.only("autotp_size", {0, 1, nullptr}, why);
  section.only("tp_size", {1, nullptr}, why);
  section.any({"tp_grain_size", "tp_overlap_comm", "mpu", "tp_group"});
  JSONSection inner = section.section("tensor_parallel");
  inner.only("tp_size", {1, nullptr}, why);
  inner.any({"tp_grain_size", "mpu", "tp_group"});
  inner.finish();
  section.finish();
  root.only("sequence_parallel_size", {1, nullptr},
            "write dist::context_parallel() in the program");
  root.only("context", {1}, "write dist::context_parallel() in the program");
}

}  // namespace

void refuse_unsupported(JSONSection& root, const Config& config) {
  read_checkpointing(root);
  read_aio(root, config);
  read_checkpoint(root);
  read_pipeline(root);
  read_dtypes(root, config);
  read_compression(root);
  read_monitors(root);
  read_schedules(root);
  read_model(root);
  read_amp(root);
  read_tensor_parallel(root);
  root.only("prescale_gradients", {false},
            "sums of halves are made in float32 and cannot overflow");
  root.only("gradient_predivide_factor", {1.0}, "sums are divided once, by the number of ranks");
  root.only("sparse_gradients", {false}, "gradients are dense");
  root.any_flag({"disable_allgather"});       // parameters are gathered in one call
  root.any({"zero_allow_untested_optimizer",  // every optimizer that there is was tested
            "zero_force_ds_cpu_optimizer",    // the CPU steps what lies there, with the same bits
            "allgather_size",                 // of a form of stage 1 that is gone
            "vocabulary_size",                // DeepSpeed warns of sizes that tensor cores dislike
            "timers"});                       // of its log's samples per second
}

}  // namespace hero::dist
