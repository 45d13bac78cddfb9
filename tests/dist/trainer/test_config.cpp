// Configurations in DeepSpeed's JSON: what is read, what is refused, and how it is said.
#include <cctype>
#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/config.h>
#include <hero/dist/plan.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

std::string error_of(const std::string& text) {
  try {
    Config::parse(text, "ds.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("config: the file of the slides") {
  const hero_test::TempDir folder;
  std::ofstream(folder / "ds.json") << R"({
    "train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "Adam", "params": {"lr": 0.00015}},
    "fp16": {"enabled": true},
    "zero_optimization": true
  })";
  const Config config = Config::load(folder / "ds.json");
  CHECK(config.train_batch_size == 8);
  CHECK(config.accumulation_steps == 1);
  CHECK(config.optimizer.type == "Adam");
  CHECK(config.optimizer.options.at("lr") == 0.00015);
  CHECK(config.compute == kFloat16);
  CHECK(config.zero.stage == 1);
  const Config full = config.resolve(4);
  CHECK(full.micro_batch_size == 2);
  CHECK(Config::parse(config.text()) == config);
}

TEST_CASE("config: every member is read, written, and read again") {
  const std::string text = R"json({
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW",
                  "params": {"lr": 0.001, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1,
                             "amsgrad": true}},
    "scheduler": {"type": "WarmupDecayLR",
                  "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-3, "warmup_num_steps": 10,
                             "total_num_steps": 100, "warmup_type": "linear"}},
    "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 50,
             "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 2},
    "gradient_clipping": 0.5,
    "zero_optimization": {"stage": 3, "overlap_comm": false, "reshard": false, "mics_shard_size": 2,
                          "offload_optimizer": {"device": "cpu", "pin_memory": true},
                          "zero_quantized_weights": true, "zero_quantized_gradients": true,
                          "zero_hpz_partition_size": 4,
                          "offload_param": {"device": "cpu"}, "contiguous_gradients": true,
                          "sub_group_size": 1000000000},
    "tensor": 2, "pipe": 3, "schedule": "interleaved(2)", "checkpoint_blocks": true,
    "report": "run.html", "order": "ranks", "steps_per_print": 10, "wall_clock_breakdown": true
  })json";
  const Config config = Config::parse(text);
  CHECK(config.optimizer.options.at("beta1") == 0.8);
  CHECK(config.optimizer.options.at("amsgrad") == 1.0);
  CHECK(config.scheduler.options.at("warmup_type") == 1.0);
  CHECK(config.loss_scale.hysteresis == 3);
  CHECK(config.loss_scale.consecutive);
  CHECK(config.zero.shard_group_size == 2);
  CHECK_FALSE(config.zero.prefetch);
  CHECK_FALSE(config.zero.reshard);
  CHECK(config.zero.offload_optimizer);
  CHECK(config.zero.offload_parameters);
  CHECK(config.zero.quantized_weights);
  CHECK(config.zero.quantized_gradients);
  CHECK(config.zero.secondary_group_size == 4);
  CHECK(config.tensor == 2);
  CHECK(config.pipe == 3);
  CHECK(config.schedule == "interleaved(2)");
  CHECK(config.checkpoint_blocks);
  CHECK(config.report == "run.html");
  CHECK(config.order == Order::ranks);
  CHECK(Config::parse(config.text()) == config);
  CHECK(Config::parse("{}") == Config());
}

TEST_CASE("config: one error lists all that is wrong, with lines and what to write") {
  const std::string error = error_of(R"({
  "train_batch_sise": 8,
  "optimizer": {"type": "Adam", "params": {"lr": "fast", "beta": 0.9}},
  "fp16": {"enabled": 1},
  "tensorboard": {"enabled": true},
  "zero_optimization": {
    "stage": 1,
    "zero_quantized_weights": true,
    "offload_param": {"device": "cpu"}
  }
})");
  CHECK_THAT(error, ContainsSubstring("config: ds.json: "));
  CHECK_THAT(error, ContainsSubstring("line 2: train_batch_sise is unknown; the nearest is "
                                      "'train_batch_size'"));
  CHECK_THAT(error, ContainsSubstring("line 3: optimizer.params.lr is \"fast\", not a number"));
  CHECK_THAT(error, ContainsSubstring("line 3: optimizer.params.beta is unknown"));
  CHECK_THAT(error, ContainsSubstring("line 4: fp16.enabled is 1, not true or false"));
  CHECK_THAT(error, ContainsSubstring("line 5: tensorboard is refused"));
  CHECK_THAT(error, ContainsSubstring("line 8: zero_optimization.zero_quantized_weights is true"));
  CHECK_THAT(error, ContainsSubstring("offload_param.device needs \"stage\": 3"));
  CHECK(std::count(error.begin(), error.end(), '\n') == 0);
}

