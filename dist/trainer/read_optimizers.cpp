// Optimizers and schedules by DeepSpeed's names.
#include <algorithm>
#include <vector>

#include <hero/core/json/json.h>
#include <hero/core/threads/at_fork.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

using core::JSON;

namespace {

using Numbers = std::map<std::string, double>;
using Names = std::vector<const char*>;

struct Known {
  const char* type;
  Names numbers;
  Names flags;
  bool betas;
  Names counts = {};  // whole numbers above 0
};

// Options by the names that file and optimizer have in common.
const std::vector<Known>& optimizers() {
  static const std::vector<Known> list = {
      {"Adam", {"lr", "eps", "weight_decay"}, {"amsgrad"}, true},
      {"AdamW", {"lr", "eps", "weight_decay"}, {"amsgrad"}, true},
      {"SGD", {"lr", "momentum", "dampening", "weight_decay"}, {"nesterov"}, false},
      {"Lamb", {"lr", "eps", "weight_decay"}, {}, true},
      {"Lion", {"lr", "weight_decay"}, {}, true},
      {"Adagrad",
       {"lr", "lr_decay", "initial_accumulator_value", "eps", "weight_decay"},
       {},
       false},
      {"RMSprop", {"lr", "alpha", "eps", "weight_decay", "momentum"}, {"centered"}, false},
      {"OneBitAdam", {"lr", "eps", "weight_decay"}, {}, true, {"freeze_step"}},
      {"OneBitLamb",
       {"lr", "eps", "weight_decay", "max_coeff", "min_coeff", "coeff_beta", "factor_max",
        "factor_min", "factor_threshold"},
       {},
       true,
       {"freeze_step"}},
      {"ZeroOneAdam",
       {"lr", "eps", "weight_decay"},
       {},
       true,
       {"var_freeze_step", "var_update_scaler", "local_step_scaler", "local_step_clipper"}}};
  return list;
}
[[maybe_unused]] const bool kOptimizersAtFork =
    core::at_fork([] { optimizers(); });  // see [note: forks]

std::string listed(const std::vector<const char*>& names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// The type of a section as it is spelt in `types`, whichever letters are capitals, as in DeepSpeed;
// "" where it is missing or none of them.
std::string read_type(JSONSection& section, const Names& types) {
  const auto lower = [](std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
  };
  const JSON* value = section.take("type");
  if (value != nullptr && value->is_string()) {
    const std::string given = lower(value->text());
    for (const char* type : types) {
      if (given == lower(type)) return type;
    }
  }
  section.problem("type", (value == nullptr ? "is missing" : "is " + core::shown(*value)) +
                              "; there are " + listed(types));
  return "";
}

void read_numbers(JSONSection& section, const Names& names, Numbers& into) {
  for (const char* name : names) {
    if (section.has(name))
      into[name] = section.number(name, 0.0);
    else
      section.any(name);
  }
}

void read_counts(JSONSection& section, const Names& names, Numbers& into) {
  for (const char* name : names) {
    const int64_t count = section.integer(name, 0, 1);
    if (count > 0) into[name] = static_cast<double>(count);
  }
}

// What DeepSpeed's optimizers in bits have beside numbers.
void read_bits(JSONSection& params) {
  params.any("cuda_aware");         // the backend of the ranks knows
  params.any("comm_backend_name");  // ranks have one backend for everything
  params.only("amsgrad", {false}, "v stays after the freeze");
  params.only("eps_inside_sqrt", {false}, "eps is added to the root");
}

// What PyTorch's and DeepSpeed's optimizers have beside numbers.
void read_implementation(JSONSection& params, const Config::Method& method) {
  params.any_flag({"fused", "foreach", "capturable", "differentiable", "set_grad_none"});
  params.only("maximize", {false}, "write the negative loss in the program");
  params.only("max_grad_norm", {0.0}, "write \"gradient_clipping\" at the top of the file");
  if (method.type == "Lamb") {
    params.only("eps_inside_sqrt", {false}, "eps is added to the root");
    params.only("amsgrad", {false}, "Lamb has no maximum of v");
    const char* why = "Lamb's quotient |p| / |d| has no limits; OneBitLamb's has, with stage 0";
    params.only("max_coeff", {10.0}, why);
    params.only("min_coeff", {0.01}, why);
  }
  if (method.type == "Adagrad") params.only("amsgrad", {false}, "Adagrad has no maximum of v");
  params.only("fp32_optimizer_states", {true}, "states are float32");
}

// The implementation of PyTorch has its own decay.
void read_adam(JSONSection& params, Config::Method& method) {
  const bool is_torch = params.flag("torch_adam", false);
  const bool decouples = params.flag("adam_w_mode", true) || method.type == "AdamW";
  if (!decouples) {
    method.type = "AdamL2";
  } else if (is_torch && !method.options.contains("weight_decay")) {
    method.options["weight_decay"] = 0.01;
  }
}

void read_warmup_type(JSONSection& params, Numbers& into) {
  const std::string type = params.text("warmup_type", "log", {"log", "linear"});
  if (type == "linear") into["warmup_type"] = 1.0;
}

void require(JSONSection& section, const Names& names, const Numbers& have) {
  for (const char* name : names) {
    if (!have.contains(name)) section.problem(name, "is missing");
  }
}

void read_curve(const std::string& type, JSONSection& params, Numbers& into) {
  if (type == "WarmupCosineLR") {
    read_numbers(params, {"warmup_min_ratio", "warmup_num_steps", "cos_min_ratio"}, into);
  } else {
    read_numbers(params, {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps"}, into);
  }
  read_warmup_type(params, into);
  if (type == "WarmupLR") return;
  read_numbers(params, {"total_num_steps"}, into);
  require(params, {"total_num_steps"}, into);
}

}  // namespace

Config::Method read_optimizer(JSONSection section) {
  Config::Method method;
  if (!section.present() || section.empty()) return method;
  Names types;
  for (const Known& each : optimizers()) types.push_back(each.type);
  method.type = read_type(section, types);
  if (method.type.empty()) return method;
  const auto known = std::find_if(optimizers().begin(), optimizers().end(),
                                  [&](const Known& each) { return method.type == each.type; });
  section.any_flag({"legacy_fusion"});  // there is one implementation of each optimizer
  JSONSection params = section.section("params");
  read_numbers(params, known->numbers, method.options);
  read_counts(params, known->counts, method.options);
  if (!known->counts.empty()) read_bits(params);
  for (const char* name : known->flags) {
    if (params.flag(name, false)) method.options[name] = 1.0;
  }
  double first = 0.0, second = 0.0;
  if (known->betas && params.pair("betas", first, second)) {
    method.options["beta1"] = first;
    method.options["beta2"] = second;
  }
  if (known->betas && method.type != "Lion") {
    params.only("bias_correction", {true}, "Hero's always corrects");
  }
  read_implementation(params, method);
  if (method.type == "Adam" || method.type == "AdamW") read_adam(params, method);
  params.finish();
  section.finish();
  return method;
}

Config::Method read_scheduler(JSONSection section) {
  Config::Method method;
  if (!section.present() || section.empty()) return method;
  method.type = read_type(section, {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"});
  if (method.type.empty()) return method;
  JSONSection params = section.section("params");
  read_curve(method.type, params, method.options);
  params.only("last_batch_iteration", {-1}, "checkpoints hold where the schedule is");
  params.finish();
  section.finish();
  return method;
}

}  // namespace hero::dist
