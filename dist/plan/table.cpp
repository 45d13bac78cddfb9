// A plan as lines of text.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include <hero/dist/plan.h>

namespace hero::dist {

namespace {

std::string line(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string line(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

struct BytesUnit {
  const char* name;
  double bytes;

  double of(double count) const { return count / bytes; }
};

// The largest of which there is at least one.
BytesUnit unit_of(double bytes) {
  if (bytes < 1e6) return {"kB", 1e3};
  if (bytes < 1e9) return {"MB", 1e6};
  return {"GB", 1e9};
}

// In which all of a plan's bytes are shown.
BytesUnit unit_of(const Plan& plan) {
  int64_t most = plan.best.empty() ? plan.request.cluster.memory : 0;
  for (const PlanEntry& entry : plan.best) most = std::max(most, entry.cost->memory);
  return unit_of(static_cast<double>(most));
}

std::string whole(int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  const BytesUnit unit = unit_of(count);
  return line("%.0f %s", unit.of(count), unit.name);
}

std::string why(const Plan& plan, const PlanGroup& group) {
  const BytesUnit unit = unit_of(plan);
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (group.too_large > 0) {
    add(line("%lld too large, by %.1f %s or more", static_cast<long long>(group.too_large),
             unit.of(static_cast<double>(group.least_memory - plan.request.cluster.memory)),
             unit.name));
  }
  if (group.host_too_large > 0) {
    add(line("%lld too large for the hosts, by %.1f %s per rank or more",
             static_cast<long long>(group.host_too_large),
             unit.of(static_cast<double>(group.least_over)), unit.name));
  }
  const double best = plan.best.empty() ? 0.0 : plan.best.front().cost->seconds;
  const auto than_best = [&](double seconds) { return 100 * (seconds / best - 1); };
  if (group.slower > 0) {
    add(line("%lld slower, by %.0f%% or more", static_cast<long long>(group.slower),
             than_best(group.least_seconds)));
  }
  if (group.needless > 0) {
    add(line("%lld fit with less offload", static_cast<long long>(group.needless)));
  }
  if (group.simulated > 0) {
    add(line("%lld simulated, the best %+.0f%%", static_cast<long long>(group.simulated),
             than_best(group.best_seconds)));
  }
  if (group.not_simulated > 0) {
    add(line("%lld not simulated", static_cast<long long>(group.not_simulated)));
  }
  return text;
}

}  // namespace

std::string table(const Plan& plan) {
  const PlanRequest& r = plan.request;
  const BytesUnit unit = unit_of(plan);
  std::string text = line("%d ranks, %d per host with %s each; %lld ", r.ranks, r.cluster.per_host,
                          whole(r.cluster.memory).c_str(), static_cast<long long>(r.global_batch));
  text += r.own ? std::string("samples per step\n")
                : line("sequences of %lld per step\n", static_cast<long long>(r.model.block_size));
  const bool has_hosts = r.cluster.host_memory > 0;
  if (has_hosts) text += whole(host_share(r)) + " of the hosts' memory for each rank\n";
  text += line("%lld strategies, %lld of them simulated\n\n",
               static_cast<long long>(plan.strategies), static_cast<long long>(plan.simulated));
  if (plan.best.empty()) {
    text += "none fits\n";
  } else {
    text += std::string("     step s ") + (r.own ? " samples/s" : "  tokens/s") +
            "    MFU    HFU  memory " + (has_hosts ? "   host " : "") + " inside outside " +
            unit.name + "  strategy\n";
  }
  const double tokens =
      static_cast<double>(r.own ? r.global_batch : r.global_batch * r.model.block_size);
  const double peak = r.cluster.peak_flops(r.dtype) * r.ranks;
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const PlanCost& cost = *plan.best[i].cost;
    const auto utilisation = [&](double flops) { return 100 * flops / (cost.seconds * peak); };
    text += line("%2d %#8.4g %10.0f %5.1f%% %5.1f%% %7.1f ", static_cast<int>(i + 1), cost.seconds,
                 tokens / cost.seconds, utilisation(model_flops(r)),
                 utilisation(hardware_flops(r, plan.best[i].strategy)),
                 unit.of(static_cast<double>(cost.memory)));
    if (has_hosts) text += line("%7.1f ", unit.of(static_cast<double>(cost.host)));
    text += line("%7.1f %7.1f     ", unit.of(cost.inside), unit.of(cost.outside));
    text += plan.best[i].strategy.text() + "\n";
  }
  text += "\nt tensor ranks, p stages: what became of all strategies\n";
  for (const PlanGroup& group : plan.groups) {
    text += line("  t %-2d p %-3d %4lld: ", group.tensor, group.pipe,
                 static_cast<long long>(group.strategies)) +
            why(plan, group) + "\n";
  }
  return text;
}

}  // namespace hero::dist