TEST_CASE("config: what cannot be done is refused, and what makes no difference is not") {
  for (const char* refused :
       {R"({"pipe": 0})",
        R"({"context": 2})",
        R"({"schedule": "1f1b"})",
        R"({"pipe": 2, "schedule": "2f1b"})",
        R"json({"pipe": 2, "schedule": "interleaved(0)"})json",
        R"json({"pipe": 2, "schedule": "interleaved(2"})json",
        R"({"pipeline": {"stages": 2}})",
        R"({"amp": {"enabled": true}})",
        R"({"zero_optimization": {"stage": 4}})",
        R"({"prescale_gradients": true})",
        R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})",
        R"({"zero_optimization": {"stage": 3, "offload_param": {"nvme_path": "/a"}}})",
        R"({"zero_optimization": {"stage": 2,
            "offload_param": {"device": "nvme", "nvme_path": "/a"}}})",
        R"({"zero_optimization": {"stage": 0,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/a"}}})",
        R"({"scheduler": {"type": "OneCycle"}})",
        R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})",
        R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5,
            "allgather_bucket_size": 6}})",
        R"({"wall_clock_breakdown": true, "steps_per_print": 0})",
        R"({"tensor": 4294967298})",
        R"({"zero_optimization": {"stage": 3, "mics_shard_size": 4294967298}})",
        R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})",
        R"({"zero_optimization": {"stage": 2, "mics_shard_size": 2}})",
        R"({"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1e8}})",
        R"({"zero_optimization": {"stage": 3, "offload_optimizer":
            {"device": "nvme", "nvme_path": "/a", "buffer_count": 9}}})",
        R"({"zero_optimization": {"stage": 3, "offload_optimizer":
            {"device": "cpu", "ratio": 0.3}}})",
        R"({"tensorboard": {"enabled": true}})",
        R"({"tensorboard": {"enable": true}})",
        R"({"compression_training": {"sparse_pruning": {"shared_parameters": {"enabled": true}}}})",
        R"({"compression_training": {"layer_reduction": {"enabled": true}}})",
        R"({"bf16": {"enabled": true, "check_grad_overflow": true}})",
        R"({"fp16": {"enable": true}})",
        R"({"communication_data_type": "fp16"})",
        R"({"scheduler": {"params": {"warmup_num_steps": 5}}})",
        R"({"optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}}})",
        R"({"optimizer": {"type": "Lamb", "params": {"max_coeff": 2.0}}})",
        R"({"train_batch_size": "auto"})",
        R"({"zero_optimization": {"stage": 1, "reduce_each": true}})",
        R"({"gradient_clipping": -1})",
        R"({"tensor": 0})",
        R"({"scheduler": {"type": "WarmupDecayLR", "params": {}}})",
        "[1]",
        "{",
        R"({"bf16": {}, "bf16": {}})"}) {
    CAPTURE(refused);
    CHECK(error_of(refused) != "");
  }
  for (
      const char* taken :
      {R"({"prescale_gradients": false, "sparse_gradients": false})", R"({"pipe": 1})",
       R"json({"pipe": 2, "schedule": "interleaved(12)"})json", R"({"report": "run.html"})",
       R"({"tensorboard": {"enabled": false}})", R"({"zero_allow_untested_optimizer": true})",
       R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8,
            "overlap_comm": true, "reduce_scatter": true, "round_robin_gradients": false}})"}) {
    CAPTURE(taken);
    CHECK(error_of(taken) == "");
  }
}

