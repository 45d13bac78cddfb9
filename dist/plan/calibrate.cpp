// Measures this machine as a Cluster.
#include <algorithm>
#include <chrono>

#include <unistd.h>

#include <hero/autograd/autograd.h>
#include <hero/core/threads/cores.h>
#include <hero/dist/launch.h>
#include <hero/dist/plan.h>
#include <hero/optim/adam.h>

namespace hero::dist {

namespace {

double now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The median time of a call, after one that does not count; at most a fifth of a second.
double seconds_of(const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const double begin = now();
  while (times.size() < 5 || (now() - begin < 0.1 && times.size() < 1000)) {
    const double start = now();
    call();
    times.push_back(now() - start);
    if (now() - begin > 0.2 && times.size() >= 3) break;
  }
  return median(std::move(times));
}

double& part_of(Cluster& cluster, core::KernelKind kind) {
  return cluster.efficiency[static_cast<size_t>(kind)];
}

// Flops a second of square products.
double product_speed(int64_t n, DType dtype) {
  const Tensor a = randn({n, n}).to(dtype), b = randn({n, n}).to(dtype);
  return 2.0 * static_cast<double>(n * n * n) / seconds_of([&] { matmul(a, b); });
}

// Flops a second of a block's two products behind attention, forward and backward.
double layer_speed(const nn::GPTConfig& model) {
  const int64_t rows = 512, width = std::min<int64_t>(model.n_embd, 1024);
  const Tensor x = randn({rows, width}, {.requires_grad = true});
  const Tensor in = randn({4 * width, width}, {.requires_grad = true});
  const Tensor out = randn({width, 4 * width}, {.requires_grad = true});
  const auto products = [&] { grad({sum(linear(linear(x, in), out))}, {x, in, out}); };
  return 3 * 2 * 2.0 * static_cast<double>(rows * width * 4 * width) / seconds_of(products);
}

// Of causal attention, forward and backward, as they are counted: a backward is 2.5 forwards.
double attention_speed(const nn::GPTConfig& model) {
  const int64_t positions = std::min<int64_t>(model.block_size, 512);
  const int64_t heads = std::min<int64_t>(model.n_head, 16), width = model.n_embd / model.n_head;
  const Tensor q = randn({512 / positions, heads, positions, width}, {.requires_grad = true});
  const auto attention = [&] {
    grad({sum(scaled_dot_product_attention(q, q, q, {.is_causal = true}))}, {q});
  };
  const double pairs = 0.5 * static_cast<double>(positions * (positions + 1));
  const double products = 4.0 * static_cast<double>(q.size(0) * heads * width) * pairs;
  return 3.5 * products / seconds_of(attention);
}

// The peak is the fastest product; the parts of it that kernels reach are those of the model's
// sizes, as far as a few seconds allow.
void measure_products(Cluster& cluster, const nn::GPTConfig& model) {
  double fastest = 0.0;
  {
    const NoGrad no_grad;
    for (const int64_t n : {256, 512, 1024}) {
      fastest = std::max(fastest, product_speed(n, kFloat32));
    }
    cluster.half_flops = product_speed(512, kBFloat16) * fastest / product_speed(512, kFloat32);
  }
  cluster.float32_flops = fastest;
  const auto part = [&](double speed) { return std::clamp(speed / fastest, 0.01, 1.0); };
  part_of(cluster, core::KernelKind::matmul) = part(layer_speed(model));
  part_of(cluster, core::KernelKind::attention) = part(attention_speed(model));
}

// Passes over arrays larger than the caches; each part is of the fastest one's rate.
void measure_memory(Cluster& cluster) {
  const int64_t n = int64_t{4} << 20;
  const Tensor a = randn({n / 1024, 1024}), b = randn({n / 1024, 1024});
  const double bytes = 4.0 * static_cast<double>(n);
  const double elementwise = 3 * bytes / seconds_of([&] { a + b; });
  const double reduce = bytes / seconds_of([&] { sum(a); });
  const double copy = 2 * bytes / seconds_of([&] { a.clone(); });
  const double fastest = std::max({elementwise, reduce, copy});
  cluster.memory_bytes_per_second = fastest;
  part_of(cluster, core::KernelKind::elementwise) = elementwise / fastest;
  part_of(cluster, core::KernelKind::reduce) = reduce / fastest;
  part_of(cluster, core::KernelKind::copy) = copy / fastest;
  part_of(cluster, core::KernelKind::window) = copy / fastest;
  const Tensor small = randn({8});
  cluster.launch_seconds = seconds_of([&] { small + small; });
}

// What the cluster's devices would take for the calls that it sees.
class CostTimer : public core::CostMeter {
 public:
  explicit CostTimer(const Cluster& cluster) : cluster_(cluster) {}
  void charge(const core::KernelCost& cost) override { seconds += cluster_.seconds(cost); }
  double seconds = 0.0;

