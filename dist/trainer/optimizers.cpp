#include <algorithm>
#include <cmath>
#include <numbers>

#include <hero/dist/one_bit.h>
#include <hero/dist/trainer/optimizers.h>
#include <hero/optim/adagrad.h>
#include <hero/optim/adam.h>
#include <hero/optim/lamb.h>
#include <hero/optim/lion.h>
#include <hero/optim/rmsprop.h>
#include <hero/optim/sgd.h>

namespace hero::dist {

namespace {

using Parameters = std::vector<Tensor>;

// Makes an optimizer with DeepSpeed's default values, where these differ from Hero's.
std::unique_ptr<optim::Optimizer> first_values(const std::string& type, const Parameters& leaves,
                                               const DataParallel& strategy) {
  if (type == "Adam" || type == "AdamW") {
    return std::make_unique<optim::AdamW>(leaves, optim::AdamWOptions{.weight_decay = 0.0});
  }
  if (type == "AdamL2") return std::make_unique<optim::Adam>(leaves);
  if (type == "SGD") return std::make_unique<optim::SGD>(leaves);
  if (type == "Lamb") {
    return std::make_unique<optim::LAMB>(leaves, optim::LAMBOptions{.eps = 1e-8});
  }
  if (type == "Lion") {
    return std::make_unique<optim::Lion>(leaves, optim::LionOptions{.lr = 1e-3});
  }
  if (type == "Adagrad") return std::make_unique<optim::Adagrad>(leaves);
  if (type == "RMSprop") return std::make_unique<optim::RMSprop>(leaves);
  if (type == "OneBitAdam") return std::make_unique<OneBitAdam>(strategy, leaves);
  if (type == "OneBitLamb")
    return std::make_unique<OneBitLAMB>(strategy, leaves, OneBitLAMBOptions{.eps = 1e-8});
  if (type == "ZeroOneAdam") return std::make_unique<ZeroOneAdam>(strategy, leaves);
  fail("trainer: optimizer '", type,
       "'; there are Adam, AdamW, SGD, Lamb, Lion, Adagrad, RMSprop, OneBitAdam, OneBitLamb and "
       "ZeroOneAdam");
}

// Options of a schedule, or what DeepSpeed takes where they are absent.
struct Warmup {
  explicit Warmup(const Config::Method& method)
      : least(value(method, "warmup_min_lr", 0.0)),
        most(value(method, "warmup_max_lr", 1e-3)),
        least_ratio(value(method, "warmup_min_ratio", 0.0)),
        cosine_ratio(value(method, "cos_min_ratio", 1e-4)),
        steps(std::max(2.0, value(method, "warmup_num_steps", 1000.0))),
        total(value(method, "total_num_steps", 0.0)),
        is_linear(value(method, "warmup_type", 0.0) != 0.0) {}

  static double value(const Config::Method& method, const char* name, double absent) {
    const auto at = method.options.find(name);
    return at == method.options.end() ? absent : at->second;
  }
  // From 0 to 1 while it warms up.
  double share(double taken) const {
    return is_linear ? taken / steps : std::log(taken + 1) / std::log(steps);
  }
  double decay_steps() const { return std::max(1.0, total - steps); }

  double least, most, least_ratio, cosine_ratio, steps, total;
  bool is_linear;
};

double decayed(const Warmup& warmup, double taken, bool decays) {
  double part = decays ? std::max(0.0, (warmup.total - taken) / warmup.decay_steps()) : 1.0;
  if (taken < warmup.steps) part = warmup.share(taken);
  return warmup.least + (warmup.most - warmup.least) * part;
}

double cosine(const Warmup& warmup, double taken) {
  if (taken < warmup.steps) {
    return warmup.least_ratio + (1 - warmup.least_ratio) * warmup.share(taken);
  }
  const double way = std::min(1.0, (taken - warmup.steps + 1) / warmup.decay_steps());
  const double ratio = (1 + std::cos(std::numbers::pi * way)) / 2;
  return std::max(0.0, warmup.cosine_ratio + (1 - warmup.cosine_ratio) * ratio);
}

bool is_in_bits(const std::string& type) {
  return type == "OneBitAdam" || type == "OneBitLamb" || type == "ZeroOneAdam";
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const Config::Method& method,
                                                 const Parameters& parameters,
                                                 const DataParallel& strategy,
                                                 core::SwapFile* file) {
  check(file == nullptr || method.type != "Lamb",
        "trainer: Lamb steps by norms of whole parameters, so its states cannot lie in a file; "
        "write \"offload_optimizer\": {\"device\": \"cpu\"}");
  auto optimizer = first_values(method.type, parameters, strategy);
  if (!is_in_bits(method.type)) {
    const bool has_halves = std::any_of(parameters.begin(), parameters.end(),
                                        [](const Tensor& leaf) { return is_half(leaf.dtype()); });
    if (has_halves) optimizer->use_master_weights();
    if (file != nullptr) optimizer->page_states(*file);
  }
  for (const auto& [name, value] : method.options) optimizer->set_option(name, value);
  return optimizer;
}

bool casts_products(const Config& config) {
  return config.compute == kFloat16 && is_in_bits(config.optimizer.type);
}

// Ranks that cut layers or stages among them would make bits of different rows: what they hold
// twice would come apart, and a step that one of them leaves out the others would take.
std::string pairing_problem(const Config& config) {
  const std::string& type = config.optimizer.type;
  if (!is_in_bits(type)) return "";
  if (config.zero.stage > 0) {
    return "is '" + type +
           "', which needs \"stage\": 0, where every rank has whole gradients and " +
           "states; with stage " + std::to_string(config.zero.stage) + " use Adam or Lamb" +
           (config.zero.stage == 3 ? ", and zero_quantized_gradients for fewer bytes" : "");
  }
  if (config.compute == kBFloat16) {
    return "is '" + type +
           "', which steps float32 parameters; use fp16, which casts their products, or Adam or " +
           "Lamb";
  }
  if (config.tensor > 1 || config.pipe > 1) {
    return "is '" + type +
           "', which needs \"tensor\": 1 and \"pipe\": 1; with these use Adam or Lamb";
  }
  return "";
}

optim::Curve make_curve(const Config::Method& method) {
  const Warmup warmup(method);
  const std::string type = method.type;
  check(type == "WarmupLR" || type == "WarmupDecayLR" || type == "WarmupCosineLR",
        "trainer: scheduler '", type, "'; there are WarmupLR, WarmupDecayLR and WarmupCosineLR");
  return [warmup, type](double base, int64_t t) {
    if (t == 0) return type == "WarmupCosineLR" ? 0.0 : warmup.least;
    const auto taken = static_cast<double>(t - 1);
    if (type == "WarmupCosineLR") return base * cosine(warmup, taken);
    return decayed(warmup, taken, type == "WarmupDecayLR");
  };
}

}  // namespace hero::dist