TEST_CASE(
    "config: what is off, DeepSpeed's default or without effect is accepted and changes nothing") {
  const auto zero = [](const std::string& keys) {
    return "{\"zero_optimization\": {" + keys + "}}";
  };
  const Config::Zero stages[] = {{}, {.stage = 1}, {.stage = 2}, {.stage = 3}};
  for (const int stage : {0, 1, 2, 3}) {
    const std::string text = zero("\"stage\": " + std::to_string(stage) + R"(,
      "contiguous_gradients": true, "reduce_scatter": true, "use_multi_rank_bucket_allreduce": true,
      "allgather_partitions": true, "load_from_fp32_weights": true, "elastic_checkpoint": false,
      "offload_param": null, "offload_optimizer": null, "sub_group_size": 1e9,
      "cpu_offload": false, "cpu_offload_params": false, "cpu_offload_param": null,
      "cpu_offload_use_pin_memory": false, "overlap_comm": null,
      "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
      "stage3_prefetch_bucket_size": 5e7, "stage3_param_persistence_threshold": 1e5,
      "stage3_model_persistence_threshold": 9223372036854775807,
      "param_persistence_threshold": 100000, "max_reuse_distance": 1000000000,
      "stage3_module_granularity_threshold": 0, "stage3_use_all_reduce_for_fetch_params": false,
      "stage3_gather_16bit_weights_on_model_save": false,
      "stage3_gather_fp16_weights_on_model_save": false, "ignore_unused_parameters": false,
      "legacy_stage1": false, "round_robin_gradients": false, "zero_hpz_partition_size": 1,
      "zero_quantized_weights": false, "zero_quantized_nontrainable_weights": false,
      "zero_quantized_gradients": false, "zeropp_loco_param": null, "mics_shard_size": -1,
      "mics_hierarchical_params_gather": false, "memory_efficient_linear": true,
      "pipeline_loading_checkpoint": false, "override_module_apply": true,
      "log_trace_cache_warnings": false, "enable_sanity_checks": false)");
    CAPTURE(stage);
    REQUIRE(error_of(text) == "");
    CHECK(Config::parse(text).zero == stages[stage]);
  }
  for (
      const char* taken :
      {R"({"zero_optimization": {"stage": 0, "reduce_bucket_size": 5, "allgather_bucket_size": 6,
            "overlap_comm": false, "contiguous_gradients": false, "legacy_stage1": true}})",
       R"({"zero_optimization": {"offload_optimizer": {"device": "none", "pin_memory": true,
            "nvme_path": "/a", "buffer_count": 9, "pipeline_read": true, "ratio": 0.3}}})",
       R"({"zero_optimization": null, "optimizer": {}, "scheduler": null, "bf16": null})",
       R"({"fp16": {"enabled": false, "loss_scale": "auto", "min_loss_scale": 0, "auto_cast": true}})",
       R"({"bfloat16": {"enabled": false}, "bf16": {"immediate_grad_update": true}})",
       R"({"tensorboard": {}, "wandb": {"project": "a"}, "flops_profiler": {"profile_step": 1},
           "amp": {"opt_level": "O1"}, "comms_logger": {"enabled": false, "anything": 1}})",
       R"({"compression_training": {"layer_reduction": {"enabled": false},
           "row_pruning": {"shared_parameters": {"enabled": false}, "different_groups": {}}}})",
       R"({"aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 4}})",
       R"({"activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false,
           "contiguous_memory_optimization": false, "number_checkpoints": 4,
           "synchronize_checkpoint_boundary": false, "profile": false}})",
       R"({"checkpoint": {"tag_validation": "Warn", "load_universal": false,
           "use_node_local_storage": false, "parallel_write": {"pipeline_stage": false}}})",
       R"({"pipeline": {"stages": "auto", "partition": "best", "seed_layers": false,
           "activation_checkpoint_interval": 0}, "tensor_parallel": {"autotp_size": 0}})",
       R"({"communication_data_type": null, "data_types": {"grad_accum_dtype": "fp32"},
           "gradient_predivide_factor": 1, "disable_allgather": false, "dump_state": false,
           "dataloader_drop_last": false, "memory_breakdown": false, "gradient_clipping": 0})"}) {
    CAPTURE(taken);
    REQUIRE(error_of(taken) == "");
    CHECK(Config::parse(taken) == Config());
  }

  const auto read = [&](const std::string& keys) { return Config::parse(zero(keys)).zero; };
  for (const char* stage : {"1", "2"}) {
    const std::string begin = std::string("\"stage\": ") + stage;
    CHECK(read(begin + R"(, "overlap_comm": false, "reduce_scatter": false,
                            "elastic_checkpoint": true, "allgather_partitions": false)") ==
          read(begin));
    // one of two sizes that DeepSpeed takes by itself is as if it were left out
    CHECK(read(begin + R"(, "reduce_bucket_size": 7, "allgather_bucket_size": 5e8)")
              .bucket_elements == 7);
    CHECK(read(begin + R"(, "reduce_bucket_size": 5e8, "allgather_bucket_size": 7)")
              .bucket_elements == 7);
    CHECK(read(begin + R"(, "reduce_bucket_size": 5e8)").bucket_elements == 500000000);
  }
  CHECK_FALSE(read(R"("stage": 3, "overlap_comm": false)").prefetch);
  CHECK(read(R"("stage": 3, "reduce_bucket_size": 5, "stage3_param_persistence_threshold": 0)") ==
        read(R"("stage": 3)"));
}