 private:
  const Cluster& cluster_;
};

// A step of two blocks of the model on one sequence or a few, against what the numbers so far say
// of it: all efficiencies are scaled alike. So what lies between kernels, and what kernels of these
// sizes take beside large ones, is in them.
void measure_step(Cluster& cluster, const nn::GPTConfig& model) {
  nn::GPTConfig config = model;
  config.n_layer = std::min<int64_t>(model.n_layer, 2);
  config.block_size = std::min<int64_t>(model.block_size, 512);
  if (model.n_embd > 1024 && model.n_embd % 1024 == 0 && 1024 % model.n_head == 0) {
    config.n_embd = 1024;
  }
  config.vocab_size = std::min<int64_t>(model.vocab_size, 4096);
  nn::GPT gpt(config);
  optim::AdamW adamw(gpt.parameters(), {.lr = 1e-4});
  const Tensor tokens = zeros({512 / config.block_size, config.block_size}, kInt64);
  const auto step = [&] {
    gpt.loss(tokens, tokens).backward();
    adamw.step();
    adamw.zero_grad();
  };
  step();
  CostTimer priced(cluster);
  {
    const core::CostScope scope(&priced);
    step();
  }
  const double factor = priced.seconds / seconds_of(step);
  for (double& part : cluster.efficiency) part = std::clamp(part * factor, 1e-3, 1.0);
}

// The median time of an all_reduce of so many numbers.
double seconds_of_sum(const Communicator& world, int64_t count) {
  const Array x = Array::zeros({count}, kFloat32);
  std::vector<double> times;
  for (int i = 0; i < 41; ++i) {
    const double begin = now();
    world.all_reduce(x);
    times.push_back(now() - begin);
  }
  return median(std::move(times));
}

// all_reduce of a few bytes and of many.
void measure_link(Cluster& cluster, const Communicator& world) {
  const int ranks = world.size();
  const int64_t n = int64_t{1} << 20;
  const double few = seconds_of_sum(world, 1), many = seconds_of_sum(world, n);
  // g - 1 latencies, and 2 n (g - 1) / g bytes of a rank
  const double sent = 8.0 * static_cast<double>(n) * (ranks - 1) / ranks;
  cluster.inside = {few / (ranks - 1), sent / std::max(many - few, 1e-9)};
  cluster.outside = cluster.inside;
}

// Each rank has a core to itself where there are as many.
RunOptions on_own_cores(int ranks) {
  return {.bind_to_cores = static_cast<size_t>(ranks) <= core::usable_cores().size()};
}

// How much later than it could a rank goes on that slept while a link was busy for 2 ms.
void measure_wake(Cluster& cluster, int ranks, const RunOptions& options) {
  constexpr int64_t kCount = 1 << 10;
  constexpr double kBusy = 2e-3;
  RunOptions slow = options;
  // 2 n (g - 1) / g bytes of a rank, as above
  slow.link_bytes_per_second = 8.0 * kCount * (ranks - 1) / ranks / kBusy;
  run_ranks(
      ranks,
      [&](const Communicator& world) {
        const double seconds = seconds_of_sum(world, kCount);
        if (world.rank() == 0) cluster.wake_seconds = std::max(0.0, seconds - kBusy);
      },
      slow);
}

}  // namespace

Cluster calibrate(int ranks, const nn::GPTConfig& model) {
  check(ranks >= 1, "calibrate: ", ranks, " ranks; there must be at least one");
  Cluster cluster;
  cluster.device = DeviceType::cpu;
  cluster.per_host = ranks;
  cluster.memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / ranks;
  // All ranks at the same time, since they share cores and memory.
  run_ranks(
      ranks,
      [&](Communicator& world) {
        Cluster mine = cluster;
        measure_products(mine, model);
        {
          const NoGrad no_grad;
          measure_memory(mine);
        }
        measure_step(mine, model);
        if (world.size() > 1) measure_link(mine, world);
        world.barrier();
        if (world.rank() == 0) cluster = mine;
      },
      on_own_cores(ranks));
  const int linked = std::max(ranks, 2);
  if (ranks == 1) {
    run_ranks(
        linked,
        [&](Communicator& world) {
          Cluster mine = cluster;
          measure_link(mine, world);
          if (world.rank() == 0) cluster = mine;
        },
        on_own_cores(linked));
  }
  measure_wake(cluster, linked, on_own_cores(linked));
  return cluster;
}

}  // namespace hero::dist
