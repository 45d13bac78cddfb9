// What this machine does, as numbers of a Cluster.
#include <algorithm>
#include <chrono>

#include <unistd.h>

#include <hero/autograd/autograd.h>
#include <hero/dist/launch.h>
#include <hero/dist/plan.h>

namespace hero::dist {

namespace {

double now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

double& part_of(Cluster& cluster, core::WorkKind kind) {
  return cluster.efficiency[static_cast<size_t>(kind)];
}

// Flops a second of square products.
double product_speed(int64_t n, DType dtype) {
  const Tensor a = randn({n, n}).to(dtype), b = randn({n, n}).to(dtype);
  return 2.0 * static_cast<double>(n * n * n) / seconds_of([&] { matmul(a, b); });
}

// The peak is the fastest product; the part of it that kernels reach is that of a middle size.
void measure_products(Cluster& cluster) {
  double fastest = 0.0;
  for (const int64_t n : {256, 512, 1024}) {
    fastest = std::max(fastest, product_speed(n, kFloat32));
  }
  cluster.float32_flops = fastest;
  const auto part = [&](double speed) { return std::clamp(speed / fastest, 0.01, 1.0); };
  part_of(cluster, core::WorkKind::matmul) = part(product_speed(384, kFloat32));
  cluster.half_flops = product_speed(512, kBFloat16) / part_of(cluster, core::WorkKind::matmul);
  const int64_t heads = 8, positions = 256, width = 64;
  const Tensor q = randn({1, heads, positions, width});
  const double seconds =
      seconds_of([&] { scaled_dot_product_attention(q, q, q, {.is_causal = true}); });
  part_of(cluster, core::WorkKind::attention) =
      part(2.0 * static_cast<double>(heads * positions * positions * width) / seconds);
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
  part_of(cluster, core::WorkKind::elementwise) = elementwise / fastest;
  part_of(cluster, core::WorkKind::reduce) = reduce / fastest;
  part_of(cluster, core::WorkKind::copy) = copy / fastest;
  part_of(cluster, core::WorkKind::window) = copy / fastest;
  const Tensor small = randn({8});
  cluster.launch_seconds = seconds_of([&] { small + small; });
}

// all_reduce of a few bytes and of many, on threads.
void measure_link(Cluster& cluster, int ranks) {
  double small = 0.0, large = 0.0;
  const int64_t n = int64_t{1} << 20;
  run_ranks(ranks, [&](Communicator& world) {
    const auto seconds = [&](int64_t count) {
      const Array x = Array::zeros({count}, kFloat32);
      const int times = 10;
      world.all_reduce(x);
      const double begin = now();
      for (int i = 0; i < times; ++i) world.all_reduce(x);
      return (now() - begin) / times;
    };
    const double few = seconds(1), many = seconds(n);
    if (world.rank() == 0) {
      small = few;
      large = many;
    }
  });
  // g - 1 latencies, and 2 n (g - 1) / g bytes of a rank
  const double sent = 8.0 * static_cast<double>(n) * (ranks - 1) / ranks;
  cluster.inside = {small / (ranks - 1), sent / std::max(large - small, 1e-9)};
  cluster.outside = cluster.inside;
}

}  // namespace

Cluster calibrate(int ranks) {
  check(ranks >= 1, "calibrate: ", ranks, " ranks; there must be at least one");
  const NoGrad no_grad;
  Cluster cluster;
  cluster.per_host = ranks;
  cluster.memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / ranks;
  measure_products(cluster);
  measure_memory(cluster);
  measure_link(cluster, std::max(ranks, 2));
  return cluster;
}

}  // namespace hero::dist