TEST_CASE("config: the file of DeepSpeed's CIFAR example is read at every stage") {
  for (const int stage : {0, 1, 2, 3}) {
    const std::string text = R"({
      "train_batch_size": 16, "steps_per_print": 2000,
      "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8,
                                               "weight_decay": 3e-7}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001,
                                                   "warmup_num_steps": 1000}},
      "gradient_clipping": 1.0, "prescale_gradients": false,
      "bf16": {"enabled": false},
      "fp16": {"enabled": true, "fp16_master_weights_and_grads": false, "loss_scale": 0,
               "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1,
               "initial_scale_power": 15},
      "wall_clock_breakdown": false,
      "zero_optimization": {"stage": )" +
                             std::to_string(stage) + R"(,
        "allgather_partitions": true, "reduce_scatter": true, "allgather_bucket_size": 50000000,
        "reduce_bucket_size": 50000000, "overlap_comm": true, "contiguous_gradients": true,
        "cpu_offload": false}
    })";
    REQUIRE(error_of(text) == "");
    const Config config = Config::parse(text);
    CHECK(config.zero.stage == stage);
    CHECK(config.zero.bucket_elements == (stage == 1 || stage == 2 ? 50000000 : 0));
    CHECK(config.loss_scale.initial_power == 15);
    CHECK(Config::parse(config.text()) == config);
  }
}

TEST_CASE("config: types may be written in small letters, and defaults are DeepSpeed's") {
  const auto optimizer = [](const std::string& text) {
    return Config::parse("{\"optimizer\": " + text + "}").optimizer;
  };
  for (const char* type : {"Adam", "AdamW", "SGD", "Lamb", "Lion", "Adagrad", "RMSprop",
                           "OneBitAdam", "OneBitLamb", "ZeroOneAdam"}) {
    std::string small = type, large = type;
    for (char& c : small) c = static_cast<char>(std::tolower(c));
    for (char& c : large) c = static_cast<char>(std::toupper(c));
    CHECK(optimizer("{\"type\": \"" + small + "\"}").type == type);
    CHECK(optimizer("{\"type\": \"" + large + "\"}").type == type);
  }
  CHECK(Config::parse(R"({"scheduler": {"type": "warmuplr"}})").scheduler.type == "WarmupLR");
  CHECK(Config::parse(R"({"bfloat16": {"enabled": true}})").compute == kBFloat16);
  const Config timed = Config::parse(R"({"wall_clock_breakdown": true})");
  CHECK(timed.steps_per_print == 10);

  CHECK(optimizer(R"({"type": "adam", "params": {"adam_w_mode": false}})").type == "AdamL2");
  CHECK(optimizer(R"({"type": "adamw", "params": {"adam_w_mode": false}})").type == "AdamW");
  // torch.optim.AdamW decays by 0.01 unless it is told not to
  const auto decay = [&](const std::string& params) {
    const Config::Method method = optimizer("{\"type\": \"AdamW\", \"params\": " + params + "}");
    return method.options.contains("weight_decay") ? method.options.at("weight_decay") : -1.0;
  };
  CHECK(decay(R"({"torch_adam": true})") == 0.01);
  CHECK(decay(R"({"torch_adam": true, "weight_decay": 0})") == 0.0);
  CHECK(decay(R"({"torch_adam": false})") == -1.0);
  CHECK(optimizer(R"({"type": "Adam", "params": {"torch_adam": true, "adam_w_mode": false}})")
            .options.empty());
  CHECK_THAT(error_of(R"({"optimizer": {"type": "Adamax"}})"),
             ContainsSubstring("optimizer.type is \"Adamax\"; there are Adam, AdamW"));
}

