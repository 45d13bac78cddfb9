#include <algorithm>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/fetching_backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/profile/metered_backend.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

bool is_taken_after(std::span<const FusedMapStep> steps, size_t i, int result) {
  return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                     [=](const FusedMapStep& step) {
                       const auto* const end = step.from.begin() + step.arity;
                       return std::find(step.from.begin(), end, result) != end;
                     });
}

void Backend::run(const call::FusedMap& call) {
  const std::span<const FusedMapStep> steps = call.steps;
  std::vector<Array> results(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<Operand> operands;
    const auto taken = std::span(steps[i].from).first(static_cast<size_t>(steps[i].arity));
    for (const int64_t from : taken) {
      operands.push_back(from < 0 ? call.inputs[static_cast<size_t>(~from)]
                                  : Operand(results[static_cast<size_t>(from)]));
    }
    const Array* const out =
        steps[i].out < 0 ? nullptr : &call.outs[static_cast<size_t>(steps[i].out)];
    // A later step takes what is not rounded yet.
    const bool is_taken = is_taken_after(steps, i, static_cast<int>(i));
    const Array& first = call.outs[0];
    results[i] = is_taken ? Array::empty(first.shape(), call.compute, first.device()) : *out;
    run(call::Map{steps[i].op, operands, call.compute, results[i]});
    if (is_taken && out != nullptr) run(call::Copy{results[i], *out});
    for (const int64_t from : taken) {
      if (from >= 0 && !is_taken_after(steps, i, static_cast<int>(from)))
        results[static_cast<size_t>(from)] = Array();
    }
  }
}

void Backend::run(const call::FusedMapSum& call) {
  const int64_t rows = call.out.numel();
  if (rows == 0) return;
  const Array all = Array::empty(call.shape, call.compute, call.out.device());
  if (all.numel() > 0) run(call::FusedMap{call.steps, call.inputs, call.compute, {&all, 1}});
  run(call::Reduce{ReduceKind::sum, all.reshape({rows, all.numel() / rows}), nullptr,
                   call.out.reshape({rows, 1})});
}

void Backend::run(const call::LogLikelihoodInPlace& call) {
  run(call::LogLikelihood{call.x, call.classes, call.out, call.log_sum});
  run(call::LogLikelihoodBack{call.g, call.x, call.classes, call.log_sum, call.x});
}

namespace {

Backend& plain_backend(Device device) {
  if (device.type == DeviceType::cpu) return cpu_backend();
  if (device == kPlannedHost) return planned_host_backend();
  if (device.type == DeviceType::meta) return meta_backend();
  return accelerator("backend", device).backend(device.index);
}

// see [note: forks]
[[maybe_unused]] const bool kCpuBackendAtFork = at_fork([] {
  try {
    cpu_backend();
  } catch (const std::exception&) {  // the first kernel will say it again, to somebody who listens
  }
});

}  // namespace

Backend& backend(Device device) {
  Backend* found = &plain_backend(device);
  if (has_fetchers() && device.type != DeviceType::meta) found = &fetching(*found);
  if (!cost_meter) return *found;
  return metered(*found, device == kPlannedHost ? KernelPlace::host : KernelPlace::device);
}

}  // namespace hero::core
