// Optimizers and schedules by DeepSpeed's names.
#include <vector>

#include <hero/core/json/reader.h>
#include <hero/core/threads/at_fork.h>
#include <hero/dist/trainer/read_sections.h>

namespace hero::dist {

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
  params.any("cuda_aware");         // the engine of the ranks knows
  params.any("comm_backend_name");  // ranks have one engine for everything
  params.only("amsgrad", false, "v stays after the freeze");
  params.only("eps_inside_sqrt", false, "eps is added to the root");
  params.only("max_grad_norm", 0.0, "write gradient_clipping");
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

// False for a type that is not known.
bool read_curve(const std::string& type, JSONSection& params, Numbers& into) {
  const Names ends = {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps"};
  if (type == "WarmupLR" || type == "WarmupDecayLR") {
    read_numbers(params, ends, into);
    read_warmup_type(params, into);
    if (type == "WarmupLR") return true;
    read_numbers(params, {"total_num_steps"}, into);
    require(params, {"total_num_steps"}, into);
    return true;
  }
  if (type == "WarmupCosineLR") {
    read_numbers(
        params, {"total_num_steps", "warmup_min_ratio", "warmup_num_steps", "cos_min_ratio"}, into);
    read_warmup_type(params, into);
    require(params, {"total_num_steps"}, into);
    return true;
  }
  return false;
}

}  // namespace

Config::Method read_optimizer(JSONSection section) {
  Config::Method method;
  if (!section.present()) return method;
  method.type = section.text("type", "");
  section.only("legacy_fusion", false, "there is one implementation of each optimizer");
  JSONSection params = section.section("params");
  const Known* known = nullptr;
  Names types;
  for (const Known& each : optimizers()) {
    types.push_back(each.type);
    if (method.type == each.type) known = &each;
  }
  if (known == nullptr) {
    section.problem("type", "is '" + method.type + "'; there are " + listed(types));
    return method;
  }
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
    params.only("bias_correction", true, "Hero's always corrects");
  }
  if (method.type == "Adam") {
    params.any("torch_adam");  // which implementation; here is one
    if (!params.flag("adam_w_mode", true)) method.type = "AdamL2";
  }
  params.finish();
  section.finish();
  return method;
}

Config::Method read_scheduler(JSONSection section) {
  Config::Method method;
  if (!section.present()) return method;
  method.type = section.text("type", "");
  JSONSection params = section.section("params");
  if (!read_curve(method.type, params, method.options)) {
    section.problem(
        "type", "is '" + method.type + "'; there are WarmupLR, WarmupDecayLR and WarmupCosineLR");
    return method;
  }
  params.finish();
  section.finish();
  return method;
}

}  // namespace hero::dist