TEST_CASE("config: parameters without a gradient may be ignored at stages 0 to 2") {
  for (const char* stage : {"0", "1", "2"}) {
    const Config config = Config::parse(std::string(R"({"zero_optimization": {"stage": )") + stage +
                                        R"(, "ignore_unused_parameters": true}})");
    CHECK(config.zero.find_unused_parameters);
    CHECK_THAT(config.text(), ContainsSubstring("\"ignore_unused_parameters\": true"));
    CHECK(Config::parse(config.text()) == config);
  }
  CHECK_FALSE(Config::parse(R"({"zero_optimization": {"stage": 2}})").zero.find_unused_parameters);
  CHECK(Config::parse(R"({"zero_optimization": {"stage": 3, "ignore_unused_parameters": true}})")
            .zero == Config::Zero{.stage = 3});
}

TEST_CASE("config: of many keys that are wrong an error has eight, and of long ones the start") {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += "\"nothing" + std::to_string(i) + "\": 1, ";
  const std::string error = error_of(text + "\"" + std::string(1 << 20, 'k') + "\": 1}");
  CHECK_THAT(error, ContainsSubstring(" .. and 993 more"));
  CHECK(error.size() < 1500);
  const std::string one = error_of("{\"" + std::string(1 << 20, 'k') + "\": 1}");
  CHECK_THAT(one, ContainsSubstring("kkk... is unknown"));
  CHECK(one.size() < 300);
  const std::string type =
      error_of("{\"optimizer\": {\"type\": \"" + std::string(1 << 20, 'k') + "\"}}");
  CHECK(type.size() < 300);
}

TEST_CASE("config: optimizers in bits have DeepSpeed's options, and need DDP") {
  const auto method = [](const std::string& text) {
    const Config config = Config::parse("{\"optimizer\": " + text + "}");
    CHECK(Config::parse(config.text()) == config);
    return config.optimizer;
  };
  const Config::Method adam = method(R"({"type": "OneBitAdam", "params": {
    "lr": 4e-4, "freeze_step": 23000, "betas": [0.9, 0.99], "eps": 1e-6, "weight_decay": 0.01,
    "bias_correction": true, "cuda_aware": false, "comm_backend_name": "nccl", "max_grad_norm": 0,
    "amsgrad": false, "eps_inside_sqrt": false}})");
  CHECK(adam.options == std::map<std::string, double>{{"lr", 4e-4},
                                                      {"freeze_step", 23000},
                                                      {"beta1", 0.9},
                                                      {"beta2", 0.99},
                                                      {"eps", 1e-6},
                                                      {"weight_decay", 0.01}});
  const Config::Method lamb = method(R"({"type": "OneBitLamb", "params": {
    "lr": 11e-3, "weight_decay": 0.01, "freeze_step": 1000, "max_coeff": 0.3, "min_coeff": 0.01,
    "coeff_beta": 0.8, "factor_max": 4, "factor_min": 0.5, "factor_threshold": 0.1,
    "cuda_aware": false, "comm_backend_name": "mpi"}})");
  CHECK(lamb.options.at("max_coeff") == 0.3);
  CHECK(lamb.options.at("coeff_beta") == 0.8);
  CHECK(lamb.options.at("freeze_step") == 1000);
  const Config::Method zero_one = method(R"({"type": "ZeroOneAdam", "params": {
    "lr": 1e-3, "var_freeze_step": 1000, "var_update_scaler": 8, "local_step_scaler": 500,
    "local_step_clipper": 4}})");
  CHECK(zero_one.options.at("var_freeze_step") == 1000);
  CHECK(zero_one.options.at("var_update_scaler") == 8);
  CHECK(zero_one.options.at("local_step_scaler") == 500);
  CHECK(zero_one.options.at("local_step_clipper") == 4);

  CHECK(error_of(R"({"optimizer": {"type": "OneBitAdam"},
    "zero_optimization": {"stage": 1}})") ==
        "config: ds.json: line 1: optimizer.type is 'OneBitAdam', which needs \"stage\": 0, where "
        "every rank has whole gradients and states; with stage 1 use Adam or Lamb");
  CHECK_THAT(
      error_of(R"({"optimizer": {"type": "OneBitLamb"}, "zero_optimization": {"stage": 3}})"),
      ContainsSubstring("with stage 3 use Adam or Lamb, and zero_quantized_gradients"));
  for (const char* axis : {R"("tensor": 2)", R"("pipe": 2)"}) {
    const std::string text = std::string(R"({"optimizer": {"type": "ZeroOneAdam"}, )") + axis + "}";
    CHECK_THAT(error_of(text), ContainsSubstring("needs \"tensor\": 1 and \"pipe\": 1"));
  }
  CHECK_THAT(error_of(R"({"optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 1.5}}})"),
             ContainsSubstring("freeze_step is 1.5, not a whole number from 1 on"));
  CHECK_THAT(error_of(R"({"optimizer": {"type": "OneBitAdam", "params": {"max_grad_norm": 1}}})"),
             ContainsSubstring("write \"gradient_clipping\""));
  CHECK_THAT(error_of(R"({"optimizer": {"type": "OneBitAdam", "params": {"freeze_steps": 1}}})"),
             ContainsSubstring("the nearest is 'freeze_step'"));
}

