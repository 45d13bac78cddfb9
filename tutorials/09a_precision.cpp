// Mixed precision: the same training in 16 and in 32 bits, and 16 bytes for each parameter
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "support/lessons/memory.h"
#include "support/options/device.h"
#include "support/options/program.h"
#include "support/pictures/plot.h"

#include <hero/core/functions/half_products.h>
#include <hero/optim/optim.h>

namespace optim = hero::optim;
using hero::DType, hero::kBFloat16, hero::kFloat16, hero::kFloat32, hero::Tensor;
using tutorial::device, tutorial::Network, tutorial::Values;

namespace {

struct Student : hero::nn::Module {
  hero::nn::Linear& fc1 = add<hero::nn::Linear>("fc1", 64, 128);
  hero::nn::Linear& fc2 = add<hero::nn::Linear>("fc2", 128, 64);
  Tensor forward(const Tensor& x) override { return fc2(tanh(fc1(x))); }
};

constexpr double kSmall = 0x1p-12;  // of the loss: as in a mean over 4096 times as many rows

/// How one of the runs stores and computes.
struct Precision {
  const char* name;
  DType parameters = kFloat32;
  bool autocast = false;  // products in bfloat16
  bool masters = false;   // the optimizer keeps float32 copies
  bool scaler = false;    // the loss is scaled
};

constexpr Precision kRuns[] = {
    {.name = "float32"},
    {.name = "float32, autocast", .autocast = true},
    {.name = "bfloat16", .parameters = kBFloat16},
    {.name = "bfloat16, masters", .parameters = kBFloat16, .masters = true},
    {.name = "float16, masters", .parameters = kFloat16, .masters = true},
    {.name = "  and a scaler", .parameters = kFloat16, .masters = true, .scaler = true},
};

std::unique_ptr<optim::Optimizer> make_adam(const std::vector<Tensor>& params, bool masters,
                                            double lr) {
  const optim::AdamOptions options = {.lr = lr, .eps = 1e-12};
  if (masters) return std::make_unique<optim::MasterWeights<optim::Adam>>(params, options);
  return std::make_unique<optim::Adam>(params, options);
}

double share_of_zeros(const std::vector<Tensor>& params) {
  int64_t zeros = 0, all = 0;
  for (const Tensor& p : params) {
    zeros += sum(p.grad() == 0).item<int64_t>();
    all += p.numel();
  }
  return 100.0 * static_cast<double>(zeros) / static_cast<double>(all);
}

struct Outcome {
  Values losses;
  double zeros = 0.0;  // per cent of the gradients, at the last step
  int left_out = 0;    // steps that the scaler did not take
  double scale = 1.0;
};

Outcome train(const Precision& run, const Tensor& x, const Tensor& target, int steps, double lr) {
  hero::manual_seed(3);
  Student net;
  net.to(run.parameters);
  Outcome outcome;
  // [snippet: train]
  const auto adam = make_adam(net.parameters(), run.masters, lr);
  optim::GradScaler scaler({.init_scale = 0x1p40, .growth_interval = 100, .enabled = run.scaler});
  for (int step = 0; step < steps; ++step) {
    adam->zero_grad();
    Tensor loss;
    {
      const hero::Autocast autocast({.dtype = kBFloat16, .enabled = run.autocast});
      const Tensor y = net(x.to(run.parameters)).to(kFloat32);
      loss = mse_loss(y, target) * kSmall;
    }
    scaler.scale(loss).backward();
    outcome.zeros = share_of_zeros(net.parameters());
    outcome.left_out += !scaler.step(*adam);
    scaler.update();
    outcome.losses.push_back(loss.item() / kSmall);
  }
  // [end]
  outcome.scale = scaler.get_scale();
  return outcome;
}

struct LossCurve {
  std::string name;
  Values losses;
};
void draw_losses(const std::vector<LossCurve>& curves, const std::string& folder) {
  tutorial::Figure figure("The same run in other precisions", "step", "loss");
  figure.patterned().log_y().y_range(0.05, 1.0).height(640);
  figure.y_ticks({{0.05, "0.05"}, {0.1, "0.1"}, {0.2, "0.2"}, {0.5, "0.5"}, {1.0, "1"}});
  for (const LossCurve& curve : curves) {
    Values x;
    for (size_t i = 0; i < curve.losses.size(); ++i) x.push_back(static_cast<double>(i + 1));
    figure.line(curve.name, x, curve.losses);
  }
  figure.save(folder, "09a_precision");
}

void compare_precisions(int steps, double lr, const std::string& folder) {
  // The same digits on every machine.
  hero::set_half_products(hero::HalfProducts::portable);
  hero::manual_seed(2);
  const hero::TensorOptions there = {.device = device()};
  const Tensor x = hero::rand({256, 64}, there) * 2.0 - 1.0;
  const Tensor target = tanh(matmul(x, hero::rand({64, 64}, there) - 0.5));
  std::printf("# the same %d steps of Adam in other precisions\n", steps);
  std::printf("parameters            loss: first   last   zero gradients  left out  scale\n");
  std::vector<LossCurve> curves;
  for (const Precision& run : kRuns) {
    const Outcome outcome = train(run, x, target, steps, lr);
    std::printf("%-20s %12.2f %6.2f %14.0f %% %9d  2^%d\n", run.name, outcome.losses.front(),
                outcome.losses.back(), outcome.zeros, outcome.left_out, std::ilogb(outcome.scale));
    curves.push_back({run.scaler ? "float16, masters, scaler" : run.name, outcome.losses});
  }
  draw_losses(curves, folder);
}

void measure_sixteen_bits() {
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  Network net;
  net.to(kFloat16);
  optim::MasterWeights<optim::Adam> adam(net.parameters());
  const tutorial::Batch batch = tutorial::random_batch(64);
  cross_entropy(net(batch.images.to(kFloat16)), batch.labels).backward();
  adam.step();
  const auto each = [n = static_cast<double>(net.parameter_count())](int64_t bytes) {
    return static_cast<double>(bytes) / n;
  };
  int64_t copy = 0, momentum = 0, variance = 0;
  for (const auto& [name, array] : adam.state_dict()) {
    if (name.starts_with("master.")) copy += array.nbytes();
    if (name.ends_with(".exp_avg")) momentum += array.nbytes();
    if (name.ends_with(".exp_avg_sq")) variance += array.nbytes();
  }
  const auto live = [&](hero::MemoryTag tag) { return ledger.live(tag, device().type); };
  const double p = each(live(hero::MemoryTag::parameter));
  const double g = each(live(hero::MemoryTag::gradient));
  const double o = each(live(hero::MemoryTag::optimizer));
  std::printf("\n# 16-bit training with Adam: bytes for x parameters, measured\n");
  std::printf("parameters       %5.2f x\n", p);
  std::printf("gradients        %5.2f x\n", g);
  std::printf("optimizer state  %5.2f x\n", o);
  std::printf("  parameter copy %5.2f x\n  momentum       %5.2f x\n  variance       %5.2f x\n",
              each(copy), each(momentum), each(variance));
  std::printf("7.5 billion parameters: %.1f GB on one device; with 64 of them, sharing out\n",
              7.5 * (p + g + o));
  std::printf("  the optimizer state   %5.1f GB\n", 7.5 * (p + g + o / 64.0));
  std::printf("  and the gradients     %5.1f GB\n", 7.5 * (p + (g + o) / 64.0));
  std::printf("  and the parameters    %5.1f GB\n", 7.5 * (p + g + o) / 64.0);
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program = {.title = "The same training in 16 and in 32 bits.",
                                     .momentum = false};
  return tutorial::run(argc, argv, program, [](const tutorial::Options& options) {
    compare_precisions(options.steps.value_or(400), options.lr.value_or(2e-4), options.out);
    measure_sixteen_bits();
  });
}