TEST_CASE("config: a text that is not UTF-8 is an Error where the config is written") {
  Config config;
  config.report = "run \xff.html";
  try {
    config.text();
    FAIL("it is written");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("is not UTF-8"));
  }
}

TEST_CASE("config: of three batch sizes two make the third") {
  Config config;
  CHECK(config.resolve(4).train_batch_size == 4);
  config.train_batch_size = 24;
  CHECK(config.resolve(4).micro_batch_size == 6);
  config.accumulation_steps = 3;
  CHECK(config.resolve(4).micro_batch_size == 2);
  config.micro_batch_size = 2;
  CHECK(config.resolve(4).train_batch_size == 24);
  CHECK_THROWS_WITH(config.resolve(3),
                    ContainsSubstring("24") && ContainsSubstring("3 data ranks"));
  config.accumulation_steps = 0;
  CHECK(config.resolve(2).accumulation_steps == 6);
  CHECK_THROWS_WITH(config.resolve(5), ContainsSubstring("train_batch_size 24"));
}

TEST_CASE("config: a plan's file is one, and says all of the strategy") {
  PlanRequest request;
  request.global_batch = 64;
  Strategy s{.tensor = 2, .replicate = 2, .shard = 4, .sharding = PlanSharding::hybrid};
  s.micro_batch = 2;
  s.micro_batches = 4;
  s.reshard = false;
  const Config config = Config::parse(config_text(request, s));
  CHECK(config.resolve(8).train_batch_size == 64);
  CHECK(config.zero.stage == 3);
  CHECK(config.zero.shard_group_size == 4);
  CHECK_FALSE(config.zero.reshard);
  CHECK(config.tensor == 2);
  CHECK(config.compute == kBFloat16);
  CHECK(config.pipe == 1);
  CHECK(config.zero.reduce_each);
  Strategy away = s;
  away.offload = PlanOffload::disk;
  request.cluster.disk_folder = "/disk";
  const Config files = Config::parse(config_text(request, away));
  CHECK(files.zero.states_folder == "/disk");
  CHECK(files.zero.parameters_folder == "/disk");
  CHECK_FALSE(files.zero.offload_optimizer);
  CHECK(Config::parse(files.text()) == files);
  CHECK_FALSE(config.checkpoint_blocks);
  s.pipe = 2;
  s.checkpoint = true;
  s.schedule = Schedule::zero_bubble();
  const Config stages = Config::parse(config_text(request, s));
  CHECK(stages.pipe == 2);
  CHECK(stages.schedule == "zero_bubble");
  CHECK(stages.checkpoint_blocks);
}

}  // namespace
